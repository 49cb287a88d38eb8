//! The stages that cut the set of candidates.
//!
//! Probabilities are `exp(l - l_max) / mass` with the mass summed by the contract's reduction rule over ascending ids;
//! cumulative sums are sequential in the order of the walk. No stage removes the last candidate.

use super::super::candidates::Candidates;
use super::super::math;
use super::super::ranking::{Ranked, Ranking};
use super::super::sampler::NEGLIGIBLE;

/// Keeps the `k` best.
pub(crate) fn top_k(candidates: &mut Candidates, k: u32) {
    candidates.ranking().keep_best(k as usize);
}

/// Keeps logits within `n` standard deviations of the best one.
pub(crate) fn top_n_sigma(candidates: &mut Candidates, n: f32) {
    let count = candidates.ranking().len() as f32;
    let best = candidates.ranking().best_value();
    let mean = candidates.sum(|logit| logit) / count;
    let variance = candidates.sum(|logit| (logit - mean) * (logit - mean)) / count;
    let bound = best - n * variance.sqrt();
    // Logits near the end of f32 overflow the variance: nothing is an outlier then.
    if !bound.is_nan() {
        candidates.ranking().keep_at_least(bound, 1);
    }
}

/// Keeps candidates in order of `|surprise - entropy|` until they hold more than `p` of the probability.
pub(crate) fn typical_p(candidates: &mut Candidates, p: f32, min_keep: u32, scores: &mut Ranking) {
    let (softmax, entropy) = candidates.softmax_and_entropy();
    // Ranked by the negated distance, equal distances by id.
    let score = |t: Ranked| Ranked { value: -(softmax.surprise(t.value) - entropy).abs(), id: t.id };
    scores.fill(candidates.ranking().tokens_by_id().map(score));
    let mut cumulative = 0.0;
    let mut n = 0;
    while let Some(scored) = scores.at(n) {
        cumulative += softmax.probability(candidates.logit(scored.id));
        n += 1;
        if cumulative > p && n >= min_keep as usize {
            candidates.ranking().keep_if(|token| score(token).is_at_least(scored));
            return;
        }
    }
}

/// Keeps the best candidates until they hold at least `p` of the probability.
pub(crate) fn top_p(candidates: &mut Candidates, p: f32, min_keep: u32) {
    let softmax = candidates.softmax();
    let ranking = candidates.ranking();
    let mut cumulative = 0.0;
    let mut n = 0;
    while let Some(token) = ranking.at(n) {
        let probability = softmax.probability(token.value);
        if probability < cumulative * NEGLIGIBLE {
            // No later candidate moves the sum any more, so `p` is never reached.
            return;
        }
        cumulative += probability;
        n += 1;
        if cumulative >= p {
            break;
        }
    }
    ranking.keep_best(n.max(min_keep as usize));
}

/// Keeps candidates at least `p` times as probable as the best one.
pub(crate) fn min_p(candidates: &mut Candidates, p: f32, min_keep: u32) {
    let bound = candidates.ranking().best_value() + math::ln(p);
    candidates.ranking().keep_at_least(bound, min_keep.max(1) as usize);
}

/// Of the candidates at least `threshold` probable, drops all but the last.
pub(crate) fn xtc(candidates: &mut Candidates, threshold: f32, min_keep: u32) {
    let softmax = candidates.softmax();
    let ranking = candidates.ranking();
    let mut probable = 0;
    while ranking.at(probable).is_some_and(|t| softmax.probability(t.value) >= threshold) {
        probable += 1;
    }
    let dropped = probable.saturating_sub(1);
    if ranking.len() - dropped >= min_keep as usize {
        ranking.drop_best(dropped);
    }
}
