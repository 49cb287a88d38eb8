//! Cosine and sine tables (rule 4): f64 through `libm`, rounded once to f32.

use crate::spec::{RopeScaling, RopeSpec};
use std::f64::consts::TAU;

/// The angle per position of every pair, and the factor on the rotated values.
pub(crate) struct RopeAngles {
    per_position: Vec<f64>,
    magnitude: f64,
}

impl RopeAngles {
    pub(crate) fn new(spec: &RopeSpec) -> RopeAngles {
        let pairs = spec.dims / 2;
        let mut per_position: Vec<f64> =
            (0..pairs).map(|i| libm::pow(spec.base, -2.0 * i as f64 / spec.dims as f64)).collect();
        for (angle, factor) in per_position.iter_mut().zip(&spec.factors) {
            *angle /= f64::from(*factor);
        }
        let mut magnitude = 1.0;
        match spec.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => per_position.iter_mut().for_each(|angle| *angle /= factor),
            RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor } => {
                // The pair that turns `rotations` times over the original context (YaRN, eq. 17 solved for the pair).
                let pair_of = |rotations: f64| {
                    spec.dims as f64 * libm::log(original_context / (rotations * TAU))
                        / (2.0 * libm::log(spec.base))
                };
                let low = pair_of(beta_fast).floor().max(0.0);
                let high = pair_of(beta_slow).ceil().min(spec.dims as f64 - 1.0);
                let width = if high > low { high - low } else { 0.001 };
                for (i, angle) in per_position.iter_mut().enumerate() {
                    let slow = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    *angle = *angle / factor * slow + *angle * (1.0 - slow);
                }
                magnitude = attention_factor;
            }
        }
        RopeAngles { per_position, magnitude }
    }

    /// Appends one table row: cosines, then sines.
    pub(crate) fn row(&self, position: u32, out: &mut Vec<f32>) {
        let start = out.len();
        let pairs = self.per_position.len();
        out.resize(start + 2 * pairs, 0.0);
        for (i, angle) in self.per_position.iter().enumerate() {
            let (sin, cos) = libm::sincos(f64::from(position) * angle);
            out[start + i] = (cos * self.magnitude) as f32;
            out[start + pairs + i] = (sin * self.magnitude) as f32;
        }
    }
}
