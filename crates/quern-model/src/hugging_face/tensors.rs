//! Tensors under the names that families know, a few of them rewritten.

use super::{Config, HuggingFace};
use crate::ModelError;
use crate::load::float_values;
use quern_gguf::{AssembledTensor, SafeTensor, Safetensors, SharedBytes, TensorType};

/// Tensors outside the layers.
const TOP: &[(&str, &str)] = &[
    ("embed_tokens.weight", "token_embd.weight"),
    ("norm.weight", "output_norm.weight"),
    ("lm_head.weight", HEAD),
];
const HEAD: &str = "output.weight";

/// Modules of a layer that mean the same in every family.
const LAYER: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("linear_attn.in_proj_qkv", "attn_qkv"),
    ("linear_attn.in_proj_z", "attn_gate"),
    ("linear_attn.in_proj_a", "ssm_alpha"),
    ("linear_attn.in_proj_b", "ssm_beta"),
    ("linear_attn.conv1d", "ssm_conv1d"),
    ("linear_attn.norm", "ssm_norm"),
    ("linear_attn.out_proj", "ssm_out"),
];

/// Parameters of a layer that are no module's.
const PARAMETERS: &[(&str, &str)] = &[("linear_attn.A_log", "ssm_a"), ("linear_attn.dt_bias", "ssm_dt.bias")];

/// Where a text model may lie in a larger one, the longest first.
const PREFIXES: &[&str] =
    &["model.language_model.", "language_model.model.", "language_model.", "model.", ""];

/// Parts of a larger model that text does not go through: towers for images, and layers that predict further tokens.
const APART: &[&str] = &[
    "model.visual.",
    "visual.",
    "vision_tower.",
    "multi_modal_projector.",
    "mtp.",
    "model.vision_tower.",
    "model.multi_modal_projector.",
];

/// All tensors of the text model.
pub(super) fn assemble(
    weights: &Safetensors,
    family: &HuggingFace,
    config: &Config<'_>,
) -> Result<Vec<AssembledTensor>, ModelError> {
    let tied = config.opt_bool("tie_word_embeddings")?.unwrap_or(family.tied);
    let mut tensors = Vec::with_capacity(weights.tensors().len());
    for tensor in weights.tensors() {
        if APART.iter().any(|prefix| tensor.name.starts_with(prefix)) {
            continue;
        }
        let name = gguf_name(&tensor.name, family);
        // A tied head may be stored all the same.
        if tied && name == HEAD {
            continue;
        }
        tensors.push(rewritten(tensor, name, family)?);
    }
    if !tied && !tensors.iter().any(|tensor| tensor.name == HEAD) {
        return Err(ModelError::MissingTensor("lm_head.weight".into()));
    }
    Ok(tensors)
}

/// The name that families know; what is not known keeps its own, and is refused when the weights are bound.
fn gguf_name(name: &str, family: &HuggingFace) -> String {
    let find = |table: &[(&str, &'static str)], part: &str| {
        table.iter().find(|(from, _)| *from == part).map(|(_, to)| *to)
    };
    let known = PREFIXES.iter().filter_map(|prefix| name.strip_prefix(prefix)).find_map(|rest| {
        if let Some(top) = find(TOP, rest) {
            return Some(top.to_string());
        }
        let (layer, part) = rest.strip_prefix("layers.")?.split_once('.')?;
        if let Some(parameter) = find(PARAMETERS, part) {
            return Some(format!("blk.{layer}.{parameter}"));
        }
        let (module, kind) = part.rsplit_once('.')?;
        let module = find(family.names, module).or_else(|| find(LAYER, module))?;
        Some(format!("blk.{layer}.{module}.{kind}"))
    });
    known.unwrap_or_else(|| name.to_string())
}

fn rewritten(tensor: &SafeTensor, name: String, family: &HuggingFace) -> Result<AssembledTensor, ModelError> {
    let edit: Option<fn(f32) -> f32> = if name.ends_with(".ssm_a") {
        Some(|a_log| -(libm::exp(f64::from(a_log)) as f32))
    } else if family.one_plus_norms && name.ends_with("norm.weight") && !name.ends_with(".ssm_norm.weight") {
        Some(|weight| weight + 1.0)
    } else {
        None
    };
    let squeezed = name.ends_with(".ssm_conv1d.weight");
    let mut assembled = tensor.assembled(name)?;
    if squeezed && assembled.dims.len() == 3 && assembled.dims[1] == 1 {
        assembled.dims.remove(1);
    }
    if let Some(edit) = edit {
        let values = edited(&assembled, edit)?;
        assembled.bytes = SharedBytes::from(values);
        assembled.ty = TensorType::F32;
    }
    Ok(assembled)
}

fn edited(tensor: &AssembledTensor, edit: fn(f32) -> f32) -> Result<Vec<u8>, ModelError> {
    let values = float_values(&tensor.name, tensor.ty, &tensor.bytes)?;
    Ok(values.into_iter().flat_map(|value| edit(value).to_le_bytes()).collect())
}
