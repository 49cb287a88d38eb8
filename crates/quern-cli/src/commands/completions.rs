//! `quern completions`: the command line for shells, out of its own definition.

use crate::Cli;
use crate::exit::Exit;
use crate::settings::GlobalArgs;
use crate::text::write_stdout;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern completions bash > ~/.local/share/bash-completion/completions/quern
  quern completions zsh > ~/.zfunc/_quern
  quern completions fish > ~/.config/fish/completions/quern.fish")]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, _: &GlobalArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quern", &mut script);
    write_stdout(&script)?;
    Ok(Exit::Done)
}
