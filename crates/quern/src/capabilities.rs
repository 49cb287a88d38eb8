//! What this build can run, out of the tables that decide it when a model is loaded: no second list.

use crate::Error;
use quern_backend::KvType;
use quern_chat::{FALLBACKS, Fallback};
use quern_cpu::{ActivationMode, CpuError};
use quern_hub::{ShortName, short_names};
use quern_kernels::NUMERICS;
use quern_kernels::formats::FORMATS;
use quern_kernels::isa::{ISA_ENV, Level, known};
use quern_model::FAMILIES;

/// What this build can run on this machine.
#[derive(Clone)]
pub struct Capabilities {
    /// Version of the arithmetic.
    pub numerics: u32,
    /// The values of `general.architecture` that can be run.
    pub families: Vec<&'static str>,
    /// Types of tensors that can be computed with.
    pub formats: Vec<FormatCaps>,
    /// The values of `tokenizer.ggml.model` that can be read.
    pub tokenizers: Vec<&'static str>,
    /// The values of `tokenizer.ggml.pre` that can be followed.
    pub pretokenizers: Vec<&'static str>,
    /// Chat templates for files that have none.
    pub templates: &'static [Fallback],
    /// Instruction sets, best first.
    pub isas: Vec<IsaCaps>,
    /// The instruction set in force.
    pub isa: &'static str,
    /// Whether the environment forces it.
    pub isa_forced: bool,
    /// How caches can hold keys and values.
    pub kv: Vec<KvType>,
    /// How activations can meet quantised weights.
    pub activations: Vec<ActivationMode>,
    /// Models by name.
    pub short_names: &'static [ShortName],
}

/// A type of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatCaps {
    /// Its name.
    pub name: &'static str,
    /// Whether [`ActivationMode::Q8`] multiplies it in int8; without, it is computed in f32 in every mode.
    pub int8_activations: bool,
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsaCaps {
    /// Its name.
    pub name: &'static str,
    /// Whether this CPU has it.
    pub available: bool,
}

impl Capabilities {
    /// Asks every table. An error where the environment forces an instruction set that cannot be had.
    pub fn get() -> Result<Capabilities, Error> {
        let format = |ops: &quern_kernels::formats::FormatOps| FormatCaps {
            name: ops.ty.name(),
            int8_activations: ops.takes_int8(),
        };
        Ok(Capabilities {
            numerics: NUMERICS,
            families: FAMILIES.iter().map(|family| family.arch).collect(),
            formats: FORMATS.iter().map(format).collect(),
            tokenizers: quern_tokenizer::models(),
            pretokenizers: quern_tokenizer::pretokenizer_names(),
            templates: FALLBACKS,
            isas: known()
                .into_iter()
                .map(|(name, level)| IsaCaps { name, available: level.is_some() })
                .collect(),
            isa: Level::detect().map_err(CpuError::from)?.name(),
            isa_forced: std::env::var_os(ISA_ENV).is_some_and(|name| !name.is_empty()),
            kv: KvType::ALL.to_vec(),
            activations: ActivationMode::ALL.to_vec(),
            short_names: short_names(),
        })
    }
}
