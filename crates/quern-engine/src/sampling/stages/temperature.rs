//! The temperature of the draw, fixed or moving with the entropy of the candidates.

use super::super::candidates::Candidates;
use super::super::math;
use super::super::params::SamplingParams;

/// Sets the temperature. In the dynamic form, certainty (entropy 0) gives the low end of the range, a flat distribution
/// the high end, and the exponent bends the way between.
pub(crate) fn temperature(candidates: &mut Candidates, params: &SamplingParams) {
    let range = params.dynatemp_range;
    let n = candidates.ranking().len();
    let temperature = if range > 0.0 && n > 1 {
        let low = (params.temperature - range).max(0.0);
        let high = params.temperature + range;
        let (_, entropy) = candidates.softmax_and_entropy();
        let flatness = entropy / math::ln(n as f32);
        low + (high - low) * math::pow(flatness, params.dynatemp_exponent)
    } else {
        params.temperature
    };
    candidates.set_temperature(temperature);
}
