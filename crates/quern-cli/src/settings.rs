//! Settings out of several places: a flag, else a `QUERN_*` variable, else the configuration file, else what the model or
//! the build says.
//!
//! The settings are the flags of [`Shared`] and there is no list of them besides: the variable of `--top-k` is
//! `QUERN_TOP_K`, its key is `top_k`, and a value is read by the flag's own parser wherever it stands.

use crate::args::{ModelArg, RunningArgs, SamplingArgs, StoreArgs};
use crate::exit::{refuse, usage_line};
use crate::progress::Bars;
use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, FromArgMatches};
use quern::{Hub, LoadOptions, ModelFile, Quern, SamplingDefaults};
use std::path::{Path, PathBuf};

/// The configuration file's name in its folder.
const FILE_NAME: &str = "quern.toml";

/// The variable that names another file.
const FILE_ENV: &str = "QUERN_CONFIG";

/// A configuration is a page of text.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Flags before or after the command.
#[derive(Args, Clone)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct GlobalArgs {
    /// The configuration file; quern.toml in the configuration folder unless given
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Every flag that is a setting.
#[derive(Args)]
struct Shared {
    #[command(flatten)]
    running: RunningArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A setting's name and what can be said of it.
struct Known {
    key: String,
    help: String,
    /// Whether it may be given more than once.
    repeats: bool,
}

/// All settings.
fn known() -> Vec<Known> {
    let command = Shared::augment_args(clap::Command::new("settings"));
    let named = command.get_arguments().filter_map(|arg| {
        Some(Known {
            key: key(arg.get_long()?),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            repeats: matches!(arg.get_action(), ArgAction::Append),
        })
    });
    named.collect()
}

/// A flag's name as a key.
fn key(flag: &str) -> String {
    flag.trim_start_matches('-').replace('-', "_")
}

/// The variable of a key.
fn variable(key: &str) -> String {
    format!("QUERN_{}", key.to_ascii_uppercase())
}

/// Reads settings as flags of the same names.
fn parse(given: &[Given]) -> Result<Shared, clap::Error> {
    let command = clap::Command::new("settings").no_binary_name(true).disable_help_flag(true);
    let flags = given.iter().flat_map(|given| {
        given.values.iter().map(|value| format!("--{}={value}", given.key.replace('_', "-")))
    });
    Shared::from_arg_matches(&Shared::augment_args(command).try_get_matches_from(flags)?)
}

/// A setting that a place speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    key: String,
    /// More than one only where the setting repeats.
    values: Vec<String>,
}

/// The settings of one place.
struct Layer {
    given: Vec<Given>,
    shared: Shared,
}

impl Layer {
    /// Refuses what no flag would take, by the name that `spell` gives to a key in this place.
    fn new(given: Vec<Given>, spell: &dyn Fn(&str) -> String) -> anyhow::Result<Layer> {
        // One after the other: what fails is then the last, by itself or beside an earlier one.
        for (i, last) in given.iter().enumerate() {
            if let Err(error) = parse(&given[..=i]) {
                return refuse(format!("{}: {}", spell(&last.key), why(&error, &last.key)));
            }
        }
        let shared = parse(&given).map_err(|error| anyhow::anyhow!("{}", usage_line(&error)))?;
        Ok(Layer { given, shared })
    }

    /// What it says of a setting; several values with commas between.
    fn value(&self, key: &str) -> Option<String> {
        self.given.iter().find(|given| given.key == key).map(|given| given.values.join(","))
    }
}

/// What is wrong with a setting that stands elsewhere than on the command line.
fn why(error: &clap::Error, key_given: &str) -> String {
    if error.kind() != ErrorKind::UnknownArgument {
        return usage_line(error);
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => {
            format!("there is no setting `{key_given}`; did you mean `{}`?", key(flag))
        }
        _ => {
            let names: Vec<_> = known().into_iter().map(|known| known.key).collect();
            format!("there is no setting `{key_given}`; the settings are {}", names.join(", "))
        }
    }
}

/// The settings in force beside a command's own flags.
pub(crate) struct Settings {
    flags: GlobalArgs,
    environment: Layer,
    file: Layer,
    /// Where the file lies; None where there is none.
    path: Option<PathBuf>,
}

/// A setting as `quern config` shows it.
pub(crate) struct InForce {
    pub(crate) key: String,
    /// None where the model or the build decides.
    pub(crate) value: Option<String>,
    pub(crate) source: &'static str,
    pub(crate) help: String,
}

impl Settings {
    /// Reads the environment and the configuration file.
    pub(crate) fn load(flags: &GlobalArgs) -> anyhow::Result<Settings> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut given = Vec::new();
        for Known { key, .. } in known() {
            let name = variable(&key);
            match set(&name).map(std::ffi::OsString::into_string) {
                Some(Ok(value)) => given.push(Given { key, values: vec![value] }),
                Some(Err(_)) => return refuse(format!("{name}: it is not UTF-8 text")),
                None => {}
            }
        }
        let environment = Layer::new(given, &|key| variable(key))?;
        let named = flags.config.clone().or_else(|| set(FILE_ENV).map(PathBuf::from));
        let path = match named {
            Some(path) => Some(path),
            // Without a home there is no file to be found, which is no error.
            None => {
                quern_platform::config_dir().ok().map(|dir| dir.join(FILE_NAME)).filter(|path| path.exists())
            }
        };
        let given = match &path {
            Some(path) => read_file(path)?,
            None => Vec::new(),
        };
        let shown = path.as_deref().unwrap_or(Path::new(FILE_NAME)).display().to_string();
        let file = Layer::new(given, &|_| shown.clone())?;
        Ok(Settings { flags: flags.clone(), environment, file, path })
    }

    /// The configuration file that was read.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The cache of models.
    pub(crate) fn hub(&self) -> Hub {
        let layers = [&self.flags.store, &self.environment.shared.store, &self.file.shared.store];
        match layers.into_iter().find_map(|store| store.cache.clone()) {
            Some(dir) => Hub::from_env().with_dir(dir),
            None => Hub::from_env(),
        }
    }

    /// A model's file.
    pub(crate) fn file(&self, model: &ModelArg, bars: &mut Bars) -> Result<ModelFile, quern::Error> {
        ModelFile::open_from(&self.hub(), &model.model, bars)
    }

    /// How a model is run.
    fn load_options(&self, flags: &RunningArgs) -> LoadOptions {
        flags.or(&self.environment.shared.running).or(&self.file.shared.running).load_options()
    }

    /// A loaded model; without a tokenizer where only ids are given.
    pub(crate) fn model(
        &self,
        model: &ModelArg,
        running: &RunningArgs,
        tokenizer: bool,
        bars: &mut Bars,
    ) -> Result<Quern, quern::Error> {
        let options = LoadOptions { tokenizer, ..self.load_options(running) };
        Quern::from_file(self.file(model, bars)?, options, bars)
    }

    /// The sampling settings of the process.
    pub(crate) fn sampling(
        &self,
        flags: &SamplingArgs,
        model: &Quern,
    ) -> Result<SamplingDefaults, quern::Error> {
        Ok(SamplingDefaults {
            command_line: flags.overrides(model)?,
            environment: self.environment.shared.sampling.overrides(model)?,
            config: self.file.shared.sampling.overrides(model)?,
        })
    }

    /// Every setting, with who decides on it.
    pub(crate) fn in_force(&self) -> Vec<InForce> {
        let flag = self.flags.store.cache.as_ref().map(|path| path.display().to_string());
        let settings = known().into_iter().map(|Known { key, help, .. }| {
            let of_flag = flag.clone().filter(|_| key == StoreArgs::KEY);
            let layers = [
                (of_flag, "command line"),
                (self.environment.value(&key), "environment"),
                (self.file.value(&key), "config file"),
            ];
            let won = layers.into_iter().find_map(|(value, source)| Some((value?, source)));
            let (value, source) = match won {
                Some((value, source)) => (Some(value), source),
                None => (None, "default"),
            };
            InForce { key, value, source, help }
        });
        settings.collect()
    }
}

/// The keys of a file, each with its value as a flag would take it.
fn read_file(path: &Path) -> anyhow::Result<Vec<Given>> {
    let name = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return refuse(format!("{name} is no configuration: it has more than {MAX_FILE_BYTES} bytes"));
        }
        _ => {}
    }
    let text = crate::text::read(path).context("the configuration file")?;
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let error: toml::de::Error = error;
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            return refuse(format!("{name}, line {line}: {}", error.message().replace('\n', " ")));
        }
    };
    let known = known();
    let given = table.into_iter().map(|(key_given, value)| {
        let repeats = known.iter().any(|known| known.repeats && known.key == key(&key_given));
        let values = match value {
            toml::Value::Array(values) if repeats => values.into_iter().map(flag_value).collect(),
            value => flag_value(value).map(|value| vec![value]),
        };
        match values {
            Ok(values) => Ok(Given { key: key_given, values }),
            Err(kind) => {
                let takes = if repeats { "number, a text or a list of them" } else { "number or a text" };
                refuse(format!("{name}: `{key_given}` holds a {kind}, and it must be a {takes}"))
            }
        }
    });
    given.collect()
}

/// A value as a flag would take it; an error is the kind of one that none takes.
fn flag_value(value: toml::Value) -> Result<String, &'static str> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Array(_) => Err("list"),
        other => Err(other.type_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> anyhow::Result<Layer> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, text).unwrap();
        Layer::new(read_file(&path)?, &|key| format!("FILE {key}"))
    }

    /// The forms of the TOML specification: comments, bare and quoted keys, integers with underscores, floats.
    #[test]
    fn a_file_is_read_as_flags_are() {
        let read = layer(
            "# mine\nthreads = 4\nctx = 4_096\n\"kv\" = 'f32'\ntemp = 0.25\ntop_k = +40\ncache = \"/big\"\n",
        )
        .unwrap();
        let options = read.shared.running.load_options();
        assert_eq!((options.threads, options.context, options.kv.name()), (Some(4), Some(4096), "f32"));
        let sampling = read.shared.sampling.numbers();
        assert_eq!((sampling.temperature, sampling.top_k, sampling.seed), (Some(0.25), Some(40), None));
        assert_eq!(read.shared.store.cache.as_deref(), Some(Path::new("/big")));
        assert_eq!(layer("").unwrap().given, []);
    }

    #[test]
    fn a_setting_that_repeats_is_a_list() {
        let read = |text: &str| layer(text).unwrap().shared.sampling.numbers().logit_bias;
        let expected = Some(vec![(15, 1.5), (16, f32::NEG_INFINITY)]);
        assert_eq!(read("logit_bias = ['15+1.5', \"16=-inf\"]"), expected);
        assert_eq!(read("logit_bias = '15+1.5,16=-inf'"), expected);
        assert_eq!(read("logit_bias = []"), None);
        let shown = layer("dry_sequence_breaker = ['.', \"\\n\"]").unwrap();
        assert_eq!(shown.value("dry_sequence_breaker").unwrap(), ".,\n");
    }

    #[test]
    fn what_no_flag_would_take_is_refused_by_name() {
        for (text, parts) in [
            ("tempp = 1", &["FILE tempp", "did you mean `temp`"][..]),
            ("zzz = 1", &["`zzz`", "threads", "top_k"]),
            ("threads = 0", &["FILE threads", "at least 1"]),
            ("kv = 'q8'", &["FILE kv", "f16", "q8_0"]),
            ("top_k = 1.5", &["FILE top_k", "1.5"]),
            ("[sampling]\ntemp = 1", &["`sampling` holds a table", "a number or a text"]),
            ("temp = 1\ntemp = 2", &["line 2"]),
            ("temp = [1]", &["`temp` holds a list", "a number or a text"]),
            ("logit_bias = [['1+1']]", &["`logit_bias` holds a list", "a list of them"]),
            ("rope_scale = 2\nyarn_factor = 2", &["FILE yarn_factor", "--rope-scale", "cannot be used"]),
            ("logit_bias = true", &["`logit_bias` holds a boolean"]),
            ("logit_bias = ['1+1', 'x']", &["FILE logit_bias", "--logit-bias", "'x'"]),
            ("a = \n", &["line 1"]),
        ] {
            let error = layer(text).err().unwrap_or_else(|| panic!("{text} is taken")).to_string();
            assert!(
                parts.iter().all(|part| error.contains(part)) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn keys_and_variables_are_the_flags() {
        let names: Vec<_> = known().into_iter().map(|known| known.key).collect();
        for name in ["threads", "ctx", "kv", "activations", "temp", "top_k", "seed", StoreArgs::KEY] {
            assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
        }
        assert_eq!(variable("top_k"), "QUERN_TOP_K");
    }
}
