//! Logit bias and the penalties on single repeated tokens.

use super::super::candidates::Candidates;
use super::super::error::SamplingError;
use super::super::params::SamplingParams;
use super::window;

/// Adds the biases in the order given.
pub(crate) fn logit_bias(candidates: &mut Candidates, biases: &[(u32, f32)]) -> Result<(), SamplingError> {
    biases.iter().try_for_each(|&(id, bias)| candidates.adjust(id, |logit| logit + bias))
}

/// A number per token, with a list of the tokens that have one: filled and emptied in time proportional to that list.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerToken {
    numbers: Vec<u32>,
    ids: Vec<u32>,
}

impl PerToken {
    pub(crate) fn new(n_vocab: usize) -> PerToken {
        PerToken { numbers: vec![0; n_vocab], ids: Vec::new() }
    }

    /// Changes a token's number; 0 is "none yet", and no change may lead back to it.
    pub(crate) fn update(&mut self, id: u32, change: impl FnOnce(u32) -> u32) -> Result<(), SamplingError> {
        let n_vocab = self.numbers.len();
        let Some(number) = self.numbers.get_mut(id as usize) else {
            self.drain().for_each(drop);
            return Err(SamplingError::TokenOutOfVocabulary { what: "the generated text", id, n_vocab });
        };
        if *number == 0 {
            self.ids.push(id);
        }
        *number = change(*number);
        Ok(())
    }

    /// Takes all tokens and numbers out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, u32)> {
        let numbers = &mut self.numbers;
        self.ids.drain(..).map(move |id| (id, std::mem::take(&mut numbers[id as usize])))
    }
}

/// Repeat, frequency and presence penalties.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Penalties<'a> {
    pub(crate) params: &'a SamplingParams,
    /// End-of-generation tokens, ascending: never penalised, or a long reply could not end.
    pub(crate) exempt: &'a [u32],
}

impl Penalties<'_> {
    /// Each distinct token of the window is penalised once (R72); only the frequency penalty knows how often it
    /// occurred.
    pub(crate) fn apply(
        self,
        candidates: &mut Candidates,
        generated: &[u32],
        counts: &mut PerToken,
    ) -> Result<(), SamplingError> {
        let p = self.params;
        for &id in window(generated, p.repeat_last_n) {
            counts.update(id, |n| n + 1)?;
        }
        for (id, count) in counts.drain() {
            if self.exempt.binary_search(&id).is_ok() {
                continue;
            }
            candidates.adjust(id, |logit| {
                // Dividing a negative logit would reward the repetition.
                let scaled = if logit <= 0.0 { logit * p.repeat_penalty } else { logit / p.repeat_penalty };
                scaled - (count as f32 * p.frequency_penalty + p.presence_penalty)
            })?;
        }
        Ok(())
    }
}
