//! What can go wrong between messages and prompt.

/// An error from choosing, compiling or rendering a chat template.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The file has no template and none of ours fits it.
    #[error(
        "the model file carries no chat template, and no built-in one fits architecture `{architecture}`: {missing}; \
         use `--raw` to give the model plain text"
    )]
    NoTemplate {
        /// `general.architecture` of the file.
        architecture: String,
        /// What a built-in template would have needed.
        missing: String,
    },
    /// The file's metadata cannot be read.
    #[error(transparent)]
    Metadata(#[from] quern_gguf::GgufError),
    /// The template's source is larger than any real one.
    #[error("the chat template is {bytes} bytes long, more than the {limit} allowed")]
    TooLarge {
        /// Size of the source.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The template does not compile.
    #[error("the chat template is not valid Jinja: {0}")]
    Syntax(String),
    /// The template itself turned the conversation down (`raise_exception`).
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// The template failed while it ran.
    #[error("the chat template failed: {0}")]
    Render(String),
    /// The template ran longer than any real one.
    #[error("the chat template used up its {0} steps without finishing; it may be broken or hostile")]
    OutOfFuel(u64),
    /// No code point was left to shield outside text with.
    #[error(
        "the conversation uses up every private-use character of Unicode, so its text cannot be kept apart"
    )]
    NoPrivateCharacters,
}
