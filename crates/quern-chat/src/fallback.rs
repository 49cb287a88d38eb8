//! Templates of our own, for files that carry none.
//!
//! A fallback is taken only when the architecture is one that was trained this way **and** the control tokens it writes
//! are control tokens of the file's vocabulary. Anything else is declined: a neighbour's template gives fluent nonsense.

use crate::spellings::Spellings;

/// A built-in template.
pub struct Fallback {
    /// What reports call it.
    pub name: &'static str,
    pub(crate) source: &'static str,
    /// The values of `general.architecture` it is for.
    pub architectures: &'static [&'static str],
    /// The control tokens that the vocabulary must have.
    pub needs: &'static [&'static str],
}

/// The built-in templates, in the order they are tried.
pub static FALLBACKS: &[Fallback] = &[
    Fallback {
        name: "gemma",
        source: include_str!("fallback/gemma.jinja"),
        architectures: &["gemma", "gemma2", "gemma3"],
        needs: &["<start_of_turn>", "<end_of_turn>"],
    },
    Fallback {
        name: "chatml",
        source: include_str!("fallback/chatml.jinja"),
        architectures: &["llama", "qwen2", "qwen2moe"],
        needs: &["<|im_start|>", "<|im_end|>"],
    },
];

/// The fallback for a file, or a phrase that says what is missing.
pub(crate) fn choose(architecture: &str, control: &Spellings) -> Result<&'static Fallback, String> {
    let Some(found) = FALLBACKS.iter().find(|f| f.architectures.contains(&architecture)) else {
        let known: Vec<_> = FALLBACKS.iter().flat_map(|f| f.architectures).copied().collect();
        return Err(format!("built-in templates exist for {}", known.join(", ")));
    };
    match found.needs.iter().find(|token| !control.contains(token)) {
        None => Ok(found),
        Some(token) => {
            Err(format!("`{}` needs the control token {token}, which the vocabulary lacks", found.name))
        }
    }
}
