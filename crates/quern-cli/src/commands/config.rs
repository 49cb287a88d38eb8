//! `quern config`: the settings in force, and where each comes from.

use crate::exit::Exit;
use crate::settings::{GlobalArgs, Settings};
use crate::text::{print_json, write_stdout};
use serde_json::{Map, Value, json};

/// Show the settings in force and where each comes from
///
/// A flag counts before a variable (QUERN_TOP_K for --top-k), a variable before the configuration file, and that before
/// what the model file, the preset of its family and the build say. The file is quern.toml in the platform's configuration
/// folder, or what --config or QUERN_CONFIG names; it holds one setting a line, such as `top_k = 40`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern config
  QUERN_THREADS=4 quern config --json")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let in_force = settings.in_force();
    if args.json {
        let values = in_force.into_iter().map(|setting| {
            (setting.key, json!({ "value": setting.value, "from": setting.source }))
        });
        let file = settings.path().map(|path| path.display().to_string());
        print_json(&json!({ "file": file, "settings": Value::Object(values.collect::<Map<_, _>>()) }))?;
        return Ok(Exit::Done);
    }
    let width = in_force.iter().map(|setting| setting.key.len()).max().unwrap_or(0) + 2;
    let file = settings.path().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    let mut page = format!("{:<width$}{file}\n", "file");
    for setting in in_force {
        page += &match setting.value {
            // A sequence breaker can be a line break.
            Some(value) => {
                format!("{:<width$}{} ({})\n", setting.key, value.replace('\n', "\\n"), setting.source)
            }
            None => format!("{:<width$}-  {}\n", setting.key, setting.help),
        };
    }
    write_stdout(page.as_bytes())?;
    Ok(Exit::Done)
}
