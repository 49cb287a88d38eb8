//! `quern tokenize`: text to ids.

use crate::args::ModelArg;
use crate::exit::{Exit, refuse};
use crate::progress::Bars;
use crate::text;
use crate::text::{print_json, write_stdout};
use crate::settings::{GlobalArgs, Settings};
use quern::{EncodeOptions, Segment};
use serde_json::json;
use std::path::PathBuf;

/// Turn text into token ids
///
/// The text is plain unless --special is given: nothing is added to it, and what spells a control token stays text. Files
/// that hold a vocabulary and no weights will do.
#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("input").required(true).args(["text_file", "text"])),
    after_help = "\
Examples:
  quern tokenize demo --text \"Hello, world\"
  quern tokenize demo --text \"<|im_start|>user\" --special --json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// A UTF-8 file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// The text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Take the text as trusted: control tokens in it count, and the tokens that the model's rules put around a text are
    /// added
    #[arg(long)]
    special: bool,
    /// Print one JSON object: ids, and tokens as the vocabulary spells them
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let text = match (&args.text, &args.text_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => text::read(path)?,
        (None, None) => return refuse("give --text or --text-file"),
    };
    let tokenizer = settings.file(&args.model, &mut Bars::new())?.tokenizer()?;
    let segment = if args.special { Segment::Trusted(&text) } else { Segment::Plain(&text) };
    let ids = tokenizer.encode(&[segment], EncodeOptions { add_special: args.special });
    if args.json {
        let tokens: Vec<_> = ids.iter().map(|id| tokenizer.token_text(*id)).collect();
        print_json(&json!({ "ids": ids, "tokens": tokens }))?;
    } else {
        let words: Vec<String> = ids.iter().map(u32::to_string).collect();
        write_stdout(format!("{}\n", words.join(" ")).as_bytes())?;
    }
    Ok(Exit::Done)
}
