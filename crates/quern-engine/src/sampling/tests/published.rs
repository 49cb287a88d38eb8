//! Each stage against the input and output tables that llama.cpp publishes in its own sampling tests.

use super::super::params::SamplingParams;
use super::super::stages::{self, Dry, Penalties, PerToken};
use super::{candidates, left};

const FOUR: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

/// Compares what is left, best first, with expected probabilities up to a common factor (some tables list them before
/// normalisation).
fn check(got: &[(u32, f32)], expected: &[f32], tolerance: f32) {
    let total: f32 = expected.iter().sum();
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for ((_, p), want) in got.iter().zip(expected) {
        assert!((p - want / total).abs() < tolerance, "{got:?} {expected:?}");
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
        stages::typical_p(&mut c, 0.5, 0, &mut super::super::ranking::Ranking::default());
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
fn left_by_id(mut c: super::super::candidates::Candidates) -> Vec<(u32, f32)> {
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

#[test]
fn temperature() {
    let mut c = candidates(&FOUR);
    stages::temperature(&mut c, &SamplingParams { temperature: 1.0, ..SamplingParams::default() });
    check(&left(&mut c), &[0.4, 0.3, 0.2, 0.1], 1e-5);
}
