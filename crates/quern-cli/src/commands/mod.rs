//! The commands: one file each, and one line here.

use crate::exit::Exit;
use crate::settings::GlobalArgs;
use clap::Subcommand;

macro_rules! commands {
    ($($command:ident => $module:ident,)*) => {
        $(mod $module;)*

        /// What to do.
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($command($module::Args),)*
        }

        impl Command {
            pub(crate) fn run(&self, global: &GlobalArgs) -> anyhow::Result<Exit> {
                match self {
                    $(Command::$command(args) => $module::run(args, global),)*
                }
            }
        }
    };
}

commands! {
    Run => run,
    Chat => chat,
    Score => score,
    Tokenize => tokenize,
    Detokenize => detokenize,
    Inspect => inspect,
    Bench => bench,
    Models => models,
    Caps => caps,
    Config => config,
    Completions => completions,
    Man => man,
}
