//! Mirostat (Basu et al., 2021): truncation steered so that the surprise of the text stays near a target.
//!
//! The only stage with memory. `mu` starts at twice the target and moves with every token drawn, so a step that is taken
//! back must put it back too.

use super::super::candidates::Candidates;
use super::super::math;
use super::super::params::{Mirostat, SamplingParams};

/// How many of the best candidates version 1 estimates the exponent of the distribution from.
const ESTIMATED_FROM: usize = 100;

/// The state mirostat carries from token to token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MirostatState {
    /// The surprise, in bits, up to which candidates are admitted.
    mu: f32,
}

impl MirostatState {
    pub(crate) fn new(params: &SamplingParams) -> MirostatState {
        MirostatState { mu: 2.0 * params.mirostat_tau }
    }

    /// Cuts the candidates at the surprise admitted now.
    pub(crate) fn truncate(self, candidates: &mut Candidates, version: Mirostat, n_vocab: usize) {
        let n = match version {
            Mirostat::Off => return,
            Mirostat::V1 => self.rank_of_zipf(candidates, n_vocab),
            Mirostat::V2 => self.rank_of_surprise(candidates),
        };
        candidates.ranking().keep_best(n.max(1));
    }

    /// Moves the admitted surprise by how far the drawn token's was from the target.
    pub(crate) fn observe(&mut self, probability: f32, params: &SamplingParams) {
        let surprise = -math::log2(probability);
        self.mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
    }

    /// Version 1: the rank at which a Zipf law fitted to the best candidates has the admitted surprise.
    fn rank_of_zipf(self, candidates: &mut Candidates, n_vocab: usize) -> usize {
        let temperature = candidates.temperature();
        let ranking = candidates.ranking();
        let (mut sum_tb, mut sum_tt) = (0.0f32, 0.0f32);
        for i in 0..ESTIMATED_FROM - 1 {
            let (Some(this), Some(next)) = (ranking.at(i), ranking.at(i + 1)) else { break };
            let t = math::ln((i + 2) as f32 / (i + 1) as f32);
            let b = (this.value - next.value) / temperature;
            sum_tb += t * b;
            sum_tt += t * t;
        }
        let exponent = sum_tb / sum_tt;
        let epsilon = exponent - 1.0;
        let scale = epsilon * math::pow(2.0, self.mu) / (1.0 - math::pow(n_vocab as f32, -epsilon));
        // A cast from NaN, which one candidate or an exponent of exactly 1 gives, is 0.
        math::pow(scale, 1.0 / exponent) as usize
    }

    /// Version 2: how many of the best candidates stay within the admitted surprise.
    fn rank_of_surprise(self, candidates: &mut Candidates) -> usize {
        let softmax = candidates.softmax();
        let ranking = candidates.ranking();
        let mut n = 0;
        while ranking.at(n).is_some_and(|t| softmax.surprise(t.value) * std::f32::consts::LOG2_E <= self.mu) {
            n += 1;
        }
        n
    }
}
