//! Flags that several commands share, each defined once.

use clap::{Args, FromArgMatches, ValueEnum};
use quern::{ActivationMode, KvType, LoadOptions, Overrides, RequestOptions};
use std::path::PathBuf;

/// Which model.
#[derive(Args)]
pub(crate) struct ModelArg {
    /// A path to a .gguf file, a short name (demo, gemma3), or hf:owner/name[:QUANT|:FILE][@REVISION]
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
}

/// Where models are kept.
#[derive(Args, Clone)]
pub(crate) struct StoreArgs {
    /// The folder for models; quern in the platform's cache folder unless given
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) cache: Option<PathBuf>,
}

impl StoreArgs {
    /// The name of its one setting.
    pub(crate) const KEY: &str = "cache";
}

/// How activations meet quantised weights.
#[derive(Clone, Copy, ValueEnum)]
enum Activations {
    /// 8-bit blocks: fast
    Q8,
    /// 32-bit floats: slower and closest to the published model
    F32,
}

/// How keys and values are held.
#[derive(Clone, Copy, ValueEnum)]
enum Kv {
    F16,
    F32,
}

/// How the model is run.
#[derive(Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct RunningArgs {
    /// Positions to make room for, prompt and answer together; as many as the model was trained for unless given
    #[arg(long, value_name = "N", value_parser = count)]
    ctx: Option<usize>,
    /// Compute threads; the physical cores this process may use unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = count)]
    threads: Option<usize>,
    /// How keys and values are kept; f16 unless given
    #[arg(long, value_enum)]
    kv: Option<Kv>,
    /// How activations meet quantised weights; q8 unless given
    #[arg(long, value_enum)]
    activations: Option<Activations>,
}

impl RunningArgs {
    /// These flags, and those of `other` where they are silent.
    pub(crate) fn or(&self, other: &RunningArgs) -> RunningArgs {
        RunningArgs {
            ctx: self.ctx.or(other.ctx),
            threads: self.threads.or(other.threads),
            kv: self.kv.or(other.kv),
            activations: self.activations.or(other.activations),
        }
    }

    pub(crate) fn load_options(&self) -> LoadOptions {
        let default = LoadOptions::default();
        LoadOptions {
            threads: self.threads,
            activations: self.activations.map_or(default.activations, |activations| match activations {
                Activations::Q8 => ActivationMode::Q8,
                Activations::F32 => ActivationMode::F32,
            }),
            kv: self.kv.map_or(default.kv, |kv| match kv {
                Kv::F16 => KvType::F16,
                Kv::F32 => KvType::F32,
            }),
            context: self.ctx,
            ..default
        }
    }
}

/// How tokens are drawn. What is not given comes from the model file, else from the presets of its family.
#[derive(Args)]
#[command(
    next_help_heading = "Sampling (what is not given: the file's own, else its family's, recommendation)"
)]
pub(crate) struct SamplingArgs {
    /// Temperature, from 0 up; 0 always takes the most probable token
    #[arg(long, value_name = "T")]
    temp: Option<f32>,
    /// Draw from this many most probable tokens; 0 is off
    #[arg(long, value_name = "N")]
    top_k: Option<u32>,
    /// Draw from the fewest tokens that hold this much probability, from 0 to 1; 1 is off
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Draw from tokens at least this probable relative to the best one, from 0 to 1; 0 is off
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Make generated tokens less probable the next time, above 0; 1 is off
    #[arg(long, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// Seed of the draws, any whole number from 0; random unless given. The same seed gives the same answer
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingArgs {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            seed: self.seed,
            ..Overrides::default()
        }
    }

    /// The settings of these names and values, read as the flags of the same names are; the last of a name counts.
    pub(crate) fn parse(settings: &[(String, String)]) -> Result<Overrides, clap::Error> {
        let command = clap::Command::new("settings").no_binary_name(true).disable_help_flag(true);
        let command = SamplingArgs::augment_args(command).args_override_self(true);
        let flags = settings.iter().map(|(name, value)| format!("--{}={value}", name.replace('_', "-")));
        SamplingArgs::from_arg_matches(&command.try_get_matches_from(flags)?).map(|args| args.overrides())
    }
}

/// What is asked of an answer besides its prompt.
#[derive(Args)]
pub(crate) struct AnswerArgs {
    /// Instructions that stand above the conversation; what a short name recommends unless given, then the template's own
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Most tokens of an answer; until the model stops or the context is full unless given
    #[arg(short = 'n', long = "max-tokens", value_name = "N", value_parser = count)]
    pub(crate) max_tokens: Option<usize>,
    /// Text that ends the answer and is not part of it; may be given more than once
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Never draw the tokens by which the model ends an answer
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Say on standard error what is in force, which sampling settings won, and what in the file is odd
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl AnswerArgs {
    /// A request with these wishes, and no sampling settings of its own.
    pub(crate) fn request(&self) -> RequestOptions {
        RequestOptions {
            max_tokens: self.max_tokens,
            stops: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            ..RequestOptions::default()
        }
    }
}

/// A number from 1 up.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(n) => Ok(n),
        Err(_) => Err("not a whole number".into()),
    }
}
