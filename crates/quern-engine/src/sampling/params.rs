//! Sampling settings as plain data, under the names llama.cpp users know.

use super::error::SamplingError;

/// Which form of mirostat replaces the truncation stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mirostat {
    /// Not used (0).
    #[default]
    Off,
    /// Mirostat (1).
    V1,
    /// Mirostat 2.0 (2).
    V2,
}

impl TryFrom<u32> for Mirostat {
    type Error = SamplingError;

    fn try_from(version: u32) -> Result<Mirostat, SamplingError> {
        match version {
            0 => Ok(Mirostat::Off),
            1 => Ok(Mirostat::V1),
            2 => Ok(Mirostat::V2),
            _ => Err(SamplingError::OutOfRange {
                name: "mirostat",
                value: version as f32,
                range: "0 (off), 1 or 2",
            }),
        }
    }
}

/// How the next token is chosen. The default draws from the model's own distribution: temperature 1, nothing cut,
/// nothing penalised.
///
/// Penalties look at generated tokens only, never at the prompt, and never touch end-of-generation tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits before the draw; at least 0. With 0 (and `dynatemp_range` 0) the choice is greedy: the best
    /// token after bias, penalties, DRY and the constraint; every other setting is without effect.
    pub temperature: f32,
    /// The temperature moves within plus or minus this range with the entropy of the candidates; at least 0, 0 = off.
    pub dynatemp_range: f32,
    /// The power that maps normalised entropy to temperature; at least 0.
    pub dynatemp_exponent: f32,
    /// Keeps this many best tokens; 0 = off.
    pub top_k: u32,
    /// Keeps the fewest best tokens that hold this much probability; 0 to 1, 1 = off, 0 keeps only the best token.
    pub top_p: f32,
    /// Keeps tokens at least this probable relative to the best one; 0 to 1, 0 = off.
    pub min_p: f32,
    /// Keeps tokens whose surprise is nearest the entropy, up to this much probability; 0 to 1, 1 = off.
    pub typical_p: f32,
    /// Keeps tokens whose logit is within this many standard deviations of the best one; at least 0, 0 = off.
    pub top_n_sigma: f32,
    /// The chance that XTC acts on a step; 0 to 1, 0 = off.
    pub xtc_probability: f32,
    /// XTC drops all but the least probable of the tokens at least this probable; 0 to 1, above 0.5 = off.
    pub xtc_threshold: f32,
    /// Mirostat instead of the truncation stages.
    pub mirostat: Mirostat,
    /// The surprise mirostat steers for, in bits; at least 0.
    pub mirostat_tau: f32,
    /// How fast mirostat follows; at least 0.
    pub mirostat_eta: f32,
    /// Divides positive logits of repeated tokens and multiplies the others, once per distinct token; above 0, 1 = off.
    pub repeat_penalty: f32,
    /// How many of the last generated tokens count as repeated; 0 = none (penalties off), -1 = all.
    pub repeat_last_n: i32,
    /// Subtracted once per occurrence in the same window; -100 to 100, 0 = off.
    pub frequency_penalty: f32,
    /// Subtracted once per token that occurs in the same window; -100 to 100, 0 = off.
    pub presence_penalty: f32,
    /// Scale of the penalty on tokens that would prolong a repetition (DRY); at least 0, 0 = off.
    pub dry_multiplier: f32,
    /// DRY's penalty grows by this factor with every further repeated token; at least 1.
    pub dry_base: f32,
    /// Repetitions shorter than this many tokens are free.
    pub dry_allowed_length: u32,
    /// How many of the last generated tokens DRY searches; 0 = none (DRY off), -1 = all.
    pub dry_penalty_last_n: i32,
    /// Token sequences no repetition reaches across.
    pub dry_sequence_breakers: Vec<Vec<u32>>,
    /// Added to single logits before everything else; negative infinity bans a token. Entries for one token add up.
    pub logit_bias: Vec<(u32, f32)>,
    /// The seed; any u64 is one, 0 too. `None` draws one at random, which the sampler then reports.
    pub seed: Option<u64>,
    /// Typical-p, top-p, min-p and XTC leave at least this many candidates.
    pub min_keep: u32,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 1.0,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            mirostat: Mirostat::Off,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: -1,
            dry_sequence_breakers: Vec::new(),
            logit_bias: Vec::new(),
            seed: None,
            min_keep: 0,
        }
    }
}

impl SamplingParams {
    /// The neutral settings with temperature 0.
    pub fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, ..SamplingParams::default() }
    }

    /// Whether the choice is greedy.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && self.dynatemp_range == 0.0
    }

    /// Refuses, by name, the first setting outside its range. Token ids are checked by [`Sampler::new`], which knows
    /// the vocabulary.
    ///
    /// [`Sampler::new`]: super::Sampler::new
    pub fn validate(&self) -> Result<(), SamplingError> {
        // Written so that NaN fails every check.
        let at_least_0 = |x: f32| x >= 0.0 && x.is_finite();
        let at_least_1 = |x: f32| x >= 1.0 && x.is_finite();
        let above_0 = |x: f32| x > 0.0 && x.is_finite();
        let share = |x: f32| (0.0..=1.0).contains(&x);
        let penalty = |x: f32| (-100.0..=100.0).contains(&x);
        let window = |n: i32| n >= -1;

        const AT_LEAST_0: &str = "a finite number from 0 up";
        const WINDOW: &str = "a number of tokens, 0 (off) or -1 (all generated tokens)";
        let checks = [
            ("temperature", self.temperature, at_least_0(self.temperature), AT_LEAST_0),
            ("dynatemp_range", self.dynatemp_range, at_least_0(self.dynatemp_range), AT_LEAST_0),
            ("dynatemp_exponent", self.dynatemp_exponent, at_least_0(self.dynatemp_exponent), AT_LEAST_0),
            ("top_p", self.top_p, share(self.top_p), "from 0 to 1 (1 is off)"),
            ("min_p", self.min_p, share(self.min_p), "from 0 to 1 (0 is off)"),
            ("typical_p", self.typical_p, share(self.typical_p), "from 0 to 1 (1 is off)"),
            (
                "top_n_sigma",
                self.top_n_sigma,
                at_least_0(self.top_n_sigma),
                "a finite number from 0 up (0 is off)",
            ),
            ("xtc_probability", self.xtc_probability, share(self.xtc_probability), "from 0 to 1 (0 is off)"),
            (
                "xtc_threshold",
                self.xtc_threshold,
                share(self.xtc_threshold),
                "from 0 to 1 (above 0.5 is off)",
            ),
            ("mirostat_tau", self.mirostat_tau, at_least_0(self.mirostat_tau), AT_LEAST_0),
            ("mirostat_eta", self.mirostat_eta, at_least_0(self.mirostat_eta), AT_LEAST_0),
            (
                "repeat_penalty",
                self.repeat_penalty,
                above_0(self.repeat_penalty),
                "a finite number above 0 (1 is off)",
            ),
            ("repeat_last_n", self.repeat_last_n as f32, window(self.repeat_last_n), WINDOW),
            (
                "frequency_penalty",
                self.frequency_penalty,
                penalty(self.frequency_penalty),
                "from -100 to 100 (0 is off)",
            ),
            (
                "presence_penalty",
                self.presence_penalty,
                penalty(self.presence_penalty),
                "from -100 to 100 (0 is off)",
            ),
            (
                "dry_multiplier",
                self.dry_multiplier,
                at_least_0(self.dry_multiplier),
                "a finite number from 0 up (0 is off)",
            ),
            ("dry_base", self.dry_base, at_least_1(self.dry_base), "a finite number from 1 up"),
            ("dry_penalty_last_n", self.dry_penalty_last_n as f32, window(self.dry_penalty_last_n), WINDOW),
        ];
        let biases = self.logit_bias.iter().map(|&(_, bias)| {
            let ok = bias < f32::INFINITY;
            ("logit_bias", bias, ok, "a number or negative infinity")
        });
        match checks.into_iter().chain(biases).find(|(_, _, ok, _)| !ok) {
            Some((name, value, _, range)) => Err(SamplingError::OutOfRange { name, value, range }),
            None => Ok(()),
        }
    }
}
