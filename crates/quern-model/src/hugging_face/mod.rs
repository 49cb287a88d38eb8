//! Hugging Face folders (`config.json` and safetensors) as the container that every family reads.
//!
//! A folder becomes a [`Gguf`] value: `config.json` becomes metadata under GGUF's keys, tensors get GGUF's names, and the
//! few that files hold in another form are rewritten as llama.cpp's converter would. Everything else stays in the mapped
//! files. So a family has one spec, whatever its weights came in.
//!
//! Two things are left as the folder has them and said so by [`LAYOUT`]: llama's query and key rows, which files permute,
//! and the order of value heads in Gated DeltaNet.

mod config;
mod tensors;

use crate::ModelError;
use crate::families::FAMILIES;
use quern_gguf::{Gguf, Metadata, Safetensors, Value};
use std::path::Path;

pub(crate) use config::{Config, Entries};

/// Says in the metadata that weights lie as Hugging Face has them.
pub(crate) const LAYOUT: &str = "quern.tensor_layout";
/// The value of [`LAYOUT`].
pub(crate) const HUGGING_FACE: &str = "hugging_face";

/// What a folder's configuration is called.
const CONFIG: &str = "config.json";
/// Settings for generating, beside it.
const GENERATION: &str = "generation_config.json";
/// Settings of the tokenizer, the chat template among them.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The chat template where it is a file of its own.
const TEMPLATE: &str = "chat_template.jinja";
/// Largest JSON file that is read.
const MAX_JSON: u64 = 16 << 20;

/// How a family's folders differ from the common form.
pub struct HuggingFace {
    /// `model_type` of `config.json`.
    pub model_types: &'static [&'static str],
    /// Names of tensors in a layer that others give another meaning: (folder, GGUF).
    pub names: &'static [(&'static str, &'static str)],
    /// The activation that the forward pass has.
    pub activation: &'static str,
    /// Norms multiply by one plus their weight.
    pub one_plus_norms: bool,
    /// The head is the embedding where `tie_word_embeddings` is absent.
    pub tied: bool,
    /// Adds the metadata that only this family has, and refuses what it cannot honour.
    pub(crate) config: fn(&Config<'_>, &mut Entries) -> Result<(), ModelError>,
}

/// Whether a path means a Hugging Face folder or a safetensors file.
pub fn is_hugging_face(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_dir() || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")
}

/// Opens a folder, one of its safetensors files, or its index, with the `config.json` beside them.
pub fn open_hugging_face(path: &Path) -> Result<Gguf, ModelError> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let json = read_json(&folder.join(CONFIG))?;
    let config = Config::new(&json, folder.join(CONFIG))?;
    let model_type = config.model_type()?;
    let Some(family) = FAMILIES.iter().find(|f| f.hugging_face.model_types.contains(&model_type)) else {
        let known: Vec<_> = FAMILIES.iter().flat_map(|f| f.hugging_face.model_types).copied().collect();
        return Err(ModelError::Architecture {
            arch: model_type.escape_default().take(64).collect(),
            known: known.join(", "),
        });
    };
    let mut entries = Entries::new(family.arch);
    let name = std::path::absolute(folder).unwrap_or(folder.into());
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    entries.put("general.name", Value::Str(name));
    entries.put(LAYOUT, Value::Str(HUGGING_FACE.into()));
    config::common(&config, &family.hugging_face, &mut entries)?;
    (family.hugging_face.config)(&config, &mut entries)?;
    let generation = opt_json(&folder.join(GENERATION))?;
    let generation =
        generation.as_ref().map(|json| Config::new(json, folder.join(GENERATION))).transpose()?;
    config::special_ids(&config, generation.as_ref(), &mut entries)?;
    if let Some(generation) = generation {
        config::sampling(&generation, &mut entries)?;
    }
    if let Some(template) = template(folder)? {
        entries.put("tokenizer.chat_template", Value::Str(template));
    }
    let weights = Safetensors::open(path)?;
    let mut assembled = tensors::assemble(&weights, &family.hugging_face, &config)?;
    assembled.extend(config::rope_factors(&config)?);
    let metadata = Metadata::from_entries(path, entries.into_inner())?;
    Ok(Gguf::assemble(path, metadata, assembled)?)
}

/// The chat template: a file of its own, or a field of the tokenizer's settings, where a list names its "default".
fn template(folder: &Path) -> Result<Option<String>, ModelError> {
    let file = folder.join(TEMPLATE);
    if file.is_file() {
        let bytes = read(&file)?;
        let text = String::from_utf8(bytes);
        let refuse = |_| ModelError::Config { path: file, reason: "is not UTF-8".into() };
        return text.map(Some).map_err(refuse);
    }
    let Some(json) = opt_json(&folder.join(TOKENIZER_CONFIG))? else { return Ok(None) };
    let template = json.get("chat_template");
    let default = || {
        let named = template?.as_array()?.iter().find(|t| t.get("name").is_some_and(|n| n == "default"))?;
        named.get("template")?.as_str()
    };
    Ok(template.and_then(serde_json::Value::as_str).or_else(default).map(str::to_string))
}

fn opt_json(path: &Path) -> Result<Option<serde_json::Value>, ModelError> {
    if path.is_file() { read_json(path).map(Some) } else { Ok(None) }
}

fn read_json(path: &Path) -> Result<serde_json::Value, ModelError> {
    serde_json::from_slice(&read(path)?)
        .map_err(|e| ModelError::Config { path: path.into(), reason: format!("is not JSON: {e}") })
}

fn read(path: &Path) -> Result<Vec<u8>, ModelError> {
    let fault = |reason: String| ModelError::Config { path: path.into(), reason };
    let n_bytes = std::fs::metadata(path).map_err(|e| fault(format!("cannot be read: {e}")))?.len();
    if n_bytes > MAX_JSON {
        return Err(fault(format!("is {n_bytes} bytes long, more than {MAX_JSON}")));
    }
    std::fs::read(path).map_err(|e| fault(format!("cannot be read: {e}")))
}
