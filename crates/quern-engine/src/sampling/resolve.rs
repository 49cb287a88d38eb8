//! Settings from several places, merged field by field, with a record of which place won.

use super::error::SamplingError;
use super::params::{Mirostat, SamplingParams};
use super::stages::STAGES;

/// Where a setting's value came from, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The request.
    Request,
    /// The command line the process was started with.
    CommandLine,
    /// The process's environment variables.
    Environment,
    /// The configuration file of the person or the machine.
    Config,
    /// The model file's own recommendation (`general.sampling.*`).
    File,
    /// The preset of the model's family.
    Preset,
    /// Nobody: the neutral default.
    Default,
}

impl Source {
    /// The source's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Source::Request => "request",
            Source::CommandLine => "command line",
            Source::Environment => "environment",
            Source::Config => "config file",
            Source::File => "file",
            Source::Preset => "preset",
            Source::Default => "default",
        }
    }
}

/// The layers of settings, strongest first.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// What the request says.
    pub request: &'a Overrides,
    /// What the command line says.
    pub command_line: &'a Overrides,
    /// What environment variables say.
    pub environment: &'a Overrides,
    /// What the configuration file says.
    pub config: &'a Overrides,
    /// What the model file says.
    pub file: &'a Overrides,
    /// What the family's preset says.
    pub preset: &'a Overrides,
}

impl Default for Layers<'_> {
    fn default() -> Self {
        Layers {
            request: &SILENT,
            command_line: &SILENT,
            environment: &SILENT,
            config: &SILENT,
            file: &SILENT,
            preset: &SILENT,
        }
    }
}

/// The merged settings, not yet validated, and where each came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub params: SamplingParams,
    sources: Vec<(&'static str, Source)>,
}

/// A setting in force, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name in [`SamplingParams`].
    pub name: &'static str,
    /// Its value in words.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

impl Resolved {
    /// Every setting's name and source, in the order of [`SamplingParams`].
    pub fn sources(&self) -> &[(&'static str, Source)] {
        &self.sources
    }

    /// Where one setting came from; `None` for a name that is no setting.
    pub fn source(&self, name: &str) -> Option<Source> {
        self.sources.iter().find(|(field, _)| *field == name).map(|(_, source)| *source)
    }

    /// Refuses, by name, a setting outside its range, and a truncation that somebody chose where mirostat replaces it.
    ///
    /// A recommendation gives way to mirostat, and so does what a weaker place says than the one that chose mirostat.
    pub fn validate(&self) -> Result<(), SamplingError> {
        self.params.validate()?;
        let truncating = SamplingParams { mirostat: Mirostat::Off, ..self.params.clone() };
        let replaced =
            STAGES.iter().filter(|info| truncating.uses(info.stage) && !self.params.uses(info.stage));
        let mirostat = self.source("mirostat").unwrap_or(Source::Default);
        let chosen = |name: &str| self.source(name).is_some_and(|by| by < Source::File && by <= mirostat);
        match replaced.filter_map(|info| info.params.first()).find(|name| chosen(name)) {
            Some(name) => Err(SamplingError::ReplacedByMirostat { name }),
            None => Ok(()),
        }
    }
}

/// How reports write a value.
trait InWords {
    fn in_words(&self) -> String;
}

macro_rules! displayed {
    ($($type:ty),*) => {
        $(impl InWords for $type {
            fn in_words(&self) -> String {
                self.to_string()
            }
        })*
    };
}

displayed!(f32, u32, i32, u64);

impl InWords for Mirostat {
    fn in_words(&self) -> String {
        (*self as u32).to_string()
    }
}

impl<T: InWords> InWords for Option<T> {
    fn in_words(&self) -> String {
        self.as_ref().map_or_else(|| "random".to_owned(), T::in_words)
    }
}

impl InWords for Vec<(u32, f32)> {
    fn in_words(&self) -> String {
        let biases: Vec<_> = self.iter().map(|(id, bias)| format!("{id}={bias}")).collect();
        biases.join(",")
    }
}

/// One string can begin or end in thousands of tokens: their number says enough.
impl InWords for Vec<Vec<u32>> {
    fn in_words(&self) -> String {
        format!("{} token sequences", self.len())
    }
}

macro_rules! settings {
    ($($field:ident: $type:ty,)*) => {
        /// One layer of settings: a value where the layer has an opinion.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Overrides {
            $(
                #[doc = concat!("See [`SamplingParams::", stringify!($field), "`].")]
                pub $field: Option<$type>,
            )*
        }

        /// A layer without opinions.
        static SILENT: Overrides = Overrides { $($field: None,)* };

        /// Takes each setting from the strongest layer that has it.
        pub fn resolve(layers: Layers<'_>) -> Resolved {
            let mut params = SamplingParams::default();
            let sources = vec![$({
                let from_layers = [
                    (Source::Request, &layers.request.$field),
                    (Source::CommandLine, &layers.command_line.$field),
                    (Source::Environment, &layers.environment.$field),
                    (Source::Config, &layers.config.$field),
                    (Source::File, &layers.file.$field),
                    (Source::Preset, &layers.preset.$field),
                ];
                let won = from_layers.into_iter().find_map(|(source, value)| Some((source, value.as_ref()?)));
                let source = won.map_or(Source::Default, |(source, value)| {
                    params.$field = value.clone().into();
                    source
                });
                (stringify!($field), source)
            },)*];
            Resolved { params, sources }
        }

        impl Resolved {
            /// Every setting in force, in the order of [`SamplingParams`].
            pub fn settings(&self) -> Vec<Setting> {
                let values = [$(self.params.$field.in_words(),)*];
                let named = self.sources.iter().zip(values);
                named.map(|(&(name, source), value)| Setting { name, value, source }).collect()
            }
        }
    };
}

settings! {
    temperature: f32,
    dynatemp_range: f32,
    dynatemp_exponent: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    typical_p: f32,
    top_n_sigma: f32,
    xtc_probability: f32,
    xtc_threshold: f32,
    mirostat: Mirostat,
    mirostat_tau: f32,
    mirostat_eta: f32,
    repeat_penalty: f32,
    repeat_last_n: i32,
    frequency_penalty: f32,
    presence_penalty: f32,
    dry_multiplier: f32,
    dry_base: f32,
    dry_allowed_length: u32,
    dry_penalty_last_n: i32,
    dry_sequence_breakers: Vec<Vec<u32>>,
    logit_bias: Vec<(u32, f32)>,
    seed: u64,
    min_keep: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_layer_with_a_value_wins_field_by_field() {
        let temperature = |t| Overrides { temperature: Some(t), ..Overrides::default() };
        let request = Overrides { seed: Some(0), top_p: Some(0.5), ..Overrides::default() };
        let command_line = Overrides { top_p: Some(0.6), ..temperature(0.1) };
        let environment = Overrides { top_p: Some(0.7), typical_p: Some(0.8), ..Overrides::default() };
        let config = Overrides { typical_p: Some(0.9), min_keep: Some(3), ..Overrides::default() };
        let file = Overrides { top_k: Some(7), min_keep: Some(4), ..temperature(0.2) };
        let preset = Overrides { min_p: Some(0.05), top_k: Some(9), ..temperature(0.3) };
        let resolved = resolve(Layers {
            request: &request,
            command_line: &command_line,
            environment: &environment,
            config: &config,
            file: &file,
            preset: &preset,
        });

        let expected = SamplingParams {
            temperature: 0.1,
            top_p: 0.5,
            top_k: 7,
            min_p: 0.05,
            typical_p: 0.8,
            min_keep: 3,
            seed: Some(0),
            ..SamplingParams::default()
        };
        assert_eq!(resolved.params, expected);
        assert_eq!(resolved.source("temperature"), Some(Source::CommandLine));
        assert_eq!(resolved.source("top_p"), Some(Source::Request));
        assert_eq!(resolved.source("top_k"), Some(Source::File));
        assert_eq!(resolved.source("min_p"), Some(Source::Preset));
        // R71: a seed of 0 is a seed.
        assert_eq!(resolved.source("seed"), Some(Source::Request));
        assert_eq!(resolved.source("typical_p"), Some(Source::Environment));
        assert_eq!(resolved.source("min_keep"), Some(Source::Config));
        assert_eq!(resolved.source("top_n_sigma"), Some(Source::Default));
        assert_eq!(resolved.source("temprature"), None);
    }

    #[test]
    fn every_setting_has_a_name_a_value_and_a_source() {
        let request = Overrides {
            mirostat: Some(Mirostat::V2),
            logit_bias: Some(vec![(7, f32::NEG_INFINITY), (8, 1.5)]),
            dry_sequence_breakers: Some(vec![vec![1], vec![2, 3]]),
            ..Overrides::default()
        };
        let settings = resolve(Layers { request: &request, ..Layers::default() }).settings();
        let shown = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name).unwrap();
            format!("{} {}", setting.value, setting.source.name())
        };
        assert_eq!(shown("mirostat"), "2 request");
        assert_eq!(shown("logit_bias"), "7=-inf,8=1.5 request");
        assert_eq!(shown("dry_sequence_breakers"), "2 token sequences request");
        assert_eq!(shown("xtc_threshold"), "0.1 default");
        assert_eq!(shown("seed"), "random default");
    }

    #[test]
    fn a_truncation_that_somebody_chose_is_not_dropped_for_mirostat() {
        let mirostat = Overrides { mirostat: Some(Mirostat::V1), ..Overrides::default() };
        let truncation = Overrides { xtc_probability: Some(0.5), ..Overrides::default() };
        let both = Overrides { top_k: Some(5), ..mirostat.clone() };
        let by = |layers: Layers<'_>| match resolve(layers).validate() {
            Err(SamplingError::ReplacedByMirostat { name }) => Some(name),
            other => other.map(|()| None).unwrap(),
        };
        let layers = Layers::default();
        assert_eq!(by(Layers { config: &both, ..layers }), Some("top_k"));
        assert_eq!(
            by(Layers { command_line: &truncation, config: &mirostat, ..layers }),
            Some("xtc_probability")
        );
        assert_eq!(
            by(Layers { command_line: &truncation, file: &mirostat, ..layers }),
            Some("xtc_probability")
        );
        // The stronger place decides, recommendations give way, and at temperature 0 neither acts.
        assert_eq!(by(Layers { command_line: &mirostat, config: &truncation, ..layers }), None);
        assert_eq!(by(Layers { file: &both, preset: &truncation, ..layers }), None);
        let greedy = Overrides { temperature: Some(0.0), ..both.clone() };
        assert_eq!(by(Layers { request: &greedy, ..layers }), None);
        let off = Overrides { top_k: Some(0), ..both };
        assert_eq!(by(Layers { request: &off, ..layers }), None);
        let out_of_range = Overrides { xtc_threshold: Some(2.0), ..Overrides::default() };
        let refused = resolve(Layers { request: &out_of_range, ..layers }).validate().unwrap_err();
        assert!(refused.to_string().contains("xtc_threshold is 2"), "{refused}");
    }

    #[test]
    fn silence_gives_the_neutral_default() {
        let resolved = resolve(Layers::default());
        assert_eq!(resolved.params, SamplingParams::default());
        assert!(resolved.sources().iter().all(|(_, source)| *source == Source::Default));
    }
}
