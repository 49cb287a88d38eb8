//! What a person changes of a file's rotary embedding, most often to reach beyond the trained context.
//!
//! The changes hold for the layers that see the whole context. Layers with a sliding window keep the file's rotation where
//! they have one of their own: no distance within a window is new to them, and the publisher that scales such a model
//! (Gemma 3) leaves them alone too. Layers that are recurrent do not turn.
//!
//! A file that scales its rotation is not scaled a second time, since the two factors would multiply into a reach that
//! nobody asked for. Its base can be replaced, and its own scaling then works on the new one; not beside `rope_freqs`,
//! whose factors were computed for the file's base.

use crate::ModelError;
use crate::spec::{Mixer, ModelSpec, RopeScaling, RopeSpec};
use std::collections::BTreeSet;

/// Changes to the rotary embedding of layers that see the whole context. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RopeOverrides {
    /// Replaces the file's base; above 1.
    pub base: Option<f32>,
    /// Reaches beyond the trained context.
    pub reach: Option<RopeReach>,
}

/// A way beyond the trained context, by a factor from 1 up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeReach {
    /// Positions are divided by the factor.
    Linear(f32),
    /// YaRN over the trained context, with the constants of its paper.
    Yarn(f32),
}

impl RopeReach {
    /// Its name as a setting.
    pub fn name(self) -> &'static str {
        match self {
            RopeReach::Linear(_) => "rope_scale",
            RopeReach::Yarn(_) => "yarn_factor",
        }
    }

    /// How many times the trained context it reaches.
    pub fn factor(self) -> f32 {
        match self {
            RopeReach::Linear(factor) | RopeReach::Yarn(factor) => factor,
        }
    }
}

impl RopeOverrides {
    /// The name of [`base`](RopeOverrides::base) as a setting.
    const BASE: &str = "rope_base";

    /// What is changed, by its name as a setting.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, f32)> {
        let base = self.base.map(|base| (RopeOverrides::BASE, base));
        self.reach.map(|reach| (reach.name(), reach.factor())).into_iter().chain(base)
    }

    /// Changes one rotation; an error is the reason why not.
    fn apply(&self, rope: &mut RopeSpec, trained: usize) -> Result<(), String> {
        if let Some(base) = self.base {
            if !rope.factors.is_empty() {
                return Err(format!(
                    "{} cannot replace the base of this file, whose rope_freqs were computed for its own",
                    RopeOverrides::BASE
                ));
            }
            rope.base = base.into();
        }
        if let Some(reach) = self.reach {
            let declared = match rope.scaling {
                RopeScaling::Linear { factor } if factor != 1.0 => format!("linear scaling by {factor}"),
                RopeScaling::Yarn { factor, .. } => format!("yarn scaling by {factor}"),
                _ if !rope.factors.is_empty() => "a factor for each rotation (rope_freqs)".to_owned(),
                RopeScaling::None | RopeScaling::Linear { .. } => {
                    let factor = reach.factor().into();
                    rope.scaling = match reach {
                        RopeReach::Linear(_) => RopeScaling::Linear { factor },
                        RopeReach::Yarn(_) => RopeScaling::yarn(factor, trained as f64),
                    };
                    return Ok(());
                }
            };
            return Err(format!("{} cannot scale this file, which declares {declared}", reach.name()));
        }
        Ok(())
    }
}

impl ModelSpec {
    /// The spec with these changes, validated; its context is as many times as long as the reach says.
    pub fn with_rope(mut self, overrides: &RopeOverrides) -> Result<ModelSpec, ModelError> {
        let arch = self.arch.clone();
        let refuse = |reason: String| Err(ModelError::Spec { arch, reason });
        let Some((name, _)) = overrides.settings().next() else { return Ok(self) };
        if let Some(base) = overrides.base.filter(|base| !(*base > 1.0 && base.is_finite())) {
            return refuse(format!("{} is {base}, but must be a number above 1", RopeOverrides::BASE));
        }
        let factor = overrides.reach.map_or(1.0, RopeReach::factor);
        if !(factor >= 1.0 && factor.is_finite()) {
            return refuse(format!("{name} is {factor}, but must be a number from 1 up"));
        }
        let attention = self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::DeltaNet(_) => None,
        });
        let whole: BTreeSet<_> = attention.filter(|a| a.window.is_none()).map(|a| a.rope).collect();
        if whole.is_empty() {
            return refuse(format!("{name} has no effect: no layer sees the whole context"));
        }
        for (_, rope) in self.ropes.iter_mut().enumerate().filter(|(i, _)| whole.contains(i)) {
            if let Err(reason) = overrides.apply(rope, self.context_length) {
                return refuse(reason);
            }
        }
        self.context_length = (self.context_length as f64 * f64::from(factor)) as usize;
        self.validate()?;
        Ok(self)
    }
}
