//! Settings from several places, merged field by field, with a record of which place won.

use super::params::{Mirostat, SamplingParams};

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

impl Resolved {
    /// Every setting's name and source, in the order of [`SamplingParams`].
    pub fn sources(&self) -> &[(&'static str, Source)] {
        &self.sources
    }

    /// Where one setting came from; `None` for a name that is no setting.
    pub fn source(&self, name: &str) -> Option<Source> {
        self.sources.iter().find(|(field, _)| *field == name).map(|(_, source)| *source)
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
    fn silence_gives_the_neutral_default() {
        let resolved = resolve(Layers::default());
        assert_eq!(resolved.params, SamplingParams::default());
        assert!(resolved.sources().iter().all(|(_, source)| *source == Source::Default));
    }
}
