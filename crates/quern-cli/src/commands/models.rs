//! `quern models`: what the cache holds.

use crate::exit::{Exit, refuse};
use crate::modes::bytes;
use crate::progress::note;
use crate::text::{print_json, write_stdout};
use crate::settings::{GlobalArgs, Settings};
use quern::{CachedModel, Hub, Origin};
use serde_json::{Value, json};

/// Show and clear the cache of models
///
/// A model that was fetched stays as it was: the same name means the same file until it is removed here.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern models list
  quern models path demo
  quern models rm hf:owner/name:Q4_K_M")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the models in the cache, with size and origin
    #[command(after_help = "Examples:\n  quern models list\n  quern models list --json")]
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove models from the cache
    #[command(after_help = "Examples:\n  quern models rm demo\n  quern models rm hf:owner/name:Q4_K_M")]
    Rm {
        /// A short name, or a repository as `list` spells it
        #[arg(value_name = "MODEL", required = true)]
        models: Vec<String>,
    },
    /// Print where a model of the cache lies
    #[command(after_help = "Examples:\n  quern models path demo")]
    Path {
        /// A short name, or a repository as `list` spells it
        #[arg(value_name = "MODEL")]
        model: String,
    },
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let hub = settings.hub();
    match &args.action {
        Action::List { json } => list(&hub, *json)?,
        Action::Rm { models } => {
            for model in models {
                match hub.remove(model).map_err(quern::Error::from)? {
                    Some(freed) => note(&format!("removed {model}, {}", bytes(freed))),
                    None => return refuse(format!("`{model}` is not in the cache; quern models list shows what is")),
                }
            }
        }
        Action::Path { model } => match find(&hub, model)? {
            Some(found) => write_stdout(format!("{}\n", found.path.display()).as_bytes())?,
            None => return refuse(format!("`{model}` is not in the cache; quern models list shows what is")),
        },
    }
    Ok(Exit::Done)
}

fn find(hub: &Hub, reference: &str) -> anyhow::Result<Option<CachedModel>> {
    let cached = hub.cached().map_err(quern::Error::from)?;
    let means = |model: &&CachedModel| match &model.origin {
        Origin::ShortName => quern::short_names()
            .iter()
            .any(|entry| entry.name == model.reference && (entry.name == reference || entry.aliases.contains(&reference))),
        Origin::Repository { .. } => model.reference.eq_ignore_ascii_case(reference),
    };
    Ok(cached.iter().find(means).cloned())
}

fn list(hub: &Hub, json: bool) -> anyhow::Result<()> {
    let cached = hub.cached().map_err(quern::Error::from)?;
    if json {
        let models: Vec<Value> = cached.iter().map(report).collect();
        return print_json(&json!({ "cache": hub.dir().map_err(quern::Error::from)?, "models": models }));
    }
    if cached.is_empty() {
        note(&format!("no model is in {}", hub.dir().map_err(quern::Error::from)?.display()));
    }
    let width = cached.iter().map(|model| model.reference.len()).max().unwrap_or(0);
    for model in &cached {
        let origin = match &model.origin {
            Origin::ShortName => "built-in list".to_owned(),
            Origin::Repository { commit } => format!("Hugging Face, commit {}", commit.get(..12).unwrap_or(commit)),
        };
        let line = format!("{:<width$}  {:>10}  {origin}\n", model.reference, bytes(model.bytes));
        write_stdout(line.as_bytes())?;
    }
    Ok(())
}

fn report(model: &CachedModel) -> Value {
    let origin = match &model.origin {
        Origin::ShortName => json!({ "kind": "short name" }),
        Origin::Repository { commit } => json!({ "kind": "hugging face", "commit": commit }),
    };
    json!({
        "reference": model.reference,
        "bytes": model.bytes,
        "path": model.path,
        "files": model.files,
        "origin": origin,
    })
}
