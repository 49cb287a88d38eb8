//! Model families: one file each, one line in [`FAMILIES`].

mod gemma3;
mod llama;

use crate::{Header, ModelError, ModelSpec};
use quern_gguf::Gguf;

/// A family: a name, and how its metadata becomes a spec.
pub struct Family {
    /// `general.architecture`
    pub arch: &'static str,
    /// Reads a header.
    pub spec: fn(&Header<'_>) -> Result<ModelSpec, ModelError>,
}

/// Every family that can be run.
pub static FAMILIES: &[Family] =
    &[Family { arch: "llama", spec: llama::spec }, Family { arch: "gemma3", spec: gemma3::spec }];

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
