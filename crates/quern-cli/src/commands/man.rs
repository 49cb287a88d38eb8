//! `quern man`: the manual, out of the definition of the command line.

use crate::Cli;
use crate::exit::Exit;
use crate::settings::GlobalArgs;
use crate::text::write_stdout;
use crate::whole_file::WholeFile;
use anyhow::Context;
use clap::CommandFactory;
use std::path::{Path, PathBuf};

/// Print the manual page, or write the pages of all commands
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern man | man -l -
  quern man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write quern.1, quern-run.1 and so on into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, _: &GlobalArgs) -> anyhow::Result<Exit> {
    let mut command = Cli::command();
    // Built, every command knows its full name and the flags that count everywhere.
    command.build();
    match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            write_pages(&command, folder)?;
        }
        None => write_stdout(&page(command)?)?,
    }
    Ok(Exit::Done)
}

fn write_pages(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut file = WholeFile::create(&folder.join(format!("{name}.1")))?;
    file.write(&page(command.clone())?)?;
    file.publish()?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.into_iter().try_for_each(|below| write_pages(below, folder))
}

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let source = concat!("quern ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(source).render(&mut page)?;
    Ok(page)
}
