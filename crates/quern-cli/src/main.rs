//! The `quern` command: glue between a command line and the `quern` library.
//!
//! One file per command under `commands`, one line each in its registry; flags that several commands share are defined
//! once, in `args`. Standard output carries the answer alone; notes, progress and errors go to standard error, and
//! only what a terminal shows well is drawn there. Nothing here knows how a model is loaded or run.

mod answer;
mod args;
mod commands;
mod exit;
mod ids;
mod modes;
mod npy;
mod progress;
mod settings;
mod text;
mod whole_file;

use clap::Parser;
use std::process::ExitCode;

/// Run open-weight language models on your own machine.
#[derive(Parser)]
#[command(
    name = "quern",
    version,
    after_help = exit::AFTER_HELP,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: settings::GlobalArgs,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    quern_platform::reset_sigpipe();
    let exit = match Cli::try_parse() {
        Ok(cli) => cli.command.run(&cli.global).unwrap_or_else(|error| exit::report(&error)),
        Err(error) => exit::report_usage(&error),
    };
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
