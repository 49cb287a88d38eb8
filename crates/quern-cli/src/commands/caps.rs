//! `quern caps`: what this build can run here.

use crate::exit::Exit;
use crate::modes::bytes;
use crate::text::{print_json, write_stdout};
use crate::settings::GlobalArgs;
use quern::Capabilities;
use serde_json::{Value, json};

/// Show what this build can run on this machine
///
/// Architectures, types of tensors, vocabularies, chat templates, instruction sets and modes, as the loader knows them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern caps
  quern caps --json")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, _: &GlobalArgs) -> anyhow::Result<Exit> {
    let caps = Capabilities::get()?;
    if args.json { print_json(&report(&caps))? } else { write_stdout(page(&caps).as_bytes())? }
    Ok(Exit::Done)
}

fn report(caps: &Capabilities) -> Value {
    let formats = caps.formats.iter().map(|f| json!({ "name": f.name, "int8_activations": f.int8_activations }));
    let templates = caps.templates.iter().map(|t| json!({ "name": t.name, "architectures": t.architectures, "needs": t.needs }));
    let isas = caps.isas.iter().map(|isa| json!({ "name": isa.name, "available": isa.available }));
    let names = caps.short_names.iter().map(|model| {
        json!({ "name": model.name, "aliases": model.aliases, "description": model.description, "bytes": model.bytes })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "numerics": caps.numerics,
        "architectures": caps.families,
        "tensor_types": formats.collect::<Vec<_>>(),
        "tokenizer_models": caps.tokenizers,
        "pretokenizers": caps.pretokenizers,
        "chat_templates": templates.collect::<Vec<_>>(),
        "isas": isas.collect::<Vec<_>>(),
        "isa": { "name": caps.isa, "forced": caps.isa_forced },
        "kv": caps.kv.iter().map(|kv| kv.name()).collect::<Vec<_>>(),
        "activations": caps.activations.iter().map(|mode| mode.name()).collect::<Vec<_>>(),
        "short_names": names.collect::<Vec<_>>(),
    })
}

/// Columns of a list.
const WIDTH: usize = 80;

fn page(caps: &Capabilities) -> String {
    let mut page = String::new();
    let mut line = |name: &str, words: &[String]| {
        let (mut name, mut text) = (name, String::new());
        for (i, word) in words.iter().enumerate() {
            if text.len() + word.len() > WIDTH {
                page += &format!("{name:<18}{}\n", text.trim_end());
                (name, text) = ("", String::new());
            }
            text += word;
            text += if i + 1 < words.len() { ", " } else { "" };
        }
        page += &format!("{name:<18}{text}\n");
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    line("architectures", &owned(&caps.families));
    let formats = |int8: bool| {
        let of = caps.formats.iter().filter(|format| format.int8_activations == int8);
        of.map(|format| format.name.to_owned()).collect::<Vec<_>>()
    };
    line("tensors, int8", &formats(true));
    line("tensors, f32", &formats(false));
    line("tokenizers", &owned(&caps.tokenizers));
    line("pre-tokenizers", &owned(&caps.pretokenizers));
    for template in caps.templates {
        let text = format!("{} for {} with {}", template.name, template.architectures.join(", "), template.needs.join(" "));
        line("chat template", &[text]);
    }
    let isa = |isa: &quern::IsaCaps| {
        let state = match (isa.name == caps.isa, isa.available) {
            (true, _) if caps.isa_forced => " (forced by QUERN_ISA)",
            (true, _) => " (in force)",
            (false, true) => "",
            (false, false) => " (not on this CPU)",
        };
        format!("{}{state}", isa.name)
    };
    line("instruction sets", &caps.isas.iter().map(isa).collect::<Vec<_>>());
    line("kv", &caps.kv.iter().map(|kv| kv.name().to_owned()).collect::<Vec<_>>());
    line("activations", &caps.activations.iter().map(|mode| mode.name().to_owned()).collect::<Vec<_>>());
    for model in caps.short_names {
        line(model.name, &[format!("{}, {}", model.description, bytes(model.bytes))]);
    }
    page
}
