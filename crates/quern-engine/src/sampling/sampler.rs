//! One step of sampling: logits in, one token out.

use std::hash::{BuildHasher, RandomState};

use super::candidates::Candidates;
use super::error::SamplingError;
use super::logprobs::log_sum_exp;
use super::mask::TokenMask;
use super::math::exp;
use super::params::{Mirostat, SamplingParams};
use super::philox::{DrawAt, STAGE_DRAW, STAGE_XTC, uniform};
use super::ranking::Ranking;
use super::stages::{self, Dry, MirostatState, Penalties, PerToken, Stage};

/// In a walk over candidates by descending weight, one below this fraction of the running sum ends the walk: half a unit
/// in the last place of the sum is at least 2^-25 of it, so neither this weight nor any later one changes it. The spare
/// factor of two covers an `exp` that is off by its last bits.
pub(crate) const NEGLIGIBLE: f32 = 1.0 / (1 << 26) as f32;

/// A drawn token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The token.
    pub id: u32,
    /// Its log probability under the raw logits, in nats, if [`Sampler::set_logprobs`] asked for it.
    pub logprob: Option<f32>,
}

/// What a sampler carries from step to step besides its arguments. Taken before a step and put back after, it undoes
/// the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerState(MirostatState);

/// Draws tokens for one choice of one request.
///
/// A draw is a function of the settings, the seed, the logits, the generated tokens, the choice index and the mask, and
/// for mirostat of [`SamplerState`]. Scratch space lives here, so that a step in steady state allocates nothing.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    stages: Vec<Stage>,
    seed: u64,
    n_vocab: usize,
    exempt: Vec<u32>,
    wants_logprobs: bool,
    mirostat: MirostatState,
    dry: Dry,
    candidates: Candidates,
    scores: Ranking,
    per_token: PerToken,
    sums: Vec<f32>,
}

impl Sampler {
    /// Checks the settings against their ranges and the vocabulary.
    pub fn new(params: SamplingParams, n_vocab: usize) -> Result<Sampler, SamplingError> {
        params.validate()?;
        if let Some(&(id, _)) = params.logit_bias.iter().find(|(id, _)| *id as usize >= n_vocab) {
            return Err(SamplingError::TokenOutOfVocabulary { what: "logit_bias", id, n_vocab });
        }
        let stages = params.stages();
        let counts_tokens = stages.contains(&Stage::Penalties) || stages.contains(&Stage::Dry);
        Ok(Sampler {
            stages,
            seed: params.seed.unwrap_or_else(random_seed),
            n_vocab,
            exempt: Vec::new(),
            wants_logprobs: false,
            mirostat: MirostatState::new(&params),
            dry: Dry::new(&params, n_vocab)?,
            candidates: Candidates::new(n_vocab),
            scores: Ranking::default(),
            per_token: PerToken::new(if counts_tokens { n_vocab } else { 0 }),
            sums: Vec::new(),
            params,
        })
    }

    /// Names the end-of-generation tokens, which no penalty touches.
    pub fn with_end_of_generation(mut self, ids: &[u32]) -> Result<Sampler, SamplingError> {
        if let Some(&id) = ids.iter().find(|id| **id as usize >= self.n_vocab) {
            return Err(SamplingError::TokenOutOfVocabulary {
                what: "the end-of-generation set",
                id,
                n_vocab: self.n_vocab,
            });
        }
        self.exempt = ids.to_vec();
        self.exempt.sort_unstable();
        Ok(self)
    }

    /// Whether to report the log probability of every drawn token. The draw itself is the same either way.
    pub fn set_logprobs(&mut self, wanted: bool) {
        self.wants_logprobs = wanted;
    }

    /// The seed in use: the one given, or the one drawn when none was.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The stages in force, in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// What this sampler carries from step to step.
    pub fn state(&self) -> SamplerState {
        SamplerState(self.mirostat)
    }

    /// Puts an earlier state back.
    pub fn restore(&mut self, state: SamplerState) {
        self.mirostat = state.0;
    }

    /// Chooses the token that follows `generated`, the tokens generated so far without the prompt (R72). `choice` is the
    /// index among a request's parallel choices; `mask` is what a constraint allows here.
    pub fn sample(
        &mut self,
        logits: &[f32],
        generated: &[u32],
        choice: u32,
        mask: Option<&TokenMask>,
    ) -> Result<Drawn, SamplingError> {
        check_logits(logits, self.n_vocab)?;
        self.candidates.load(logits, mask);
        let at = |stage| DrawAt { generated_index: generated.len() as u32, choice, stage };
        let mut drawn = None;
        for i in 0..self.stages.len() {
            let (p, candidates) = (&self.params, &mut self.candidates);
            match self.stages[i] {
                Stage::LogitBias => stages::logit_bias(candidates, &p.logit_bias)?,
                Stage::Penalties => {
                    let penalties = Penalties { params: p, exempt: &self.exempt };
                    penalties.apply(candidates, generated, &mut self.per_token)?;
                }
                Stage::Dry => self.dry.apply(candidates, generated, &self.exempt, &mut self.per_token)?,
                Stage::TopNSigma => stages::top_n_sigma(candidates, p.top_n_sigma),
                Stage::TopK => stages::top_k(candidates, p.top_k),
                Stage::TypicalP => stages::typical_p(candidates, p.typical_p, p.min_keep, &mut self.scores),
                Stage::TopP => stages::top_p(candidates, p.top_p, p.min_keep),
                Stage::MinP => stages::min_p(candidates, p.min_p, p.min_keep),
                Stage::Xtc => {
                    if uniform(self.seed, at(STAGE_XTC)) < p.xtc_probability {
                        stages::xtc(candidates, p.xtc_threshold, p.min_keep);
                    }
                }
                Stage::Temperature => stages::temperature(candidates, p),
                Stage::Mirostat => self.mirostat.truncate(candidates, p.mirostat, self.n_vocab),
                Stage::Draw => drawn = self.draw(uniform(self.seed, at(STAGE_DRAW))),
            }
        }
        let id = drawn.ok_or(SamplingError::NothingAllowed)?;
        let logprob = self.wants_logprobs.then(|| logits[id as usize] - log_sum_exp(logits));
        Ok(Drawn { id, logprob })
    }

    /// The canonical draw: candidates by descending logit and ascending id, prefix sums of their weights one after the
    /// other in f32, and the first whose sum exceeds `uniform` times the last sum.
    fn draw(&mut self, uniform: f32) -> Option<u32> {
        if self.params.is_greedy() {
            return self.candidates.argmax();
        }
        let temperature = self.candidates.temperature();
        let ranking = self.candidates.ranking();
        let max = ranking.at(0)?.value;
        if temperature == 0.0 {
            return ranking.at(0).map(|best| best.id);
        }
        self.sums.clear();
        let mut total = 0.0f32;
        while let Some(token) = ranking.at(self.sums.len()) {
            let weight = exp((token.value - max) / temperature);
            if weight < total * NEGLIGIBLE {
                break;
            }
            total += weight;
            self.sums.push(total);
        }
        let target = uniform * total;
        let rank = self.sums.partition_point(|sum| *sum <= target);
        let drawn = ranking.at(rank)?;
        if self.params.mirostat != Mirostat::Off {
            self.mirostat.observe(exp((drawn.value - max) / temperature) / total, &self.params);
        }
        Some(drawn.id)
    }
}

/// Refuses logits of the wrong length, and NaN or positive infinity anywhere. Negative infinity is a token the model
/// itself rules out.
pub(crate) fn check_logits(logits: &[f32], n_vocab: usize) -> Result<(), SamplingError> {
    if logits.len() != n_vocab {
        return Err(SamplingError::LogitsLength { n_logits: logits.len(), n_vocab });
    }
    // One flag over the row instead of an early exit: the good case is all that needs to be fast.
    let is_good = |logit: &f32| *logit < f32::INFINITY;
    if logits.iter().fold(true, |good, logit| good & is_good(logit)) {
        return Ok(());
    }
    let (id, value) =
        logits.iter().zip(0..).find(|(logit, _)| !is_good(logit)).map_or((0, f32::NAN), |(v, id)| (id, *v));
    Err(SamplingError::NonFinite { id, value })
}

/// A seed from the operating system's randomness, by way of the keys the standard library hashes with.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The borders of the draw: four equal weights, prefix sums 1 to 4, and the first sum above `u * 4`.
    #[test]
    fn draw_takes_the_first_sum_above_the_target() {
        let mut sampler = Sampler::new(SamplingParams::default(), 5).unwrap();
        let largest = 1.0 - 1.0 / 16_777_216.0;
        for (u, id) in [(0.0, 0), (0.249, 0), (0.25, 1), (0.5, 3), (0.75, 4), (largest, 4)] {
            sampler.candidates.load(&[0.5, 0.5, -90.0, 0.5, 0.5], None);
            assert_eq!(sampler.draw(u), Some(id), "{u}");
        }
    }
}
