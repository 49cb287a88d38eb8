//! DRY ("don't repeat yourself"): a penalty on the token that would prolong a repetition, growing with its length.
//!
//! If the text ends with n tokens that also occur earlier in it, the token that followed there is the one that would
//! prolong the repetition. Its logit falls by `multiplier * base ^ (n - allowed_length)`, n being the longest such
//! repetition. No repetition reaches back across a sequence breaker, and a breaker that is one token is never penalised.

use super::super::candidates::Candidates;
use super::super::error::SamplingError;
use super::super::math;
use super::super::params::SamplingParams;
use super::penalties::PerToken;
use super::window;

/// Most sequence breakers taken: one string can begin or end in thousands of a vocabulary's tokens.
const MAX_BREAKERS: usize = 1 << 16;
/// Most tokens in one breaker.
const MAX_BREAKER_TOKENS: usize = 32;

/// The stage with its settings prepared.
#[derive(Debug, Clone)]
pub(crate) struct Dry {
    multiplier: f32,
    base: f32,
    allowed_length: usize,
    last_n: i32,
    /// Sorted by their last token, to be found while walking back through the text.
    breakers: Vec<Vec<u32>>,
    /// The exponent beyond which the power would leave f32.
    max_exponent: usize,
    /// Scratch: how many tokens a place in the text has in common with its end.
    common: Vec<usize>,
}

impl Dry {
    pub(crate) fn new(params: &SamplingParams, n_vocab: usize) -> Result<Dry, SamplingError> {
        let too_many = |name, n, max| Err(SamplingError::TooMany { name, n, max });
        let given = &params.dry_sequence_breakers;
        if given.len() > MAX_BREAKERS {
            return too_many("dry_sequence_breakers", given.len(), MAX_BREAKERS);
        }
        if let Some(long) = given.iter().find(|breaker| breaker.len() > MAX_BREAKER_TOKENS) {
            return too_many("a sequence in dry_sequence_breakers", long.len(), MAX_BREAKER_TOKENS);
        }
        if let Some(&id) = given.iter().flatten().find(|id| **id as usize >= n_vocab) {
            return Err(SamplingError::TokenOutOfVocabulary { what: "dry_sequence_breakers", id, n_vocab });
        }
        let mut breakers: Vec<_> = given.iter().filter(|breaker| !breaker.is_empty()).cloned().collect();
        breakers.sort_unstable_by_key(|breaker| breaker.last().copied());
        let ln_base = math::ln(params.dry_base);
        Ok(Dry {
            multiplier: params.dry_multiplier,
            base: params.dry_base,
            allowed_length: params.dry_allowed_length as usize,
            last_n: params.dry_penalty_last_n,
            breakers,
            max_exponent: if ln_base > 1e-6 { (math::ln(f32::MAX) / ln_base) as usize } else { usize::MAX },
            common: Vec::new(),
        })
    }

    pub(crate) fn apply(
        &mut self,
        candidates: &mut Candidates,
        generated: &[u32],
        exempt: &[u32],
        longest: &mut PerToken,
    ) -> Result<(), SamplingError> {
        let text = window(generated, self.last_n);
        let reach = self.tokens_since_breaker(text);
        if text.len() <= self.allowed_length || reach < self.allowed_length {
            return Ok(());
        }
        self.measure_repetitions(text);
        for (next, common) in text.iter().skip(1).zip(&self.common) {
            let length = (*common).min(reach);
            if length >= self.allowed_length {
                // Stored plus one: a length of 0 counts too when none is allowed.
                longest.update(*next, |stored| stored.max(length as u32 + 1))?;
            }
        }
        for (id, stored) in longest.drain() {
            if exempt.binary_search(&id).is_ok() || self.ending_in(id).iter().any(|b| b.len() == 1) {
                continue;
            }
            let exponent = (stored as usize - 1 - self.allowed_length).min(self.max_exponent);
            let penalty = (self.multiplier * math::pow(self.base, exponent as f32)).min(f32::MAX);
            candidates.adjust(id, |logit| logit - penalty)?;
        }
        Ok(())
    }

    fn ending_in(&self, id: u32) -> &[Vec<u32>] {
        let start = self.breakers.partition_point(|b| b.last() < Some(&id));
        let n = self.breakers[start..].partition_point(|b| b.last() == Some(&id));
        &self.breakers[start..start + n]
    }

    /// How many tokens follow the last sequence breaker in the text.
    fn tokens_since_breaker(&self, text: &[u32]) -> usize {
        if self.breakers.is_empty() {
            return text.len();
        }
        let ends_in_breaker = |end: &usize| {
            let before = &text[..*end];
            before.last().is_some_and(|id| self.ending_in(*id).iter().any(|b| before.ends_with(b)))
        };
        (1..=text.len()).rev().find(ends_in_breaker).map_or(text.len(), |end| text.len() - end)
    }

    /// For every place in the text but the last: how many tokens up to and including it equal the tokens at the text's
    /// end. This is the Z function of the reversed text, in linear time.
    fn measure_repetitions(&mut self, text: &[u32]) {
        let n = text.len();
        let back = |i: usize| text[n - 1 - i];
        self.common.clear();
        self.common.resize(n, 0);
        // The rightmost stretch (of the reversed text) known to equal its beginning.
        let (mut start, mut end) = (0, 0);
        for i in 1..n {
            let mut z = if i < end { self.common[n - 1 - (i - start)].min(end - i) } else { 0 };
            while i + z < n && back(z) == back(i + z) {
                z += 1;
            }
            if i + z > end {
                (start, end) = (i, i + z);
            }
            self.common[n - 1 - i] = z;
        }
        self.common.pop();
    }
}
