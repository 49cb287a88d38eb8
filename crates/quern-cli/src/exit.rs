//! How the command ends: exit codes, and errors as one line.

use std::fmt;
use std::process::ExitCode;

/// What stands under the list of commands: an example, where settings come from, and the codes.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  quern run demo \"What is the capital of France?\"
  quern chat demo

Settings under Running and Sampling, and --cache, count in this order: a flag, a variable
(QUERN_TOP_K for --top-k), a line of quern.toml (top_k = 40; --config or QUERN_CONFIG names
another file), the model file, the preset of its family, the built-in value. `quern config` shows
what is in force.

Exit codes:
  0    done
  1    it could not be done: the network, the disk or the computation failed
  2    it was refused: a flag, a setting, a model name or a model file is not right
  130  interrupted by Ctrl-C, after what had been made until then";

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Refused,
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Refused => 2,
            Exit::Interrupted => 130,
        })
    }
}

/// A command line that cannot be done as it stands.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Refuses what the command line asks for.
pub(crate) fn refuse<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal(message.into()).into())
}

/// Prints an error and says how it ends the command.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    eprintln!("quern: error: {}", line(error));
    let refused = error.chain().any(|cause| {
        cause.is::<Refusal>() || cause.downcast_ref::<quern::Error>().is_some_and(quern::Error::is_refusal)
    });
    if refused { Exit::Refused } else { Exit::Failed }
}

/// An error and its causes in one line.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors print their cause as part of themselves.
        if !message.contains(&cause) {
            message = if message.is_empty() { cause } else { format!("{message}: {cause}") };
        }
    }
    message
}

/// Prints what is wrong with a command line in one line; help and version as they are.
pub(crate) fn report_usage(error: &clap::Error) -> Exit {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe has ended the process by now; nothing else is worth a second message.
            let _ = error.print();
            Exit::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Refused
        }
        _ => {
            eprintln!("quern: error: {} (--help shows what can be given)", usage_line(error));
            Exit::Refused
        }
    }
}

/// What is wrong with a command line, in one line.
pub(crate) fn usage_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let shown = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let words: Vec<&str> = shown.filter(|line| !line.is_empty()).collect();
    let message = words.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    message.split(" For more information").next().unwrap_or(message).to_owned()
}
