//! Model families: one file each, one line in [`FAMILIES`].

mod dense;
mod gemma2;
mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen35;

use crate::hugging_face::HuggingFace;
use crate::{Header, ModelError, ModelSpec};
use quern_gguf::Gguf;

/// A family: a name, and how its metadata becomes a spec.
pub struct Family {
    /// `general.architecture`
    pub arch: &'static str,
    /// Reads a header.
    pub spec: fn(&Header<'_>) -> Result<ModelSpec, ModelError>,
    /// Its Hugging Face folders.
    pub hugging_face: HuggingFace,
}

/// Every family that can be run.
pub static FAMILIES: &[Family] = &[
    Family { arch: "llama", spec: llama::spec, hugging_face: llama::HUGGING_FACE },
    Family { arch: "gemma2", spec: gemma2::spec, hugging_face: gemma2::HUGGING_FACE },
    Family { arch: "gemma3", spec: gemma3::spec, hugging_face: gemma3::HUGGING_FACE },
    Family { arch: "qwen2", spec: qwen2::spec, hugging_face: qwen2::HUGGING_FACE },
    Family { arch: "qwen3", spec: qwen3::spec, hugging_face: qwen3::HUGGING_FACE },
    Family { arch: "qwen35", spec: qwen35::spec, hugging_face: qwen35::HUGGING_FACE },
];

impl ModelSpec {
    /// The spec of a file, validated.
    pub fn from_gguf(file: &Gguf) -> Result<ModelSpec, ModelError> {
        let header = Header::new(file)?;
        let Some(family) = FAMILIES.iter().find(|f| f.arch == header.arch()) else {
            let known: Vec<_> = FAMILIES.iter().map(|f| f.arch).collect();
            return Err(ModelError::Architecture {
                arch: header.arch().escape_default().take(64).collect(),
                known: known.join(", "),
            });
        };
        header.refuse_unbuilt()?;
        let spec = (family.spec)(&header)?;
        spec.validate()?;
        Ok(spec)
    }
}
