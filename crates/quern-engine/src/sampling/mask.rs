//! The set of token ids a constraint allows at one position.

/// A bit per token id, set when the id is allowed.
///
/// Words are 32 bits wide, least significant bit first, as constrained decoding libraries produce them. Ids beyond the
/// last word are forbidden: a mask built for a smaller vocabulary fails closed on padding ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// A mask over `n_vocab` ids that allows none.
    pub fn none(n_vocab: usize) -> TokenMask {
        TokenMask { words: vec![0; n_vocab.div_ceil(32)] }
    }

    /// A mask over `n_vocab` ids that allows all of them.
    pub fn all(n_vocab: usize) -> TokenMask {
        let mut mask = TokenMask { words: vec![u32::MAX; n_vocab.div_ceil(32)] };
        if let (Some(last), used @ 1..) = (mask.words.last_mut(), n_vocab % 32) {
            *last = (1 << used) - 1;
        }
        mask
    }

    /// Takes the words of another bit set.
    pub fn from_words(words: Vec<u32>) -> TokenMask {
        TokenMask { words }
    }

    /// The words, to be filled in place by a constraint.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// Allows one id; ids beyond the mask stay forbidden.
    pub fn allow(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 32) {
            *word |= 1 << (id % 32);
        }
    }

    /// Forbids one id.
    pub fn forbid(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 32) {
            *word &= !(1 << (id % 32));
        }
    }

    /// Whether an id is allowed.
    pub fn allows(&self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// Sets the logits of forbidden ids to negative infinity.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        let (covered, beyond) = logits.split_at_mut(logits.len().min(self.words.len() * 32));
        for (chunk, &word) in covered.chunks_mut(32).zip(&self.words) {
            if word == 0 {
                chunk.fill(f32::NEG_INFINITY);
            } else if word != u32::MAX {
                for (bit, logit) in chunk.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
        beyond.fill(f32::NEG_INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_agrees_with_allows() {
        for n_vocab in [0, 1, 31, 32, 33, 64, 100] {
            let mut mask = TokenMask::none(n_vocab);
            for id in (0..n_vocab as u32).filter(|id| id % 3 == 0 || (32..64).contains(id)) {
                mask.allow(id);
            }
            // Five ids more than the mask knows: all forbidden.
            let mut logits = vec![1.0; n_vocab + 37];
            mask.apply(&mut logits);
            for (id, logit) in logits.iter().enumerate() {
                assert_eq!(*logit == 1.0, mask.allows(id as u32), "id {id} of {n_vocab}");
            }
        }
    }

    #[test]
    fn all_allows_exactly_the_vocabulary() {
        for n_vocab in [0u32, 1, 31, 32, 33, 64] {
            let mut mask = TokenMask::all(n_vocab as usize);
            assert!((0..n_vocab + 40).all(|id| mask.allows(id) == (id < n_vocab)));
            mask.forbid(0);
            assert!(!mask.allows(0));
        }
    }
}
