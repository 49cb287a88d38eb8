//! The draw's distribution, at fixed seeds: each test is deterministic.

use super::super::params::SamplingParams;
use super::super::sampler::Sampler;

/// Logits, and their softmax at temperature 0.7 from NumPy in float64.
const LOGITS: [f32; 8] = [2.0, 1.0, 0.5, 0.0, -1.0, 1.0, 2.5, -0.5];
const PROBABILITIES: [f64; 8] = [
    0.267475485789,
    0.064100777392,
    0.031380000943,
    0.015361817739,
    0.003681475543,
    0.064100777392,
    0.546379415453,
    0.007520249750,
];

/// The 99.9% point of the chi-square distribution with 7 degrees of freedom, as tabulated.
const CHI_SQUARE_7_DF: f64 = 24.322;

fn chi_square(seed: u64, choice: u32, n_draws: usize) -> f64 {
    let params = SamplingParams { temperature: 0.7, seed: Some(seed), ..SamplingParams::default() };
    let mut sampler = Sampler::new(params, LOGITS.len()).unwrap();
    let generated = vec![0; n_draws];
    let mut counts = [0u32; 8];
    for n in 0..n_draws {
        counts[sampler.sample(&LOGITS, &generated[..n], choice, None).unwrap().id as usize] += 1;
    }
    let term = |(count, p): (u32, f64)| {
        let expected = p * n_draws as f64;
        let off = f64::from(count) - expected;
        off * off / expected
    };
    counts.into_iter().zip(PROBABILITIES).map(term).sum()
}

#[test]
fn draws_follow_the_softmax() {
    for (seed, choice) in [(0, 0), (1, 0), (1, 1), (u64::MAX, 0), (0x1234_5678_9abc_def0, 7)] {
        let statistic = chi_square(seed, choice, 20_000);
        assert!(statistic < CHI_SQUARE_7_DF, "seed {seed} choice {choice}: {statistic}");
        // As improbable on the other side (0.1% point): draws spread too evenly would not be random either.
        assert!(statistic > 0.598, "seed {seed} choice {choice}: {statistic}");
    }
}

/// Two parallel choices of one request draw independently: they agree as often as chance has it (the sum of squared
/// probabilities, within four standard deviations).
#[test]
fn choices_are_independent() {
    let n = 10_000;
    let params = SamplingParams { temperature: 0.7, seed: Some(5), ..SamplingParams::default() };
    let mut sampler = Sampler::new(params, LOGITS.len()).unwrap();
    let generated = vec![0; n];
    let mut draw = |n: usize, choice| sampler.sample(&LOGITS, &generated[..n], choice, None).unwrap().id;
    let agree = (0..n).filter(|i| draw(*i, 0) == draw(*i, 1)).count() as f64 / n as f64;
    let chance: f64 = PROBABILITIES.iter().map(|p| p * p).sum();
    assert!((agree - chance).abs() < 4.0 * (chance * (1.0 - chance) / n as f64).sqrt(), "{agree} {chance}");
}
