//! The stages a step of sampling goes through, and their order.

mod dry;
mod mirostat;
mod penalties;
mod temperature;
mod truncation;

pub(crate) use dry::Dry;
pub(crate) use mirostat::MirostatState;
pub(crate) use penalties::{Penalties, PerToken, logit_bias};
pub(crate) use temperature::temperature;
pub(crate) use truncation::{min_p, top_k, top_n_sigma, top_p, typical_p, xtc};

use super::params::{Mirostat, SamplingParams};

/// One stage of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Adds `logit_bias`.
    LogitBias,
    /// Repeat, frequency and presence penalties.
    Penalties,
    /// Penalises tokens that would prolong a repetition.
    Dry,
    /// Truncation by standard deviations.
    TopNSigma,
    /// Truncation by rank.
    TopK,
    /// Truncation by nearness to the entropy.
    TypicalP,
    /// Truncation by cumulative probability.
    TopP,
    /// Truncation by probability relative to the best.
    MinP,
    /// Excludes top choices.
    Xtc,
    /// Temperature, fixed or dynamic.
    Temperature,
    /// Truncation by mirostat.
    Mirostat,
    /// The choice of one token.
    Draw,
}

/// What a stage is called and which settings it reads.
#[derive(Debug, Clone, Copy)]
pub struct StageInfo {
    /// The stage.
    pub stage: Stage,
    /// Its name in messages and documents.
    pub name: &'static str,
    /// The settings it reads.
    pub params: &'static [&'static str],
    /// What it does, in one sentence.
    pub summary: &'static str,
}

/// All stages in the order they run: llama.cpp's default chain, with mirostat where it replaces the truncations. A
/// constraint's mask acts before the first of them.
pub const STAGES: &[StageInfo] = &[
    StageInfo {
        stage: Stage::LogitBias,
        name: "logit-bias",
        params: &["logit_bias"],
        summary: "Adds a bias to single tokens; negative infinity bans one.",
    },
    StageInfo {
        stage: Stage::Penalties,
        name: "penalties",
        params: &["repeat_penalty", "repeat_last_n", "frequency_penalty", "presence_penalty"],
        summary: "Makes recently generated tokens less likely.",
    },
    StageInfo {
        stage: Stage::Dry,
        name: "dry",
        params: &[
            "dry_multiplier",
            "dry_base",
            "dry_allowed_length",
            "dry_penalty_last_n",
            "dry_sequence_breakers",
        ],
        summary: "Makes tokens less likely the longer the repetition they would prolong.",
    },
    StageInfo {
        stage: Stage::TopNSigma,
        name: "top-n-sigma",
        params: &["top_n_sigma"],
        summary: "Keeps tokens whose logit is within n standard deviations of the best one.",
    },
    StageInfo { stage: Stage::TopK, name: "top-k", params: &["top_k"], summary: "Keeps the k best tokens." },
    StageInfo {
        stage: Stage::TypicalP,
        name: "typical-p",
        params: &["typical_p", "min_keep"],
        summary: "Keeps tokens whose surprise is nearest the entropy, up to a share of the probability.",
    },
    StageInfo {
        stage: Stage::TopP,
        name: "top-p",
        params: &["top_p", "min_keep"],
        summary: "Keeps the fewest best tokens that hold a share of the probability.",
    },
    StageInfo {
        stage: Stage::MinP,
        name: "min-p",
        params: &["min_p", "min_keep"],
        summary: "Keeps tokens at least a given fraction as probable as the best one.",
    },
    StageInfo {
        stage: Stage::Xtc,
        name: "xtc",
        params: &["xtc_probability", "xtc_threshold", "min_keep"],
        summary: "With some probability, drops all but the least probable of the probable tokens.",
    },
    StageInfo {
        stage: Stage::Temperature,
        name: "temperature",
        params: &["temperature", "dynatemp_range", "dynatemp_exponent"],
        summary: "Flattens or sharpens the distribution, by a fixed amount or by its entropy.",
    },
    StageInfo {
        stage: Stage::Mirostat,
        name: "mirostat",
        params: &["mirostat", "mirostat_tau", "mirostat_eta"],
        summary: "Truncates so that the surprise of the text stays near a target; replaces all truncations above.",
    },
    StageInfo {
        stage: Stage::Draw,
        name: "draw",
        params: &["seed"],
        summary: "Draws one token from what is left, or takes the best one at temperature 0.",
    },
];

impl SamplingParams {
    /// The stages these settings put in force, in order. What this says is what the sampler runs.
    pub fn stages(&self) -> Vec<Stage> {
        STAGES.iter().map(|info| info.stage).filter(|stage| self.uses(*stage)).collect()
    }

    pub(crate) fn uses(&self, stage: Stage) -> bool {
        let draws = !self.is_greedy();
        let truncates = draws && self.mirostat == Mirostat::Off;
        match stage {
            Stage::LogitBias => !self.logit_bias.is_empty(),
            Stage::Penalties => {
                let penalises = self.repeat_penalty != 1.0
                    || self.frequency_penalty != 0.0
                    || self.presence_penalty != 0.0;
                penalises && self.repeat_last_n != 0
            }
            Stage::Dry => self.dry_multiplier > 0.0 && self.dry_penalty_last_n != 0,
            Stage::TopNSigma => truncates && self.top_n_sigma > 0.0,
            Stage::TopK => truncates && self.top_k > 0,
            Stage::TypicalP => truncates && self.typical_p < 1.0,
            Stage::TopP => truncates && self.top_p < 1.0,
            Stage::MinP => truncates && self.min_p > 0.0,
            Stage::Xtc => truncates && self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5,
            Stage::Temperature => draws && (self.temperature != 1.0 || self.dynatemp_range > 0.0),
            Stage::Mirostat => draws && self.mirostat != Mirostat::Off,
            Stage::Draw => true,
        }
    }
}

/// The last `last_n` generated tokens; -1 means all.
fn window(generated: &[u32], last_n: i32) -> &[u32] {
    match usize::try_from(last_n) {
        Ok(n) => &generated[generated.len().saturating_sub(n)..],
        Err(_) => generated,
    }
}
