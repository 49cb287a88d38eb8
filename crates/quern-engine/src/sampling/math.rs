//! The float functions of sampling, all fixed to the last bit: elementary functions from `libm`, sums by the contract's
//! sixteen partials.

pub(crate) use libm::{expf as exp, log2f as log2, logf as ln, powf as pow};

/// Adds values by the contract's reduction rule: value i goes to partial i mod 16, then a fixed tree.
pub(crate) fn sum16(values: impl Iterator<Item = f32>) -> f32 {
    // -0.0 is the exact identity of addition, so a lane without values contributes nothing.
    let mut p = [-0.0f32; 16];
    let mut lane = 0;
    for value in values {
        p[lane] += value;
        lane = (lane + 1) % 16;
    }
    let evens = ((p[0] + p[8]) + (p[4] + p[12])) + ((p[2] + p[10]) + (p[6] + p[14]));
    let odds = ((p[1] + p[9]) + (p[5] + p[13])) + ((p[3] + p[11]) + (p[7] + p[15]));
    evens + odds
}

/// The largest value, or negative infinity for none.
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, tail) = values.as_chunks::<16>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.iter().chain(tail).copied().fold(f32::NEG_INFINITY, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule spelled out once more, lane by lane, over lengths around the lane count.
    #[test]
    fn sum16_follows_the_contract() {
        for n in 0..70usize {
            let x: Vec<f32> = (0..n).map(|i| 1.0 / (i as f32 + 3.0)).collect();
            let lane = |l: usize| x.iter().skip(l).step_by(16).copied().reduce(|a, b| a + b);
            let add = |a: Option<f32>, b: Option<f32>| match (a, b) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
            let half = |o: usize| {
                let quad = |i: usize| add(add(lane(i), lane(i + 8)), add(lane(i + 4), lane(i + 12)));
                add(quad(o), quad(o + 2))
            };
            let expected = add(half(0), half(1)).unwrap_or(-0.0);
            assert_eq!(sum16(x.iter().copied()).to_bits(), expected.to_bits(), "{n} values");
        }
    }

    #[test]
    fn max_sees_every_lane_and_the_tail() {
        for n in 1..40 {
            for at in 0..n {
                let mut x = vec![-1.0; n];
                x[at] = 7.0;
                assert_eq!(max(&x), 7.0);
            }
        }
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }
}
