//! The recurrent mixers: every level against the rule written out, and any split of the rows against one call. The
//! publisher's own code is the judge one floor up, in quern-model's tiny models.

#![allow(clippy::unwrap_used)]

use quern_kernels::isa::Level;
use quern_kernels::math::{exp, reduce, sigmoid, silu, softplus};
use quern_kernels::pool::Pool;
use quern_kernels::recurrent::{
    ConvShape, DeltaInputs, DeltaShape, KeyHeads, delta_gates, delta_rule, short_conv,
};

struct Random(u64);

impl Random {
    fn floats(&mut self, n: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Rows in one call, one by one, and in uneven parts.
const SPLITS: [&[usize]; 3] = [&[11], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], &[2, 5, 1, 3]];
const ROWS: usize = 11;

#[test]
fn a_convolution_is_the_rule_however_its_rows_are_split() {
    let pool = Pool::new(2);
    let mut random = Random(1);
    for (channels, taps) in [(16, 4), (37, 4), (5, 1), (48, 7), (20, 13)] {
        let shape = ConvShape { channels, taps };
        let (x, weight) = (random.floats(ROWS * channels), random.floats(taps * channels));
        let before = random.floats(shape.state_len());
        let seen: Vec<f32> = before.iter().chain(&x).copied().collect();
        let expected: Vec<f32> = (0..ROWS * channels)
            .map(|i| {
                let (row, c) = (i / channels, i % channels);
                let acc = (0..taps).fold(0.0f32, |acc, tap| {
                    weight[tap * channels + c].mul_add(seen[(row + tap) * channels + c], acc)
                });
                silu(acc)
            })
            .collect();
        for level in Level::available() {
            for split in SPLITS {
                let (mut state, mut out) = (before.clone(), vec![0.0; x.len()]);
                let mut first = 0;
                for rows in split {
                    let part = first * channels..(first + rows) * channels;
                    let out = &mut out[part.clone()];
                    short_conv(&pool, level, shape, &mut state, &weight, &x[part], out);
                    first += rows;
                }
                assert_eq!(bits(&out), bits(&expected), "{shape:?} {level:?} {split:?}");
                assert_eq!(bits(&state), bits(&seen[ROWS * channels..]), "state of {shape:?} {level:?}");
            }
        }
    }
}

/// The delta rule of one sequence as rule 6 has it; the state as [n_v_heads, head_k_dim, head_v_dim].
fn by_the_rule(shape: DeltaShape, qkv: &[f32], decay: &[f32], rate: &[f32], state: &mut [f32]) -> Vec<f32> {
    let DeltaShape { n_k_heads, n_v_heads, head_k_dim: dk, head_v_dim: dv, key_heads } = shape;
    let mut out = Vec::new();
    for (row, qkv) in qkv.chunks(shape.channels()).enumerate() {
        let normed = |at: usize| -> Vec<f32> {
            let head = &qkv[at..at + dk];
            let r = 1.0 / (reduce(head, |v, p| v.mul_add(v, p)) + 1e-6).sqrt();
            head.iter().map(|v| v * r).collect()
        };
        for head in 0..n_v_heads {
            let key_head = match key_heads {
                KeyHeads::Grouped => head / (n_v_heads / n_k_heads),
                KeyHeads::Tiled => head % n_k_heads,
            };
            let q: Vec<f32> = normed(key_head * dk).iter().map(|q| q * (1.0 / (dk as f32).sqrt())).collect();
            let k = normed((n_k_heads + key_head) * dk);
            let gate = row * n_v_heads + head;
            for j in 0..dv {
                let v = qkv[2 * n_k_heads * dk + head * dv + j];
                let s = |i: usize| (head * dk + i) * dv + j;
                let mut read = 0.0;
                for i in 0..dk {
                    state[s(i)] *= decay[gate];
                    read = k[i].mul_add(state[s(i)], read);
                }
                let delta = (v - read) * rate[gate];
                let mut y = 0.0;
                for i in 0..dk {
                    state[s(i)] = k[i].mul_add(delta, state[s(i)]);
                    y = q[i].mul_add(state[s(i)], y);
                }
                out.push(y);
            }
        }
    }
    out
}

#[test]
fn the_delta_rule_is_the_rule_however_its_rows_are_split() {
    let pool = Pool::new(3);
    let mut random = Random(2);
    for (n_k_heads, n_v_heads, head_k_dim, head_v_dim, key_heads) in [
        (1, 1, 16, 16, KeyHeads::Grouped),
        (2, 6, 12, 20, KeyHeads::Tiled),
        (2, 6, 12, 20, KeyHeads::Grouped),
        (3, 3, 33, 5, KeyHeads::Tiled),
        (1, 2, 128, 128, KeyHeads::Tiled),
    ] {
        let shape = DeltaShape { n_k_heads, n_v_heads, head_k_dim, head_v_dim, key_heads };
        let qkv = random.floats(ROWS * shape.channels());
        let (mut alpha, mut beta) = (random.floats(ROWS * n_v_heads), random.floats(ROWS * n_v_heads));
        let a: Vec<f32> = random.floats(n_v_heads).iter().map(|a| -a.abs()).collect();
        let dt_bias = random.floats(n_v_heads);
        let decay: Vec<f32> = alpha
            .iter()
            .enumerate()
            .map(|(i, x)| exp(a[i % n_v_heads] * softplus(x + dt_bias[i % n_v_heads])))
            .collect();
        let rate: Vec<f32> = beta.iter().map(|x| sigmoid(*x)).collect();
        delta_gates(&mut alpha, &mut beta, &a, &dt_bias);
        assert_eq!((bits(&alpha), bits(&beta)), (bits(&decay), bits(&rate)));
        let mut expected_state = vec![0.0; n_v_heads * head_k_dim * head_v_dim];
        let expected = by_the_rule(shape, &qkv, &decay, &rate, &mut expected_state);
        for level in Level::available() {
            for split in SPLITS {
                let (mut state, mut qkv) = (vec![0.0; shape.state_len()], qkv.clone());
                let mut out = vec![0.0; expected.len()];
                let mut first = 0;
                for rows in split {
                    let part = |n: usize| first * n..(first + rows) * n;
                    let inputs = DeltaInputs { decay: &decay[part(n_v_heads)], rate: &rate[part(n_v_heads)] };
                    let out = &mut out[part(n_v_heads * head_v_dim)];
                    delta_rule(
                        &pool,
                        level,
                        shape,
                        &mut state,
                        &mut qkv[part(shape.channels())],
                        inputs,
                        out,
                    );
                    first += rows;
                }
                assert_eq!(bits(&out), bits(&expected), "{shape:?} {level:?} {split:?}");
            }
        }
    }
}
