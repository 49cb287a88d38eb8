//! Tests of sampling as a whole, by topic.

mod behaviour;
mod differential;
mod distribution;
mod published;
mod reference;

use super::candidates::Candidates;

/// Candidates over `ln(probabilities)`.
fn candidates(probabilities: &[f32]) -> Candidates {
    let logits: Vec<f32> = probabilities.iter().map(|p| libm::logf(*p)).collect();
    let mut candidates = Candidates::new(logits.len());
    candidates.load(&logits, None);
    candidates
}

/// What is left, best first, as (id, probability).
fn left(candidates: &mut Candidates) -> Vec<(u32, f32)> {
    let softmax = candidates.softmax();
    let ranking = candidates.ranking();
    (0..ranking.len()).filter_map(|i| ranking.at(i)).map(|t| (t.id, softmax.probability(t.value))).collect()
}

/// Numbers that look like logits: reproducible, roughly bell-shaped, `spread` their standard deviation.
fn logits(n: usize, seed: u64, spread: f32) -> Vec<f32> {
    let number =
        |i: u32, stage| super::uniform(seed, super::DrawAt { generated_index: i, choice: 0, stage }) - 0.5;
    (0..n as u32).map(|i| (0..12).map(|stage| number(i, stage)).sum::<f32>() * spread).collect()
}
