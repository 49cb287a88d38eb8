//! Each stage against llama.cpp: the input and output tables of its own sampling tests, and for stages without a table
//! the figures its library gave for the inputs below.

use super::super::candidates::Candidates;
use super::super::params::{Mirostat, SamplingParams};
use super::super::ranking::Ranking;
use super::super::stages::{self, Dry, MirostatState, Penalties, PerToken};
use super::{candidates, left};

const FOUR: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

/// Compares what is left, best first, with expected probabilities up to a common factor (some tables list them before
/// normalisation).
fn check(got: &[(u32, f32)], expected: &[f32], tolerance: f32) {
    let total: f32 = expected.iter().sum();
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for ((_, p), want) in got.iter().zip(expected) {
        assert!((p - want / total).abs() <= tolerance, "{got:?} {expected:?}");
    }
}

#[test]
fn top_k() {
    for (k, expected) in [(1, vec![1.0]), (3, vec![0.44444, 0.33333, 0.22222]), (4, vec![0.4, 0.3, 0.2, 0.1])]
    {
        let mut c = candidates(&FOUR);
        stages::top_k(&mut c, k);
        check(&left(&mut c), &expected, 1e-5);
    }
}

#[test]
fn top_p() {
    for (p, expected) in [
        (0.0, vec![1.0]),
        (0.7, vec![0.571429, 0.428571]),
        (0.8, vec![0.44444, 0.33333, 0.22222]),
        (1.0, vec![0.4, 0.3, 0.2, 0.1]),
    ] {
        let mut c = candidates(&FOUR);
        stages::top_p(&mut c, p, 0);
        check(&left(&mut c), &expected, 1e-5);
    }
}

/// Top-p keeps what holds at least p, typical-p what holds more: quarters, whose sums are exact, tell them apart.
#[test]
fn a_share_met_exactly() {
    let mut c = candidates(&[0.25; 4]);
    stages::top_p(&mut c, 0.5, 0);
    check(&left(&mut c), &[0.5; 2], 0.0);
    let mut c = candidates(&[0.25; 4]);
    stages::typical_p(&mut c, 0.5, 0, &mut Ranking::default());
    check(&left(&mut c), &[1.0 / 3.0; 3], 1e-6);
}

#[test]
fn min_p() {
    for (p, expected) in [
        (0.00, vec![0.4, 0.3, 0.2, 0.1]),
        (0.24, vec![0.4, 0.3, 0.2, 0.1]),
        (0.26, vec![0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9]),
        (0.49, vec![0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9]),
        (0.51, vec![0.4 / 0.7, 0.3 / 0.7]),
        (0.74, vec![0.4 / 0.7, 0.3 / 0.7]),
        (0.76, vec![1.0]),
        (1.00, vec![1.0]),
        (1.05, vec![1.0]),
    ] {
        let mut c = candidates(&FOUR);
        stages::min_p(&mut c, p, 0);
        check(&left(&mut c), &expected, 1e-5);
    }
}

#[test]
fn xtc() {
    for (threshold, expected) in [
        (0.09, vec![0.1]),
        (0.19, vec![0.2, 0.1]),
        (0.29, vec![0.3, 0.2, 0.1]),
        (0.39, vec![0.4, 0.3, 0.2, 0.1]),
    ] {
        let mut c = candidates(&[0.4, 0.3, 0.2, 0.1]);
        stages::xtc(&mut c, threshold, 0);
        check(&left(&mut c), &expected, 1e-5);
    }
}

#[test]
fn typical_p() {
    for (probabilities, ids) in [([0.97, 0.01, 0.01, 0.01], vec![0]), ([0.4, 0.2, 0.2, 0.2], vec![1, 2, 3])] {
        let mut c = candidates(&probabilities);
        stages::typical_p(&mut c, 0.5, 0, &mut Ranking::default());
        assert_eq!(left(&mut c).iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn top_n_sigma() {
    for (n, expected) in [(1.0, vec![0.571429, 0.428571]), (3.0, vec![0.4, 0.3, 0.2, 0.1])] {
        let mut c = candidates(&FOUR);
        stages::top_n_sigma(&mut c, n);
        check(&left(&mut c), &expected, 1e-5);
    }
}

/// What is left, by id.
fn left_by_id(mut c: Candidates) -> Vec<(u32, f32)> {
    let mut left = left(&mut c);
    left.sort_by_key(|(id, _)| *id);
    left
}

#[test]
fn penalties() {
    #[rustfmt::skip]
    let cases: [(&[u32], [f32; 5], [f32; 3]); 6] = [
        (&[0],             [0.0, 0.25, 0.25, 0.25, 0.25],                           [50.0, 0.0, 0.0]),
        (&[0, 1, 2],       [0.0, 0.0, 0.0, 0.5, 0.5],                               [50.0, 0.0, 0.0]),
        (&[0, 1, 2, 0, 0], [0.0, 0.0, 0.0, 0.5, 0.5],                               [50.0, 0.0, 0.0]),
        (&[0],             [0.000011, 0.249997, 0.249997, 0.249997, 0.249997],      [1.0, 5.0, 5.0]),
        (&[0, 1, 2],       [0.000023, 0.000023, 0.000023, 0.499966, 0.499966],      [1.0, 5.0, 5.0]),
        (&[0, 1, 2, 0, 0], [0.000000, 0.000023, 0.000023, 0.499977, 0.499977],      [1.0, 5.0, 5.0]),
    ];
    for (generated, expected, [repeat_penalty, frequency_penalty, presence_penalty]) in cases {
        let params = SamplingParams {
            repeat_penalty,
            frequency_penalty,
            presence_penalty,
            ..SamplingParams::default()
        };
        let mut c = candidates(&[0.2; 5]);
        let penalties = Penalties { params: &params, exempt: &[] };
        penalties.apply(&mut c, generated, &mut PerToken::new(5)).unwrap();
        check(&left_by_id(c), &expected, 1e-5);
    }
}

#[test]
fn dry() {
    type Case = (&'static [f32], &'static [u32], &'static [f32], (f32, u32, i32), &'static [u32]);
    #[rustfmt::skip]
    let cases: [Case; 5] = [
        (&[0.25; 4], &[0, 1],                &[0.25; 4],                                         (1.0, 2, 4), &[]),
        (&[0.25; 4], &[0, 1, 2, 0, 1],       &[0.296923, 0.296923, 0.109232, 0.296923],           (1.0, 2, 5), &[]),
        (&[0.2; 5],  &[0, 1, 3, 4, 0, 1],    &[0.2; 5],                                          (1.0, 2, 6), &[3]),
        (&[0.2; 5],  &[0, 1, 2, 0, 1],       &[0.241818, 0.241818, 0.032727, 0.241818, 0.241818], (2.0, 2, 5), &[]),
        (&[0.2; 5],  &[0, 1, 2, 3, 4, 0, 1], &[0.2; 5],                                          (1.0, 4, 7), &[]),
    ];
    for (probabilities, generated, expected, (multiplier, allowed_length, last_n), breaker) in cases {
        let params = SamplingParams {
            dry_multiplier: multiplier,
            dry_base: 1.1,
            dry_allowed_length: allowed_length,
            dry_penalty_last_n: last_n,
            dry_sequence_breakers: breaker.iter().map(|id| vec![*id]).collect(),
            ..SamplingParams::default()
        };
        let n_vocab = probabilities.len();
        let mut c = candidates(probabilities);
        let mut dry = Dry::new(&params, n_vocab).unwrap();
        dry.apply(&mut c, generated, &[], &mut PerToken::new(n_vocab)).unwrap();
        check(&left_by_id(c), expected, 1e-5);
    }
}

/// The chained cases: 10,000 tokens of logit ln(id). The probability of an id is then the id over a sum of ids, and
/// every expected count is integer arithmetic.
#[test]
fn chains() {
    let id_as_probability: Vec<f32> = (0..10_000).map(|id| id as f32).collect();
    #[rustfmt::skip]
    let cases = [
        // stages, top_k, top_p, min_p,              how many are left
        ("k",   100, 1.0,    1.0,                     100),
        ("p",     0, 0.0003, 1.0,                       2),
        ("p",     0, 0.8,    1.0,                    5528),
        ("m",     0, 1.0,    9997.9 / 9999.0,           2),
        ("m",     0, 1.0,    0.1,                    9000),
        ("kp",  100, 0.8,    1.0,                      80),
        ("km",  100, 1.0,    0.1,                     100),
        ("pk",  100, 0.8,    1.0,                     100),
        ("pm",    0, 0.8,    0.1,                    5528),
        ("mk",  100, 1.0,    0.1,                     100),
        ("mp",    0, 0.8,    9997.9 / 9999.0,           2),
        ("mp",    0, 0.8,    0.1,                    5440),
        ("kpm", 100, 0.8,    0.1,                      80),
        ("mpk", 100, 0.8,    0.1,                     100),
    ];
    for (chain, k, p, min, n_left) in cases {
        let mut c = candidates(&id_as_probability);
        for stage in chain.chars() {
            match stage {
                'k' => stages::top_k(&mut c, k),
                'p' => stages::top_p(&mut c, p, 1),
                _ => stages::min_p(&mut c, min, 1),
            }
        }
        let ids: Vec<u32> = left(&mut c).iter().map(|(id, _)| *id).collect();
        let expected: Vec<u32> = (10_000 - n_left..10_000).rev().collect();
        assert!(ids == expected, "{chain}: {} left instead of {n_left}", ids.len());
    }
}

const EIGHT: [f32; 8] = [2.0, 1.0, 0.5, 0.0, -1.0, 1.25, 2.5, -0.5];

fn of_logits(logits: &[f32]) -> Candidates {
    let mut candidates = Candidates::new(logits.len());
    candidates.load(logits, None);
    candidates
}

/// A thousand tokens whose probabilities follow a power law, in scattered order.
fn power_law() -> Candidates {
    let rank = |id: usize| (1 + id * 7 % 1000) as f32;
    of_logits(&(0..1000).map(|id| -1.3 * libm::logf(rank(id))).collect::<Vec<_>>())
}

#[test]
fn fixed_temperature() {
    for (temperature, expected) in [
        (0.3, [0.155750, 0.005556, 0.001049, 0.000198, 0.000007, 0.012785]),
        (1.5, [0.223651, 0.114826, 0.082277, 0.058954, 0.030268, 0.135651]),
    ] {
        let mut c = of_logits(&EIGHT);
        stages::temperature(&mut c, &SamplingParams { temperature, ..SamplingParams::default() });
        for ((_, p), want) in left_by_id(c).iter().zip(expected) {
            assert!((p - want).abs() < 1e-5, "{temperature}: {p} {want}");
        }
    }
}

#[test]
fn dynamic_temperature() {
    for (range, exponent, expected) in [
        (0.3, 0.5, [0.358477, 0.238401, 0.129293, 0.105439, 0.070121, 0.046633]),
        (0.3, 1.0, [0.372541, 0.242154, 0.126901, 0.102311, 0.066503, 0.043227]),
        (1.0, 1.0, [0.307308, 0.221907, 0.136165, 0.115708, 0.083553, 0.060333]),
        (1.0, 2.0, [0.368411, 0.241087, 0.127624, 0.103241, 0.067561, 0.044211]),
        (2.0, 0.5, [0.224683, 0.185766, 0.139656, 0.126987, 0.104992, 0.086806]),
    ] {
        let mut c = of_logits(&EIGHT);
        let params = SamplingParams {
            dynatemp_range: range,
            dynatemp_exponent: exponent,
            ..SamplingParams::default()
        };
        stages::temperature(&mut c, &params);
        for ((_, p), want) in left(&mut c).iter().zip(expected) {
            assert!((p - want).abs() < 1e-5, "{range} {exponent}: {p} {want}");
        }
    }
}

#[test]
fn typical_p_on_long_tails() {
    for (p, n_left) in [(0.2, 9), (0.5, 31), (0.9, 132)] {
        let mut c = power_law();
        stages::typical_p(&mut c, p, 0, &mut Ranking::default());
        assert_eq!(c.ranking().len(), n_left, "{p}");
        // The best token is far from typical; the six most typical ones are among what is left.
        let ids: Vec<u32> = left(&mut c).iter().map(|(id, _)| *id).collect();
        assert!([858, 715, 1, 144, 572, 287].iter().all(|id| ids.contains(id)));
    }
}

/// The first step's cut: mu is twice the target then.
#[test]
fn mirostat() {
    let check = |mut c: Candidates, version, tau, n_left: usize, best: f32| {
        let params = SamplingParams { mirostat_tau: tau, ..SamplingParams::default() };
        MirostatState::new(&params).truncate(&mut c, version, 1000);
        let left = left(&mut c);
        assert_eq!(left.len(), n_left, "{version:?} {tau}");
        assert!((left[0].1 - best).abs() < 1e-5, "{version:?} {tau}: {left:?}");
    };
    for (tau, n_left, best) in [(0.5, 1, 1.0), (1.0, 2, 0.622459), (3.0, 7, 0.419573), (5.0, 8, 0.414324)] {
        check(of_logits(&EIGHT), Mirostat::V2, tau, n_left, best);
    }
    for (tau, n_left, best) in [(1.5, 1, 1.0), (3.0, 9, 0.447282), (5.0, 78, 0.329860)] {
        check(power_law(), Mirostat::V2, tau, n_left, best);
    }
    for (tau, n_left, best) in [(1.0, 1, 1.0), (1.5, 2, 0.711174), (3.0, 10, 0.437476), (5.0, 90, 0.325818)] {
        check(power_law(), Mirostat::V1, tau, n_left, best);
    }
    for (tau, n_left, best) in [(3.0, 7, 0.347249), (5.0, 180, 0.124044)] {
        let mut warm = power_law();
        warm.set_temperature(1.5);
        check(warm, Mirostat::V1, tau, n_left, best);
    }
}

/// The surprise of a token of probability 1/8 is three bits; mu moves by the rate times its distance from the target.
#[test]
fn mirostat_learns_from_the_surprise() {
    let params = SamplingParams { mirostat_tau: 2.0, mirostat_eta: 0.5, ..SamplingParams::default() };
    let mut learned = MirostatState::new(&params);
    learned.observe(0.125, &params);
    // 2 * 2.0 - 0.5 * (3 - 2): as a fresh state with half of that as its target.
    let same = SamplingParams { mirostat_tau: 1.75, ..SamplingParams::default() };
    assert_eq!(learned, MirostatState::new(&same));
}
