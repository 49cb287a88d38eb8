//! `config.json` and `generation_config.json` as metadata.

use super::HuggingFace;
use crate::ModelError;
use quern_gguf::{Array, AssembledTensor, SharedBytes, TensorType, Value};
use serde_json::{Map, Value as Json};
use std::path::PathBuf;

/// A configuration: of the text model, where it has one among others.
pub(crate) struct Config<'a> {
    fields: &'a Map<String, Json>,
    /// The file, for messages.
    place: PathBuf,
}

impl<'a> Config<'a> {
    pub(super) fn new(json: &'a Json, place: PathBuf) -> Result<Config<'a>, ModelError> {
        let Some(fields) = json.as_object() else {
            return Err(ModelError::Config { path: place, reason: "is not a JSON object".into() });
        };
        let text = fields.get("text_config").and_then(Json::as_object);
        Ok(Config { fields: text.unwrap_or(fields), place })
    }

    pub(super) fn model_type(&self) -> Result<&'a str, ModelError> {
        self.opt_str("model_type")?.map_or_else(|| self.refuse("has no model_type"), Ok)
    }

    /// A refusal that names the file.
    pub(crate) fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, ModelError> {
        Err(ModelError::Config { path: self.place.clone(), reason: reason.into() })
    }

    /// A field; `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Json> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// Whether a field is there to say that there is nothing.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(Json::is_null)
    }

    fn typed<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        match self.get(name).map(|value| (value, read(value))) {
            None => Ok(None),
            Some((_, Some(value))) => Ok(Some(value)),
            Some((value, None)) => {
                let shown: String = value.to_string().chars().take(60).collect();
                self.refuse(format!("has {name} = {shown}, not {what}"))
            }
        }
    }

    pub(crate) fn opt_str(&self, name: &str) -> Result<Option<&'a str>, ModelError> {
        self.typed(name, "a string", Json::as_str)
    }

    pub(crate) fn opt_bool(&self, name: &str) -> Result<Option<bool>, ModelError> {
        self.typed(name, "true or false", Json::as_bool)
    }

    pub(crate) fn opt_f32(&self, name: &str) -> Result<Option<f32>, ModelError> {
        self.typed(name, "a number", |value| Some(value.as_f64()? as f32))
    }

    pub(crate) fn opt_count(&self, name: &str) -> Result<Option<u32>, ModelError> {
        self.typed(name, "a count", |value| u32::try_from(value.as_u64()?).ok())
    }

    pub(crate) fn count(&self, name: &str) -> Result<u32, ModelError> {
        self.opt_count(name)?.map_or_else(|| self.refuse(format!("has no {name}")), Ok)
    }

    /// One token id or several.
    pub(crate) fn ids(&self, name: &str) -> Result<Option<Vec<u32>>, ModelError> {
        let id = |value: &Json| u32::try_from(value.as_u64()?).ok();
        self.typed(name, "a token id or an array of them", |value| match value {
            Json::Array(values) => values.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        })
    }

    /// A nested object, as a configuration of its own.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Config<'a>>, ModelError> {
        let fields = self.typed(name, "an object", Json::as_object)?;
        Ok(fields.map(|fields| Config { fields, place: self.place.clone() }))
    }

    /// The length of a head.
    pub(crate) fn head_dim(&self) -> Result<u32, ModelError> {
        let heads = self.count("num_attention_heads")?.max(1);
        Ok(self.opt_count("head_dim")?.unwrap_or(self.count("hidden_size")? / heads))
    }

    /// Which layers are of this kind, where the configuration says it layer by layer.
    pub(crate) fn layers_of(&self, kind: &str) -> Result<Option<Vec<bool>>, ModelError> {
        self.typed("layer_types", "an array of strings", |value| {
            value.as_array()?.iter().map(|layer| Some(layer.as_str()? == kind)).collect()
        })
    }

    /// Refuses a setting that the forward pass does not have.
    pub(crate) fn expect_one_of(&self, name: &str, allowed: &[&str]) -> Result<(), ModelError> {
        match self.opt_str(name)? {
            Some(value) if !allowed.contains(&value) => self.refuse(format!(
                "has {name} = \"{}\": it can be {}",
                value.escape_default(),
                allowed.join(", ")
            )),
            _ => Ok(()),
        }
    }

    /// The rotary embedding's settings: of transformers 5 (`rope_parameters`), or as they lay before.
    pub(crate) fn rope(&self) -> Result<Config<'a>, ModelError> {
        Ok(match self.object("rope_parameters")? {
            Some(parameters) => parameters,
            None => match self.object("rope_scaling")? {
                Some(scaling) => scaling,
                None => Config { fields: self.fields, place: self.place.clone() },
            },
        })
    }
}

/// Metadata in the making.
pub(crate) struct Entries {
    arch: &'static str,
    entries: Vec<(String, Value)>,
}

impl Entries {
    pub(super) fn new(arch: &'static str) -> Entries {
        let name = Value::Str(arch.into());
        Entries { arch, entries: vec![("general.architecture".into(), name)] }
    }

    /// A key as it stands.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.entries.push((key.into(), value));
    }

    /// A key of the family.
    pub(crate) fn own(&mut self, key: &str, value: Value) {
        self.entries.push((format!("{}.{key}", self.arch), value));
    }

    pub(crate) fn count(&mut self, key: &str, value: u32) {
        self.own(key, Value::U32(value));
    }

    pub(crate) fn flags(&mut self, key: &str, flags: Vec<bool>) {
        self.own(key, Value::Array(Array::Bool(flags)));
    }

    pub(super) fn into_inner(self) -> Vec<(String, Value)> {
        self.entries
    }
}

/// What every family has.
pub(super) fn common(
    config: &Config<'_>,
    family: &HuggingFace,
    entries: &mut Entries,
) -> Result<(), ModelError> {
    if config.get("quantization_config").is_some() {
        return config.refuse("has a quantization_config: weights quantised in that way cannot be read");
    }
    for name in ["hidden_act", "hidden_activation"] {
        config.expect_one_of(name, &[family.activation])?;
    }
    for (key, name) in [
        ("block_count", "num_hidden_layers"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("context_length", "max_position_embeddings"),
        ("attention.head_count", "num_attention_heads"),
    ] {
        entries.count(key, config.count(name)?);
    }
    let heads = config.count("num_attention_heads")?;
    entries.count("attention.head_count_kv", config.opt_count("num_key_value_heads")?.unwrap_or(heads));
    let head_dim = config.head_dim()?;
    entries.count("attention.key_length", head_dim);
    entries.count("attention.value_length", head_dim);
    let Some(eps) = config.opt_f32("rms_norm_eps")? else { return config.refuse("has no rms_norm_eps") };
    entries.own("attention.layer_norm_rms_epsilon", Value::F32(eps));
    rope(config, head_dim, entries)
}

/// The rotary embedding of full attention.
fn rope(config: &Config<'_>, head_dim: u32, entries: &mut Entries) -> Result<(), ModelError> {
    let rope = config.rope()?;
    let full = rope.object("full_attention")?;
    let rope = full.as_ref().unwrap_or(&rope);
    let base = rope.opt_f32("rope_theta")?.or(config.opt_f32("rope_theta")?);
    entries.own("rope.freq_base", Value::F32(base.unwrap_or(10_000.0)));
    let part = rope.opt_f32("partial_rotary_factor")?.or(config.opt_f32("partial_rotary_factor")?);
    if let Some(part) = part {
        entries.count("rope.dimension_count", (head_dim as f32 * part) as u32);
    }
    let kind = rope_kind(rope)?;
    match kind {
        "default" | "llama3" => {}
        "linear" | "yarn" => {
            let Some(factor) = rope.opt_f32("factor")? else {
                return rope.refuse(format!("has {kind} rope scaling without a factor"));
            };
            entries.own("rope.scaling.type", Value::Str(kind.into()));
            entries.own("rope.scaling.factor", Value::F32(factor));
        }
        other => {
            return rope
                .refuse(format!("has rope scaling \"{}\", which is not known", other.escape_default()));
        }
    }
    if kind == "yarn" {
        if let Some(original) = rope.opt_count("original_max_position_embeddings")? {
            entries.count("rope.scaling.original_context_length", original);
        }
        for (key, name) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
            if let Some(beta) = rope.opt_f32(name)? {
                entries.own(&format!("rope.scaling.{key}"), Value::F32(beta));
            }
        }
        for name in ["attention_factor", "mscale", "mscale_all_dim"] {
            if rope.get(name).is_some() {
                return rope.refuse(format!("has {name} in its yarn rope scaling: that cannot be run yet"));
            }
        }
    }
    Ok(())
}

fn rope_kind<'a>(rope: &Config<'a>) -> Result<&'a str, ModelError> {
    Ok(rope.opt_str("rope_type")?.or(rope.opt_str("type")?).unwrap_or("default"))
}

/// Llama 3's scaling as what GGUF files hold of it: one divisor for each frequency, from the publisher's rule (three bands
/// by wavelength: `_compute_llama3_parameters` of transformers).
pub(super) fn rope_factors(config: &Config<'_>) -> Result<Option<AssembledTensor>, ModelError> {
    let rope = config.rope()?;
    if rope_kind(&rope)? != "llama3" {
        return Ok(None);
    }
    let number = |name: &str| match rope.opt_f32(name)? {
        Some(value) if value > 0.0 => Ok(f64::from(value)),
        _ => rope.refuse(format!("has llama3 rope scaling without a positive {name}")),
    };
    let (factor, low, high) = (number("factor")?, number("low_freq_factor")?, number("high_freq_factor")?);
    let original = number("original_max_position_embeddings")?;
    let base = rope.opt_f32("rope_theta")?.or(config.opt_f32("rope_theta")?).map_or(10_000.0, f64::from);
    let head_dim = config.head_dim()?;
    let divisor = |pair: u32| {
        let wavelength = std::f64::consts::TAU * libm::pow(base, f64::from(2 * pair) / f64::from(head_dim));
        let blend = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / (blend + (1.0 - blend) / factor)) as f32
    };
    if head_dim == 0 || head_dim > crate::SpecLimits::DEFAULT.head_dim as u32 || high <= low {
        return rope.refuse("has llama3 rope scaling that cannot be computed");
    }
    let bytes: Vec<u8> = (0..head_dim / 2).flat_map(|pair| divisor(pair).to_le_bytes()).collect();
    Ok(Some(AssembledTensor {
        name: crate::load::ROPE_FACTORS.into(),
        dims: vec![u64::from(head_dim / 2)],
        ty: TensorType::F32,
        bytes: SharedBytes::from(bytes),
    }))
}

/// Which tokens begin and end a text. Settings for generating go before the model's own; of several that end one, GGUF
/// has keys for three: text, turn, message.
pub(super) fn special_ids(
    config: &Config<'_>,
    generation: Option<&Config<'_>>,
    entries: &mut Entries,
) -> Result<(), ModelError> {
    let either = |name: &str| {
        let first = generation.map(|g| g.ids(name)).transpose()?.flatten();
        Ok::<_, ModelError>(match first {
            Some(ids) => Some(ids),
            None => config.ids(name)?,
        })
    };
    if let Some(&bos) = either("bos_token_id")?.unwrap_or_default().first() {
        entries.put("tokenizer.ggml.bos_token_id", Value::U32(bos));
    }
    let ends = either("eos_token_id")?.unwrap_or_default();
    const KEYS: [&str; 3] = ["eos_token_id", "eot_token_id", "eom_token_id"];
    if ends.len() > KEYS.len() {
        return config.refuse(format!("has {} tokens that end a text, more than {}", ends.len(), KEYS.len()));
    }
    for (key, id) in KEYS.iter().zip(ends) {
        entries.put(&format!("tokenizer.ggml.{key}"), Value::U32(id));
    }
    Ok(())
}

/// The publisher's settings for sampling, under the keys that GGUF files have for them.
pub(super) fn sampling(config: &Config<'_>, entries: &mut Entries) -> Result<(), ModelError> {
    for (key, name) in [
        ("temp", "temperature"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("penalty_repeat", "repetition_penalty"),
    ] {
        if let Some(value) = config.opt_f32(name)? {
            entries.put(&format!("general.sampling.{key}"), Value::F32(value));
        }
    }
    if let Some(top_k) = config.opt_count("top_k")? {
        entries.put("general.sampling.top_k", Value::I32(top_k.min(i32::MAX as u32) as i32));
    }
    Ok(())
}
