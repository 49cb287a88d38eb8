//! What each model family is best sampled with: the weakest layer of settings, below the file's own recommendation.
//!
//! Temperatures and truncations are the publishers' where a model card or `generation_config.json` states them. A repeat
//! penalty above 1.0 is kept only where it is known to help: on Gemma 4 a penalty of 1.1 corrupted every sampled tool
//! call, since the syntax of calls and of code repeats. The generic preset has none for the same reason.

use super::resolve::Overrides;

/// Recommended settings of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// The family.
    pub name: &'static str,
    /// Spellings by which a template, a model name or a file name is known as this family; lower case, with `-` for
    /// any of space, `_` and `-`.
    pub spellings: &'static [&'static str],
    /// See [`SamplingParams::temperature`](super::SamplingParams::temperature).
    pub temperature: f32,
    /// See [`SamplingParams::top_p`](super::SamplingParams::top_p).
    pub top_p: f32,
    /// See [`SamplingParams::top_k`](super::SamplingParams::top_k).
    pub top_k: u32,
    /// See [`SamplingParams::min_p`](super::SamplingParams::min_p).
    pub min_p: f32,
    /// See [`SamplingParams::repeat_penalty`](super::SamplingParams::repeat_penalty).
    pub repeat_penalty: f32,
}

/// One row of the table: name, spellings, (temperature, top_p, top_k, min_p, repeat_penalty).
const fn preset(
    name: &'static str,
    spellings: &'static [&'static str],
    (temperature, top_p, top_k, min_p, repeat_penalty): (f32, f32, u32, f32, f32),
) -> Preset {
    Preset { name, spellings, temperature, top_p, top_k, min_p, repeat_penalty }
}

/// For a model no family claims.
pub const GENERIC: Preset = preset("generic", &[], (0.8, 0.95, 40, 0.05, 1.0));

/// All families with a preset.
pub const PRESETS: &[Preset] = &[
    GENERIC,
    preset("apertus", &["apertus"], (0.8, 0.9, 0, 0.0, 1.0)),
    preset("gemma3", &["gemma3", "gemma-3"], (1.0, 0.95, 64, 0.0, 1.0)),
    preset("gemma4", &["gemma4", "gemma-4"], (1.0, 0.95, 64, 0.0, 1.0)),
    preset("gpt-oss", &["gpt-oss", "harmony"], (1.0, 1.0, 0, 0.0, 1.0)),
    preset("granite42", &["granite42", "granite-4.2"], (1.0, 0.95, 0, 0.0, 1.0)),
    preset("gridcore", &["gridcore"], (0.0, 1.0, 0, 0.0, 1.0)),
    preset("llama3", &["llama3", "llama-3"], (0.6, 0.9, 0, 0.0, 1.1)),
    preset("lucie", &["lucie"], (0.6, 0.9, 0, 0.0, 1.0)),
    preset("mistral", &["mistral"], (0.7, 1.0, 0, 0.0, 1.1)),
    preset("mistral-nemo", &["mistral-nemo"], (0.3, 1.0, 0, 0.0, 1.1)),
    preset("nemotron", &["nemotron"], (0.6, 0.95, 0, 0.0, 1.0)),
    preset("nemotron35", &["nemotron35", "nemotron-3.5"], (1.0, 0.95, 0, 0.0, 1.0)),
    preset("phi3", &["phi3", "phi-3"], (0.0, 1.0, 0, 0.0, 1.03)),
    preset("qwen2.5", &["qwen2.5", "qwen-2.5"], (0.7, 0.8, 20, 0.0, 1.05)),
    preset("qwen3", &["qwen3", "qwen-3"], (0.6, 0.95, 20, 0.0, 1.0)),
    preset("qwen3-coder", &["qwen3-coder"], (0.7, 0.8, 20, 0.0, 1.05)),
    preset("qwen35", &["qwen35", "qwen3.5"], (1.0, 0.95, 20, 0.0, 1.0)),
    preset("qwen35-nothink", &["qwen35-nothink", "qwen3.5-nothink"], (1.0, 1.0, 20, 0.0, 1.0)),
    preset("qwen38", &["qwen38", "qwen3.8"], (1.0, 0.95, 20, 0.0, 1.0)),
    preset("salamandra", &["salamandra"], (0.6, 1.0, 0, 0.0, 1.2)),
    preset("smollm2", &["smollm2"], (0.2, 0.9, 0, 0.0, 1.1)),
    preset("teuken", &["teuken"], (0.7, 0.95, 0, 0.0, 1.0)),
];

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The preset as a layer of settings.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            temperature: Some(self.temperature),
            top_p: Some(self.top_p),
            top_k: Some(self.top_k),
            min_p: Some(self.min_p),
            repeat_penalty: Some(self.repeat_penalty),
            ..Overrides::default()
        }
    }
}

/// What a model is known by, for choosing its preset.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelNames<'a> {
    /// The family of the chat template as detected.
    pub template: Option<&'a str>,
    /// `general.name` or its like from the file's metadata.
    pub model: Option<&'a str>,
    /// The file's name.
    pub file: Option<&'a str>,
}

/// Which of a model's names decided on the preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// The chat template.
    Template,
    /// The name in the metadata.
    ModelName,
    /// The file name.
    FileName,
    /// None of them: the generic preset.
    Nothing,
}

/// The preset of a model: the template decides if it names a family, else the metadata name, else the file name. A
/// renamed file therefore changes nothing for a model that knows its own name.
pub fn choose(names: ModelNames<'_>) -> (&'static Preset, ChosenBy) {
    let by = |name: Option<&str>, chosen_by| Some((claimed_by(name?)?, chosen_by));
    by(names.template, ChosenBy::Template)
        .or_else(|| by(names.model, ChosenBy::ModelName))
        .or_else(|| by(names.file, ChosenBy::FileName))
        .unwrap_or((&PRESETS[0], ChosenBy::Nothing))
}

/// The family with the longest spelling found in a name.
fn claimed_by(name: &str) -> Option<&'static Preset> {
    let name = name.to_lowercase().replace([' ', '_'], "-");
    let spellings =
        PRESETS.iter().flat_map(|preset| preset.spellings.iter().map(move |s| (s.len(), *s, preset)));
    spellings
        .filter(|(_, spelling, _)| contains_word(&name, spelling))
        .max_by_key(|(len, ..)| *len)
        .map(|(.., p)| p)
}

/// Whether a spelling occurs in a name and its last digit is not the first of a longer number ("llama-30b" is no
/// "llama-3").
fn contains_word(name: &str, spelling: &str) -> bool {
    let ends_in_digit = spelling.ends_with(|c: char| c.is_ascii_digit());
    name.match_indices(spelling).any(|(at, _)| {
        let rest = &name[at + spelling.len()..];
        !(ends_in_digit && rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and figures of generation_config.json on the publishers' own pages.
    #[test]
    fn publishers_figures() {
        let of = |name: &str| Preset::named(name).map(|p| (p.temperature, p.top_p, p.top_k));
        assert_eq!(of("qwen3"), Some((0.6, 0.95, 20)));
        assert_eq!(of("qwen2.5"), Some((0.7, 0.8, 20)));
        assert_eq!(of("gemma3"), Some((1.0, 0.95, 64)));
        assert_eq!(of("llama3"), Some((0.6, 0.9, 0)));
        assert_eq!(of("nobody"), None);
    }

    #[test]
    fn names_in_the_wild() {
        let cases = [
            ("Qwen3 0.6B", "qwen3"),
            ("Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf", "qwen2.5"),
            ("Qwen2 57B", "generic"),
            ("Qwen3-Coder-30B-A3B", "qwen3-coder"),
            ("Qwen3.5 9B", "qwen35"),
            ("Meta Llama 3.1 8B Instruct", "llama3"),
            ("llama-30b", "generic"),
            ("Llama_3_2_1B", "llama3"),
            ("Llama-3.1-Nemotron-Nano-8B", "nemotron"),
            ("gemma-3-270m-it", "gemma3"),
            ("gemma-2-9b", "generic"),
            ("SmolLM2 135M Instruct", "smollm2"),
            ("Mistral-Nemo-Instruct-2407", "mistral-nemo"),
            ("Mistral-7B-Instruct-v0.3", "mistral"),
            ("gpt-oss-20b", "gpt-oss"),
            ("Phi-3.5-mini", "phi3"),
        ];
        for (name, family) in cases {
            let names = ModelNames { model: Some(name), ..ModelNames::default() };
            assert_eq!(choose(names).0.name, family, "{name}");
        }
    }

    #[test]
    fn the_template_decides_first_and_a_renamed_file_changes_nothing() {
        let renamed = ModelNames {
            template: Some("chatml"),
            model: Some("Mistral Nemo Instruct 2407"),
            file: Some("qwen3.gguf"),
        };
        let (preset, by) = choose(renamed);
        assert_eq!((preset.temperature, by), (0.3, ChosenBy::ModelName));
        let (preset, by) = choose(ModelNames { template: Some("gemma4"), ..renamed });
        assert_eq!((preset.name, by), ("gemma4", ChosenBy::Template));
        let (preset, by) = choose(ModelNames { model: Some("my model"), ..renamed });
        assert_eq!((preset.name, by), ("qwen3", ChosenBy::FileName));
        assert_eq!(choose(ModelNames::default()), (&GENERIC, ChosenBy::Nothing));
    }

    #[test]
    fn every_preset_is_valid_and_found_by_its_own_name() {
        for preset in PRESETS {
            let layers = super::super::resolve::Layers { preset: &preset.overrides(), ..Default::default() };
            super::super::resolve(layers).params.validate().unwrap();
            if *preset != GENERIC {
                assert_eq!(claimed_by(preset.name), Some(preset));
            }
        }
    }
}
