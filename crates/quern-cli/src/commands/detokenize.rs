//! `quern detokenize`: ids to text.

use crate::args::ModelArg;
use crate::exit::{Exit, refuse};
use crate::ids;
use crate::progress::Bars;
use crate::text::write_stdout;
use crate::settings::{GlobalArgs, Settings};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Turn token ids into text
///
/// Writes the exact bytes that the tokens stand for, control tokens as they are spelled, and nothing else.
#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("input").required(true).args(["ids", "ids_file"])),
    after_help = "\
Examples:
  quern detokenize demo 19556 28 905
  quern tokenize demo --text Hello | quern detokenize demo --ids-file -"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Token ids, with spaces or commas between
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// A file with token ids: a JSON array, or numbers with commas or white space between; `-` is standard input
    #[arg(long, value_name = "FILE")]
    ids_file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let ids = match &args.ids_file {
        Some(path) => ids::read(path)?,
        None => ids::parse(&args.ids.join(" "))?,
    };
    let tokenizer = settings.file(&args.model, &mut Bars::new())?.tokenizer()?;
    let n_vocab = tokenizer.n_vocab();
    if let Some(id) = ids.iter().find(|id| **id as usize >= n_vocab) {
        return refuse(format!("token id {id} is outside the vocabulary of {n_vocab}"));
    }
    let mut bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.token_bytes(*id)).copied().collect();
    if std::io::stdout().is_terminal() {
        bytes.push(b'\n');
    }
    write_stdout(&bytes)?;
    Ok(Exit::Done)
}
