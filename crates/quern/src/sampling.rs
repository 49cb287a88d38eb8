//! Which sampling settings are in force: the request's, else the process's, else the file's, else the family's.

use crate::{Error, Quern};
use quern_engine::sampling::presets::{self, ModelNames};
use quern_engine::sampling::{Layers, Mirostat, Overrides, Resolved, resolve};
use quern_gguf::Metadata;
use quern_tokenizer::{EncodeOptions, Segment};

/// Settings as they will be used.
#[derive(Clone, Debug)]
pub struct SamplingChoice {
    /// The settings, and where each came from.
    pub resolved: Resolved,
    /// The family whose preset was the last resort; None where none was asked.
    pub preset: Option<&'static str>,
}

/// Settings of the process: below those of a request, above the model file's.
#[derive(Clone, Debug, Default)]
pub struct SamplingDefaults {
    /// What its command line says.
    pub command_line: Overrides,
    /// What its environment variables say.
    pub environment: Overrides,
    /// What its configuration file says.
    pub config: Overrides,
}

impl SamplingDefaults {
    /// The layers of a request under these settings, before anybody recommends something.
    fn under<'a>(&'a self, request: &'a Overrides) -> Layers<'a> {
        let SamplingDefaults { command_line, environment, config } = self;
        Layers { request, command_line, environment, config, ..Layers::default() }
    }
}

impl Quern {
    /// Sets what counts where a request does not speak.
    pub fn set_sampling_defaults(&mut self, defaults: SamplingDefaults) {
        self.sampling_defaults = defaults;
    }

    /// The settings that a request with these of its own would run under.
    ///
    /// A request for temperature 0 wants the model's most probable token, so recommendations for sampling, a repeat
    /// penalty among them, are left out of it; the settings of the request and of the process still count.
    pub fn sampling(&self, request: &Overrides) -> Result<SamplingChoice, Error> {
        let layers = self.sampling_defaults.under(request);
        let asked = resolve(layers);
        if asked.params.temperature == 0.0 {
            return Ok(SamplingChoice { resolved: asked, preset: None });
        }
        let metadata = self.file.metadata();
        let names = ModelNames {
            template: None,
            model: metadata.opt_str("general.name")?,
            file: Some(self.file.name()),
        };
        let (preset, _) = presets::choose(names);
        let file = recommended(metadata)?;
        let layers = Layers { file: &file, preset: &preset.overrides(), ..layers };
        Ok(SamplingChoice { resolved: resolve(layers), preset: Some(preset.name) })
    }

    /// The token sequences in which each of these texts can be spelled, for
    /// [`dry_sequence_breakers`](Overrides::dry_sequence_breakers).
    ///
    /// A text may begin within one token and end within another: every token that holds it is a sequence, and so is every
    /// token that ends in a beginning of it, followed by the tokens of the rest.
    pub fn sequence_breakers(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, Error> {
        let tokenizer = self.need_tokenizer()?;
        let encode =
            |text: &str| tokenizer.encode(&[Segment::Plain(text)], EncodeOptions { add_special: false });
        let mut sequences = Vec::new();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            // By itself first: bytes of one character can be tokens, and the rest of it is no text.
            sequences.push(encode(text));
            // The rests of the text, by how much of it stands before them.
            let rests: Vec<_> = (1..text.len()).map(|n| text.get(n..).map(encode)).collect();
            for id in 0..tokenizer.n_vocab() as u32 {
                let token = tokenizer.token_bytes(id);
                if token.windows(text.len()).any(|window| window == text.as_bytes()) {
                    sequences.push(vec![id]);
                    continue;
                }
                for (n, rest) in (1..text.len()).zip(&rests) {
                    if let Some(rest) = rest
                        && token.ends_with(&text.as_bytes()[..n])
                    {
                        sequences.push([&[id], &rest[..]].concat());
                    }
                }
            }
        }
        sequences.sort_unstable();
        sequences.dedup();
        Ok(sequences)
    }

    /// What in the file is odd, or asks for something that is not done; one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings =
            self.tokenizer.as_ref().map_or_else(Vec::new, |tokenizer| tokenizer.warnings().to_vec());
        if self.file.metadata().get("general.sampling.sequence").is_some() {
            warnings.push(
                "general.sampling.sequence has no effect: the order of the sampling stages is fixed"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// A file's own recommendation, under the keys that llama.cpp writes.
fn recommended(metadata: &Metadata) -> Result<Overrides, Error> {
    let float = |name: &str| metadata.opt_f32(&format!("general.sampling.{name}"));
    let whole = |name: &str| metadata.opt_i32(&format!("general.sampling.{name}"));
    // A negative top_k means "off" there.
    let count = |name: &str| Ok::<_, Error>(whole(name)?.map(|n| u32::try_from(n).unwrap_or(0)));
    let mirostat = count("mirostat")?.map(Mirostat::try_from).transpose();
    Ok(Overrides {
        temperature: float("temp")?,
        top_k: count("top_k")?,
        top_p: float("top_p")?,
        min_p: float("min_p")?,
        xtc_probability: float("xtc_probability")?,
        xtc_threshold: float("xtc_threshold")?,
        repeat_last_n: whole("penalty_last_n")?,
        repeat_penalty: float("penalty_repeat")?,
        mirostat: mirostat.map_err(quern_engine::EngineError::from)?,
        mirostat_tau: float("mirostat_tau")?,
        mirostat_eta: float("mirostat_eta")?,
        ..Overrides::default()
    })
}
