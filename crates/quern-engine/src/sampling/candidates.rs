//! The tokens still in the running at one step, first as logits by id, then as a ranking.

use super::error::SamplingError;
use super::mask::TokenMask;
use super::math;
use super::ranking::{Ranked, Ranking};

/// See the module's head. Stages that change single logits come first and work by id; the first stage that asks for
/// ranks builds the ranking from what they left.
#[derive(Debug, Clone)]
pub(crate) struct Candidates {
    logits: Vec<f32>,
    ranking: Ranking,
    is_ranked: bool,
    temperature: f32,
}

/// The softmax over a set of candidates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Softmax {
    max: f32,
    temperature: f32,
    mass: f32,
    ln_mass: f32,
}

impl Softmax {
    pub(crate) fn probability(&self, logit: f32) -> f32 {
        math::exp((logit - self.max) / self.temperature) / self.mass
    }

    /// The negative log probability in nats; finite even where the probability underflows.
    pub(crate) fn surprise(&self, logit: f32) -> f32 {
        (self.ln_mass - (logit - self.max) / self.temperature).min(f32::MAX)
    }
}

impl Candidates {
    pub(crate) fn new(n_vocab: usize) -> Candidates {
        Candidates {
            logits: Vec::with_capacity(n_vocab),
            ranking: Ranking::default(),
            is_ranked: false,
            temperature: 1.0,
        }
    }

    /// Starts a step from raw logits.
    pub(crate) fn load(&mut self, logits: &[f32], mask: Option<&TokenMask>) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        if let Some(mask) = mask {
            mask.apply(&mut self.logits);
        }
        self.is_ranked = false;
        self.temperature = 1.0;
    }

    /// Changes the logit of one token. A token already out (negative infinity) stays out, and no change makes a logit
    /// infinite upwards.
    pub(crate) fn adjust(&mut self, id: u32, change: impl FnOnce(f32) -> f32) -> Result<(), SamplingError> {
        let n_vocab = self.logits.len();
        let Some(logit) = self.logits.get_mut(id as usize) else {
            return Err(SamplingError::TokenOutOfVocabulary { what: "the generated text", id, n_vocab });
        };
        if *logit != f32::NEG_INFINITY {
            *logit = change(*logit).min(f32::MAX);
            self.is_ranked = false;
        }
        Ok(())
    }

    /// The greedy choice: the highest logit, the lowest id among equals.
    pub(crate) fn argmax(&self) -> Option<u32> {
        let best = math::max(&self.logits);
        if best == f32::NEG_INFINITY {
            return None;
        }
        self.logits.iter().position(|logit| *logit == best).map(|id| id as u32)
    }

    pub(crate) fn temperature(&self) -> f32 {
        self.temperature
    }

    /// Sets the temperature every later weight is taken at. The order of candidates is that of the logits before
    /// temperature, which only stretches the distances between them.
    pub(crate) fn set_temperature(&mut self, temperature: f32) {
        self.temperature = temperature;
    }

    /// The ranking of what is left.
    pub(crate) fn ranking(&mut self) -> &mut Ranking {
        if !self.is_ranked {
            let tokens = self.logits.iter().zip(0..).map(|(&value, id)| Ranked { value, id });
            self.ranking.fill(tokens.filter(|token| token.value != f32::NEG_INFINITY));
            self.is_ranked = true;
        }
        &mut self.ranking
    }

    /// The logit of a candidate.
    pub(crate) fn logit(&self, id: u32) -> f32 {
        self.logits[id as usize]
    }

    /// Sums a function of each logit over the candidates in ascending id, by the contract's reduction rule.
    pub(crate) fn sum(&mut self, f: impl Fn(f32) -> f32) -> f32 {
        math::sum16(self.ranking().tokens_by_id().map(|token| f(token.value)))
    }

    /// The softmax over the candidates at the temperature in force.
    pub(crate) fn softmax(&mut self) -> Softmax {
        let max = self.ranking().best_value();
        let temperature = self.temperature;
        let mass = self.sum(|logit| math::exp((logit - max) / temperature));
        Softmax { max, temperature, mass, ln_mass: math::ln(mass) }
    }

    /// The softmax and its entropy in nats.
    pub(crate) fn softmax_and_entropy(&mut self) -> (Softmax, f32) {
        let softmax = self.softmax();
        (softmax, self.sum(|logit| softmax.probability(logit) * softmax.surprise(logit)))
    }
}
