//! `quern inspect`: what a model file holds.

use crate::args::ModelArg;
use crate::exit::Exit;
use crate::modes::bytes;
use crate::progress::Bars;
use crate::text::{print_json, write_stdout};
use crate::settings::{GlobalArgs, Settings};
use quern::{
    Activation, AttentionSpec, DeltaNetSpec, DeltaShape, FeedForward, LayerSpec, Mixer, ModelFile, ModelSpec, NormPlacement, RopeScaling, RopeSpec,
    SharedTokenizer, TemplateOrigin, TensorInfo,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Show what a model file holds, without loading its weights
///
/// Files with a vocabulary and no weights, and models that cannot be run, are shown as far as they can be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern inspect demo
  quern inspect model.gguf --json")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let file = settings.file(&args.model, &mut Bars::new())?;
    let report = report(&file)?;
    if args.json { print_json(&report)? } else { write_stdout(page(&report).as_bytes())? }
    Ok(Exit::Done)
}

/// Everything that is shown, in the order in which it is shown. What cannot be had says why instead.
fn report(file: &ModelFile) -> Result<Value, quern::Error> {
    let metadata = file.metadata();
    let tensors = file.gguf().tensors();
    let tokenizer = file.opt_tokenizer();
    let template = match &tokenizer {
        Ok(Some(tokenizer)) => template(file, tokenizer),
        Ok(None) | Err(_) => json!({ "error": "there is no tokenizer to render it for" }),
    };
    Ok(json!({
        "file": {
            "path": file.path().display().to_string(),
            "bytes": file.gguf().file_len(),
            "gguf_version": file.gguf().version(),
            "architecture": metadata.opt_str("general.architecture")?,
            "name": metadata.opt_str("general.name")?,
            "license": metadata.opt_str("general.license")?,
        },
        "weights": {
            "parameters": tensors.iter().map(|tensor| tensor.n_elements()).sum::<u64>(),
            "tensors": tensors.len(),
            "bytes": tensors.iter().map(|tensor| tensor.n_bytes).sum::<u64>(),
            "types": types(tensors.iter()),
        },
        "model": file.spec().map_or_else(|error| json!({ "error": error.to_string() }), |spec| model(&spec, tensors)),
        "tokenizer": match &tokenizer {
            Err(error) => json!({ "error": error.to_string() }),
            Ok(None) => Value::Null,
            Ok(Some(tokenizer)) => vocabulary(file, tokenizer)?,
        },
        "chat_template": template,
    }))
}

/// Tensors and bytes of each type.
fn types<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Value {
    let mut types: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for tensor in tensors {
        let entry = types.entry(tensor.ty).or_default();
        entry.0 += 1;
        entry.1 += tensor.n_bytes;
    }
    let types = types.into_iter().map(|(ty, (count, n_bytes))| {
        (ty.name().to_owned(), json!({ "tensors": count, "bytes": n_bytes }))
    });
    Value::Object(types.collect())
}

/// The layer that a tensor belongs to.
fn layer_of(tensor: &TensorInfo) -> Option<usize> {
    tensor.name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn model(spec: &ModelSpec, tensors: &[TensorInfo]) -> Value {
    json!({
        "runs": true,
        "layers": spec.layers.len(),
        "hidden": spec.hidden,
        "vocabulary": spec.n_vocab,
        "context": spec.context_length,
        "tied_head": spec.tied_head,
        "norm_eps": spec.norm_eps,
        "final_softcap": spec.final_softcap,
        "blocks": blocks(spec, tensors),
        "outside": types(tensors.iter().filter(|tensor| layer_of(tensor).is_none())),
    })
}

/// Runs of layers of the same shape, each in words and in figures.
fn blocks(spec: &ModelSpec, tensors: &[TensorInfo]) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut first = 0;
    for run in spec.layers.chunk_by(|a, b| a == b) {
        let last = first + run.len() - 1;
        let is_within = |tensor: &&TensorInfo| layer_of(tensor).is_some_and(|l| (first..=last).contains(&l));
        let (kind, figures) = mixer_figures(&run[0].mixer);
        let FeedForward::Dense(dense) = &run[0].feed_forward;
        blocks.push(json!({
            "first": first,
            "last": last,
            "block": block(spec, &run[0]),
            kind: figures,
            "feed_forward": { "width": dense.width, "gate": gate(dense.activation) },
            "types": types(tensors.iter().filter(is_within)),
        }));
        first = last + 1;
    }
    blocks
}

/// What mixes positions, by name and in figures.
fn mixer_figures(mixer: &Mixer) -> (&'static str, Value) {
    match mixer {
        Mixer::Attention(a) => {
            let heads = json!({
                "heads": a.n_heads,
                "kv_heads": a.n_kv_heads,
                "head_dim": a.head_dim,
                "window": a.window,
            });
            ("attention", heads)
        }
        Mixer::DeltaNet(d) => {
            let DeltaShape { n_k_heads, n_v_heads, head_k_dim, head_v_dim, .. } = d.shape;
            let heads = json!({
                "heads": n_v_heads,
                "key_heads": n_k_heads,
                "key_dim": head_k_dim,
                "value_dim": head_v_dim,
                "conv_taps": d.conv_taps,
            });
            ("delta_net", heads)
        }
    }
}

fn block(spec: &ModelSpec, layer: &LayerSpec) -> String {
    let FeedForward::Dense(dense) = &layer.feed_forward;
    let norms = match layer.norms {
        NormPlacement::Pre => "norms before",
        NormPlacement::Sandwich => "norms before and after",
    };
    let gate = gate(dense.activation);
    let mixer = match &layer.mixer {
        Mixer::Attention(of_layer) => attention(spec, of_layer),
        Mixer::DeltaNet(of_layer) => delta_net(of_layer),
    };
    format!("{mixer}; feed-forward {} {gate}; {norms}", dense.width)
}

/// The names of Shazeer's "GLU Variants Improve Transformer" (2020).
fn gate(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "SwiGLU",
        Activation::GeluTanh => "GeGLU",
        Activation::Sigmoid => "GLU",
    }
}

fn delta_net(d: &DeltaNetSpec) -> String {
    let DeltaShape { n_k_heads, n_v_heads, head_k_dim, head_v_dim, .. } = d.shape;
    format!(
        "gated DeltaNet {n_v_heads} heads, {n_k_heads} key heads, state {head_k_dim} x {head_v_dim}, convolution of {}",
        d.conv_taps
    )
}

fn attention(spec: &ModelSpec, a: &AttentionSpec) -> String {
    let mut words = format!("attention {} heads, {} KV heads, head_dim {}", a.n_heads, a.n_kv_heads, a.head_dim);
    if let Some(window) = a.window {
        words += &format!(", window {window}");
    }
    if a.output_gate {
        words += ", gated";
    }
    if a.qk_norm {
        words += ", q and k normed";
    }
    if let Some(cap) = a.softcap {
        words += &format!(", soft cap {cap}");
    }
    if a.qkv_bias || a.output_bias {
        words += ", biases";
    }
    words + &spec.ropes.get(a.rope).map(rope).unwrap_or_default()
}

fn rope(rope: &RopeSpec) -> String {
    let scaling = match rope.scaling {
        RopeScaling::None => String::new(),
        RopeScaling::Linear { factor } => format!(" over {factor}"),
        RopeScaling::Yarn { factor, .. } => format!(" yarn {factor}"),
    };
    let factors = if rope.factors.is_empty() { "" } else { " with factors" };
    format!(", rope {}{scaling}{factors}", rope.base)
}

fn vocabulary(file: &ModelFile, tokenizer: &SharedTokenizer) -> Result<Value, quern::Error> {
    let special = tokenizer.special();
    let token = |id: u32| json!({ "id": id, "token": tokenizer.token_text(id) });
    let roles = [
        ("bos", special.bos),
        ("eos", special.eos),
        ("eot", special.eot),
        ("eom", special.eom),
        ("unk", special.unk),
        ("pad", special.pad),
    ];
    let roles = roles.into_iter().filter_map(|(role, id)| Some((role.to_owned(), token(id?))));
    let metadata = file.metadata();
    Ok(json!({
        "model": metadata.opt_str("tokenizer.ggml.model")?,
        "pre": metadata.opt_str("tokenizer.ggml.pre")?,
        "tokens": tokenizer.n_vocab(),
        "special": roles.collect::<Map<_, _>>(),
        "adds_bos": special.add_bos,
        "adds_eos": special.add_eos,
        "end_of_generation": tokenizer.end_of_generation().iter().map(|id| token(*id)).collect::<Vec<_>>(),
        "warnings": tokenizer.warnings(),
    }))
}

fn template(file: &ModelFile, tokenizer: &SharedTokenizer) -> Value {
    match file.template(tokenizer) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(template) => {
            let (origin, name) = match template.origin() {
                TemplateOrigin::File => ("file", None),
                TemplateOrigin::Fallback(name) => ("built-in", Some(name)),
                TemplateOrigin::Caller => ("caller", None),
            };
            json!({ "origin": origin, "name": name, "bytes": template.source().len() })
        }
    }
}

/// The report for people: one line a fact, nothing that is not in the JSON.
fn page(report: &Value) -> String {
    let mut page = String::new();
    let (file, weights) = (&report["file"], &report["weights"]);
    let mut line = |name: &str, value: String| page += &format!("{name:<14}{value}\n");
    line("file", format!("{}, {}, GGUF version {}", show(&file["path"]), size(&file["bytes"]), file["gguf_version"]));
    for name in ["name", "architecture", "license"] {
        line(name, show(&file[name]));
    }
    line("parameters", format!("{} in {} tensors, {}", weights["parameters"], weights["tensors"], size(&weights["bytes"])));
    for (ty, held) in weights["types"].as_object().into_iter().flatten() {
        line("", format!("{ty:<8} {:>5} tensors {:>12}", held["tensors"].to_string(), size(&held["bytes"])));
    }
    model_lines(&report["model"], &mut line);
    vocabulary_lines(&report["tokenizer"], &mut line);
    let template = &report["chat_template"];
    line(
        "chat template",
        match (&template["error"], &template["name"]) {
            (Value::String(error), _) => format!("none: {}", printable(error)),
            (_, Value::String(name)) => format!("the built-in \"{name}\", since the file has none"),
            _ => format!("the file's own, {}", size(&template["bytes"])),
        },
    );
    page
}

fn model_lines(model: &Value, line: &mut dyn FnMut(&str, String)) {
    if let Value::String(error) = &model["error"] {
        line("model", format!("cannot be run: {}", printable(error)));
        return;
    }
    line(
        "model",
        format!(
            "{} layers, hidden {}, vocabulary {}, context {}, {} head",
            model["layers"],
            model["hidden"],
            model["vocabulary"],
            model["context"],
            if model["tied_head"] == true { "tied" } else { "separate" }
        ),
    );
    for block in model["blocks"].as_array().into_iter().flatten() {
        let (first, last) = (&block["first"], &block["last"]);
        let range = if first == last { format!("layer {first}") } else { format!("layers {first}-{last}") };
        line("", format!("{range}: {}", show(&block["block"])));
        line("", format!("    {}", held(&block["types"])));
    }
    line("", format!("outside the layers: {}", held(&model["outside"])));
}

/// Tensors of each type on one line.
fn held(types: &Value) -> String {
    let types = types.as_object().into_iter().flatten();
    let words = types.map(|(ty, held)| format!("{ty} {} tensors {}", held["tensors"], size(&held["bytes"])));
    words.collect::<Vec<_>>().join(", ")
}

fn size(value: &Value) -> String {
    bytes(value.as_u64().unwrap_or(0))
}

fn vocabulary_lines(tokenizer: &Value, line: &mut dyn FnMut(&str, String)) {
    match (tokenizer, &tokenizer["error"]) {
        (Value::Null, _) => return line("tokenizer", "none: the model takes token ids only".into()),
        (_, Value::String(error)) => return line("tokenizer", format!("cannot be used: {}", printable(error))),
        _ => {}
    }
    let token = |value: &Value| format!("{} {}", value["id"], value["token"]);
    let kind = match &tokenizer["pre"] {
        Value::String(pre) => format!("{} ({})", show(&tokenizer["model"]), printable(pre)),
        _ => show(&tokenizer["model"]),
    };
    line("tokenizer", format!("{kind}, {} tokens", tokenizer["tokens"]));
    for (role, value) in tokenizer["special"].as_object().into_iter().flatten() {
        let added = if tokenizer[format!("adds_{role}")] == true { ", added to texts" } else { "" };
        line("", format!("{role:<4} {}{added}", token(value)));
    }
    let ends: Vec<String> = tokenizer["end_of_generation"].as_array().into_iter().flatten().map(token).collect();
    line("", format!("answers end at {}", if ends.is_empty() { "no token".into() } else { ends.join(", ") }));
    for warning in tokenizer["warnings"].as_array().into_iter().flatten() {
        line("", format!("note: {}", show(warning)));
    }
}

/// A string of the file's, or a dash.
fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| "-".to_owned(), printable)
}

/// Characters of a file's string that are shown.
const SHOWN_CHARS: usize = 400;

/// Without what a terminal would act on, and of bounded length (R46).
fn printable(text: &str) -> String {
    let shown = text.chars().take(SHOWN_CHARS);
    let clean = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    shown.map(clean).collect()
}
