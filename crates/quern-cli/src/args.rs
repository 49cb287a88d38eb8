//! Flags that several commands share, each defined once.

use clap::{Args, FromArgMatches, ValueEnum};
use quern::{
    ActivationMode, KvType, LoadOptions, Mirostat, Overrides, Quern, RequestOptions, RopeOverrides,
    RopeReach, STAGES,
};
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
    #[value(name = "q8_0")]
    Q8_0,
    F32,
}

/// How the model is run.
#[derive(Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct RunningArgs {
    /// Positions to make room for, prompt and answer together; as many as the model was trained for, times --rope-scale
    /// or --yarn-factor, unless given
    #[arg(long, value_name = "N", value_parser = count)]
    ctx: Option<usize>,
    /// Compute threads; the physical cores this process may use unless given. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = count)]
    threads: Option<usize>,
    /// How keys and values are kept; f16 unless given. q8_0 takes about half the memory of f16, and needs heads of a
    /// multiple of 32
    #[arg(long, value_enum)]
    kv: Option<Kv>,
    /// How activations meet quantised weights; q8 unless given
    #[arg(long, value_enum)]
    activations: Option<Activations>,
    /// Reach a context this many times as long, from 1 up, by dividing positions; layers with a sliding window stay as
    /// they are. Refused where the file scales by itself
    #[arg(long, value_name = "X", value_parser = factor, conflicts_with = "yarn_factor")]
    rope_scale: Option<f32>,
    /// The same by YaRN over the trained context
    #[arg(long, value_name = "X", value_parser = factor)]
    yarn_factor: Option<f32>,
    /// Replace the base of the rotary embedding (rope.freq_base), above 1; sliding-window layers keep theirs
    #[arg(long, value_name = "X", value_parser = base)]
    rope_base: Option<f32>,
}

impl RunningArgs {
    /// These flags, and those of `other` where they are silent.
    pub(crate) fn or(&self, other: &RunningArgs) -> RunningArgs {
        // One way beyond the trained context counts, and the stronger place says which.
        let reach = if self.rope_scale.or(self.yarn_factor).is_some() { self } else { other };
        RunningArgs {
            ctx: self.ctx.or(other.ctx),
            threads: self.threads.or(other.threads),
            kv: self.kv.or(other.kv),
            activations: self.activations.or(other.activations),
            rope_scale: reach.rope_scale,
            yarn_factor: reach.yarn_factor,
            rope_base: self.rope_base.or(other.rope_base),
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
                Kv::Q8_0 => KvType::Q8_0,
                Kv::F32 => KvType::F32,
            }),
            context: self.ctx,
            rope: RopeOverrides {
                base: self.rope_base,
                reach: self.rope_scale.map(RopeReach::Linear).or(self.yarn_factor.map(RopeReach::Yarn)),
            },
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
    /// Let the temperature move by this much either way, up where the model is unsure; 0 is off
    #[arg(long, value_name = "R")]
    dynatemp_range: Option<f32>,
    /// The power by which it moves with the model's doubt, from 0 up; 1 unless given
    #[arg(long, value_name = "X")]
    dynatemp_exp: Option<f32>,
    /// Draw from this many most probable tokens; 0 is off
    #[arg(long, value_name = "N")]
    top_k: Option<u32>,
    /// Draw from the fewest tokens that hold this much probability, from 0 to 1; 1 is off
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Draw from tokens at least this probable relative to the best one, from 0 to 1; 0 is off
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Draw from the tokens least surprising or dull that hold this much probability, from 0 to 1; 1 is off
    #[arg(long, value_name = "P")]
    typical_p: Option<f32>,
    /// Draw from tokens within this many standard deviations of the best logit; 0 is off
    #[arg(long, value_name = "N")]
    top_n_sigma: Option<f32>,
    /// Leave at least this many tokens to typical-p, top-p, min-p and XTC
    #[arg(long, value_name = "N")]
    min_keep: Option<u32>,
    /// The chance that XTC drops the most probable tokens, from 0 to 1; 0 is off
    #[arg(long, value_name = "P")]
    xtc_probability: Option<f32>,
    /// XTC drops all but the last of the tokens at least this probable; 0.1 unless given, above 0.5 is off
    #[arg(long, value_name = "P")]
    xtc_threshold: Option<f32>,
    /// Steer the surprise of the text by mirostat 1 or 2 instead of cutting; 0 is off
    #[arg(long, value_name = "0|1|2", value_parser = mirostat)]
    mirostat: Option<Mirostat>,
    /// How fast mirostat follows (eta); 0.1 unless given
    #[arg(long, value_name = "X")]
    mirostat_lr: Option<f32>,
    /// The surprise mirostat steers for, in bits (tau); 5 unless given
    #[arg(long, value_name = "X")]
    mirostat_ent: Option<f32>,
    /// Make generated tokens less probable the next time, above 0; 1 is off
    #[arg(long, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// The last generated tokens that penalties look at; 64 unless given, 0 is off, -1 is all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    repeat_last_n: Option<i32>,
    /// Taken off the logit of every token among them, from -100 to 100; 0 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Taken off once for each time it is among them, from -100 to 100; 0 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// The size of DRY's penalty on tokens that prolong a repetition, from 0 up; 0 is off
    #[arg(long, value_name = "X")]
    dry_multiplier: Option<f32>,
    /// The factor by which DRY's penalty grows with every further token, from 1 up; 1.75 unless given
    #[arg(long, value_name = "X")]
    dry_base: Option<f32>,
    /// The length from which DRY penalises a repetition, in tokens; 2 unless given
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<u32>,
    /// The last generated tokens that DRY searches; all (-1) unless given, 0 is off
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dry_penalty_last_n: Option<i32>,
    /// Text that no repetition reaches across, \n for a line break; may be given more than once, none unless given
    #[arg(long, value_name = "TEXT", value_parser = unescape)]
    dry_sequence_breaker: Vec<String>,
    /// Add to a token's logit: 42+1.5, 42-1.5 or 42=-inf, which forbids it; may be given more than once, or with commas
    #[arg(long, value_name = "ID=BIAS", value_parser = logit_bias, value_delimiter = ',')]
    logit_bias: Vec<(u32, f32)>,
    /// Seed of the draws, any whole number from 0; random unless given. The same seed gives the same answer
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingArgs {
    /// The settings; sequence breakers are texts, which become tokens through the model's tokenizer.
    pub(crate) fn overrides(&self, model: &Quern) -> Result<Overrides, quern::Error> {
        let texts = &self.dry_sequence_breaker;
        let breakers = (!texts.is_empty()).then(|| model.sequence_breakers(texts)).transpose()?;
        Ok(Overrides { dry_sequence_breakers: breakers, ..self.numbers() })
    }

    /// The settings that need no tokenizer.
    pub(crate) fn numbers(&self) -> Overrides {
        Overrides {
            temperature: self.temp,
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical_p,
            top_n_sigma: self.top_n_sigma,
            xtc_probability: self.xtc_probability,
            xtc_threshold: self.xtc_threshold,
            mirostat: self.mirostat,
            mirostat_tau: self.mirostat_ent,
            mirostat_eta: self.mirostat_lr,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            dry_multiplier: self.dry_multiplier,
            dry_base: self.dry_base,
            dry_allowed_length: self.dry_allowed_length,
            dry_penalty_last_n: self.dry_penalty_last_n,
            dry_sequence_breakers: None,
            logit_bias: (!self.logit_bias.is_empty()).then(|| self.logit_bias.clone()),
            seed: self.seed,
            min_keep: self.min_keep,
        }
    }

    /// The settings of these names and values, read as the flags of the same names are; the last of a name counts.
    pub(crate) fn parse(settings: &[(String, String)]) -> Result<SamplingArgs, clap::Error> {
        let command = clap::Command::new("settings").no_binary_name(true).disable_help_flag(true);
        let flag = |name: &str| format!("--{}", name.replace('_', "-"));
        let counts = |(i, (name, _)): &(usize, &(String, String))| {
            !settings[i + 1..].iter().any(|(later, _)| flag(later) == flag(name))
        };
        let flags = settings.iter().enumerate().filter(counts);
        let flags = flags.map(|(_, (name, value))| format!("{}={value}", flag(name)));
        SamplingArgs::from_arg_matches(&SamplingArgs::augment_args(command).try_get_matches_from(flags)?)
    }
}

/// What stands under the help of a command that samples: its examples, and the order in which the settings act.
pub(crate) fn with_stages(examples: &str) -> String {
    let stages: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
    format!(
        "{examples}\n\nSampling settings act in this order, each where it is on: {}. Mirostat replaces top-n-sigma to xtc. At \
         temperature 0, the best token is taken after dry. Penalties and dry look at generated tokens alone.",
        stages.join(", ")
    )
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

/// A factor by which a context grows.
fn factor(text: &str) -> Result<f32, String> {
    number(text).filter(|x| *x >= 1.0).ok_or_else(|| "it must be a number from 1 up".into())
}

/// The base of a rotary embedding.
fn base(text: &str) -> Result<f32, String> {
    number(text).filter(|x| *x > 1.0).ok_or_else(|| "it must be a number above 1".into())
}

fn number(text: &str) -> Option<f32> {
    text.parse().ok().filter(|x: &f32| x.is_finite())
}

/// A version of mirostat.
fn mirostat(text: &str) -> Result<Mirostat, String> {
    let version: u32 = text.parse().map_err(|_| "it must be 0 (off), 1 or 2")?;
    Mirostat::try_from(version).map_err(|error| error.to_string())
}

/// A bias of a token: its id and a number behind its sign or behind `=`.
fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (id, bias) = text.split_at(end);
    let bias = match bias.strip_prefix('=') {
        Some(bias) => bias.parse().ok(),
        None if bias.starts_with(['+', '-']) => bias.parse().ok(),
        None => None,
    };
    match (id.parse(), bias) {
        (Ok(id), Some(bias)) => Ok((id, bias)),
        _ => Err("it must be a token id and a number, as in 42+1.5, 42-1.5 or 42=-inf".into()),
    }
}

/// A text in which `\n`, `\t` and `\\` stand for a line break, a tab and a backslash.
fn unescape(text: &str) -> Result<String, String> {
    let (mut plain, mut rest) = (String::new(), text.chars());
    while let Some(c) = rest.next() {
        plain.push(match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err("a backslash must be followed by n, t or a backslash".into()),
            },
            c => c,
        });
    }
    if plain.is_empty() { Err("it must not be empty".into()) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &[(&str, &str)]) -> Result<Overrides, String> {
        let settings: Vec<_> = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let args = SamplingArgs::parse(&settings).map_err(|error| crate::exit::usage_line(&error))?;
        Ok(args.numbers())
    }

    /// The values are the publishers' own examples: llama.cpp's help writes a bias as `15043+1` and `15043-1`.
    #[test]
    fn every_flag_sets_its_setting() {
        let all = set(&[
            ("temp", "0.5"),
            ("dynatemp-range", "0.25"),
            ("dynatemp_exp", "2"),
            ("top_k", "5"),
            ("top_p", "0.9"),
            ("min_p", "0.05"),
            ("typical_p", "0.8"),
            ("top_n_sigma", "1.5"),
            ("min_keep", "3"),
            ("xtc_probability", "0.5"),
            ("xtc_threshold", "0.2"),
            ("mirostat", "2"),
            ("mirostat_lr", "0.3"),
            ("mirostat_ent", "4"),
            ("repeat_penalty", "1.1"),
            ("repeat_last_n", "-1"),
            ("presence_penalty", "-0.5"),
            ("frequency_penalty", "0.75"),
            ("dry_multiplier", "0.8"),
            ("dry_base", "1.5"),
            ("dry_allowed_length", "4"),
            ("dry_penalty_last_n", "128"),
            ("logit_bias", "15043+1, 15044-1,7=-inf"),
            ("seed", "0"),
        ]);
        let expected = Overrides {
            temperature: Some(0.5),
            dynatemp_range: Some(0.25),
            dynatemp_exponent: Some(2.0),
            top_k: Some(5),
            top_p: Some(0.9),
            min_p: Some(0.05),
            typical_p: Some(0.8),
            top_n_sigma: Some(1.5),
            min_keep: Some(3),
            xtc_probability: Some(0.5),
            xtc_threshold: Some(0.2),
            mirostat: Some(Mirostat::V2),
            mirostat_eta: Some(0.3),
            mirostat_tau: Some(4.0),
            repeat_penalty: Some(1.1),
            repeat_last_n: Some(-1),
            presence_penalty: Some(-0.5),
            frequency_penalty: Some(0.75),
            dry_multiplier: Some(0.8),
            dry_base: Some(1.5),
            dry_allowed_length: Some(4),
            dry_penalty_last_n: Some(128),
            dry_sequence_breakers: None,
            logit_bias: Some(vec![(15043, 1.0), (15044, -1.0), (7, f32::NEG_INFINITY)]),
            seed: Some(0),
        };
        assert_eq!(all, Ok(expected));
        // The last of a name counts, however it is written.
        let last = set(&[("logit_bias", "1+1"), ("temp", "1"), ("logit-bias", "2+2")]).unwrap();
        assert_eq!(last.logit_bias, Some(vec![(2, 2.0)]));
    }

    fn running(flags: &[&str]) -> Result<RunningArgs, String> {
        let command = RunningArgs::augment_args(clap::Command::new("running").no_binary_name(true));
        let matches = command.try_get_matches_from(flags).map_err(|error| crate::exit::usage_line(&error))?;
        Ok(RunningArgs::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn one_way_beyond_the_trained_context_counts() {
        let rope = |flags: &[&str], other: &[&str]| {
            running(flags).unwrap().or(&running(other).unwrap()).load_options().rope
        };
        let (linear, yarn) = (Some(RopeReach::Linear(2.0)), Some(RopeReach::Yarn(4.0)));
        assert_eq!(rope(&["--rope-scale=2"], &["--yarn-factor=4"]).reach, linear);
        assert_eq!(rope(&["--yarn-factor=4"], &["--rope-scale=2"]).reach, yarn);
        let both = rope(&["--rope-base=5e5"], &["--yarn-factor=4", "--rope-base=7"]);
        assert_eq!(both, RopeOverrides { base: Some(5e5), reach: yarn });
        assert_eq!(rope(&[], &[]), RopeOverrides::default());

        let refused = running(&["--rope-scale=2", "--yarn-factor=4"]).err().unwrap();
        assert!(refused.contains("--rope-scale") && refused.contains("--yarn-factor"), "{refused}");
        for flag in ["--rope-scale", "--yarn-factor", "--rope-base"] {
            for value in ["0", "-2", "0.5", "nan", "inf", "1e99", "two"] {
                let refused = running(&[&format!("{flag}={value}")]).err().unwrap();
                assert!(refused.contains(flag) && refused.contains("must be a number"), "{refused}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        for (name, value, part) in [
            ("mirostat", "3", "0 (off), 1 or 2"),
            ("mirostat", "on", "0 (off), 1 or 2"),
            ("logit_bias", "5", "token id and a number"),
            ("logit_bias", "+5", "token id and a number"),
            ("logit_bias", "5=much", "token id and a number"),
            ("logit_bias", "99999999999=1", "token id and a number"),
            ("dry_sequence_breaker", "", "empty"),
            ("dry_sequence_breaker", "\\q", "backslash"),
            ("repeat_last_n", "all", "invalid"),
        ] {
            let refused = set(&[(name, value)]).unwrap_err();
            let flag = format!("--{}", name.replace('_', "-"));
            assert!(refused.contains(part) && refused.contains(&flag), "{name} {value}: {refused}");
        }
        assert_eq!(unescape("a\\n\\t\\\\b").unwrap(), "a\n\t\\b");
    }
}
