//! `quern score`: how probable the model finds a text.

use crate::args::{ModelArg, RunningArgs};
use crate::exit::{Exit, refuse};
use crate::npy::NpyWriter;
use crate::progress::{Bars, note};
use crate::text::{print_json, write_stdout};
use crate::{ids, modes, text};
use crate::settings::{GlobalArgs, Settings};
use quern::{Quern, Scores};
use serde_json::json;
use std::path::PathBuf;

/// Score a text: log probabilities, perplexity, and how often the most probable token came true
///
/// The model reads the true text and says at each position how probable the next token was. A text is taken as plain,
/// and gets the beginning-of-text token where the model's rules say so. Ids are taken as they are, and need no tokenizer.
#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("input").required(true).args(["text_file", "ids", "ids_file"])),
    after_help = "\
Examples:
  quern score demo --text-file README.md
  quern score demo --ids 1,4093,198 --json --logits-out logits.npy"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// A UTF-8 file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// Token ids
    #[arg(long, value_name = "1,2,3")]
    ids: Option<String>,
    /// A file with token ids: a JSON array, or numbers with commas or white space between; `-` is standard input
    #[arg(long, value_name = "FILE")]
    ids_file: Option<PathBuf>,
    /// Print one JSON object: ids, logprobs, nll_sum, nll_mean, perplexity, top1, positions, modes
    #[arg(long)]
    json: bool,
    /// Write the logits of every position as a NumPy file: f32, [positions, vocabulary]
    #[arg(long, value_name = "FILE.npy")]
    logits_out: Option<PathBuf>,
    #[command(flatten)]
    running: RunningArgs,
}

enum Input {
    Text(String),
    Ids(Vec<u32>),
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let input = match (&args.text_file, &args.ids, &args.ids_file) {
        (Some(path), ..) => Input::Text(text::read(path)?),
        (_, Some(list), _) => Input::Ids(ids::parse(list)?),
        (_, _, Some(path)) => Input::Ids(ids::read(path)?),
        (None, None, None) => return refuse("give --text-file, --ids or --ids-file"),
    };
    let tokenizer = matches!(input, Input::Text(_));
    let mut bars = Bars::new();
    let model = settings.model(&args.model, &args.running, tokenizer, &mut bars)?;
    let ids = match input {
        Input::Text(text) => model.encode(&text)?,
        Input::Ids(ids) => ids,
    };
    let mut logits = match &args.logits_out {
        Some(path) => Some(NpyWriter::create(path, ids.len(), model.spec().n_vocab)?),
        None => None,
    };

    let interrupts = quern_platform::catch_interrupts()?;
    let (mut done, mut failure) = (0, None);
    let scores = model.score_rows(&ids, &mut |row| {
        done += 1;
        bars.set("scoring", done, ids.len() as u64);
        failure = logits.as_mut().and_then(|logits| logits.row(row).err());
        failure.is_none() && !interrupts.interrupted()
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    if (done as usize) < ids.len() {
        note("interrupted: nothing is reported of a text that was read in part");
        return Ok(Exit::Interrupted);
    }
    if let Some(logits) = logits {
        logits.publish()?;
    }
    if args.json { print_json(&report(&model, &scores))? } else { write_stdout(summary(&scores).as_bytes())? }
    Ok(Exit::Done)
}

fn report(model: &Quern, scores: &Scores) -> serde_json::Value {
    json!({
        "model": model.facts().model,
        "positions": scores.ids.len(),
        "nll_sum": scores.nll_sum,
        "nll_mean": scores.nll_mean(),
        "perplexity": scores.perplexity(),
        "top1": scores.top1(),
        "ids": scores.ids,
        "logprobs": scores.logprobs,
        "modes": modes::json(model.facts()),
    })
}

fn summary(scores: &Scores) -> String {
    let number = |x: Option<f64>| x.map_or_else(|| "none: one token predicts nothing".into(), |x| format!("{x:.6}"));
    format!(
        "positions   {}\nnll sum     {:.6}\nnll mean    {}\nperplexity  {}\ntop-1       {}\n",
        scores.ids.len(),
        scores.nll_sum,
        number(scores.nll_mean()),
        number(scores.perplexity()),
        number(scores.top1()),
    )
}
