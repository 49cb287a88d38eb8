//! What can be wrong with sampling settings and with the logits handed over.

/// A refused setting or an impossible draw.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A setting lies outside its documented range.
    #[error("{name} is {value}, but must be {range}")]
    OutOfRange {
        /// The setting's name.
        name: &'static str,
        /// The value given.
        value: f32,
        /// The range in words.
        range: &'static str,
    },
    /// A truncation was chosen beside mirostat, which would leave it without effect.
    #[error("{name} has no effect beside mirostat, which replaces the truncations: give one or the other")]
    ReplacedByMirostat {
        /// The setting's name.
        name: &'static str,
    },
    /// A token id named by a setting or by the caller is not in the vocabulary.
    #[error("{what} names token {id}, but the vocabulary has {n_vocab} tokens (0 to {})", n_vocab.saturating_sub(1))]
    TokenOutOfVocabulary {
        /// Where the id came from.
        what: &'static str,
        /// The id.
        id: u32,
        /// The vocabulary size.
        n_vocab: usize,
    },
    /// The logits row has another length than the vocabulary.
    #[error("got {n_logits} logits for a vocabulary of {n_vocab} tokens")]
    LogitsLength {
        /// Logits handed over.
        n_logits: usize,
        /// The vocabulary size.
        n_vocab: usize,
    },
    /// A logit is NaN or positive infinity: the forward pass went wrong, and no draw from it would mean anything.
    #[error("the logit of token {id} is {value}: the model's output is not finite")]
    NonFinite {
        /// The first such token.
        id: u32,
        /// Its logit.
        value: f32,
    },
    /// Mask and logit bias leave no token to draw.
    #[error("no token is left to draw: the constraint and logit_bias together forbid the whole vocabulary")]
    NothingAllowed,
    /// More of something than its named limit.
    #[error("{name} has {n} entries, but at most {max} are taken")]
    TooMany {
        /// What there is too much of.
        name: &'static str,
        /// How many were given.
        n: usize,
        /// The limit.
        max: usize,
    },
}
