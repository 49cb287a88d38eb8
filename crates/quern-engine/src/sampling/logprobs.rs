//! Log probabilities under the raw logits: before bias, penalties, masks and temperature.

use super::error::SamplingError;
use super::math;
use super::sampler::check_logits;

/// Most alternatives reported per token (G44): a whole vocabulary per token would be a gigabyte per reply.
pub const MAX_TOP_LOGPROBS: usize = 128;

/// A token and its log probability in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: u32,
    /// Its log probability; negative infinity for a token the model rules out.
    pub logprob: f32,
}

/// The logarithm of the sum of exponentials, by the contract's reduction rule. A token's log probability is its logit
/// minus this, here and in every scorer (R38).
pub fn log_sum_exp(logits: &[f32]) -> f32 {
    let max = math::max(logits);
    max + math::ln(math::sum16(logits.iter().map(|logit| math::exp(logit - max))))
}

/// The `k` most probable tokens by descending logit, ascending id among equals.
pub fn top_logprobs(logits: &[f32], k: usize) -> Result<Vec<TokenLogprob>, SamplingError> {
    if k > MAX_TOP_LOGPROBS {
        return Err(SamplingError::TooMany { name: "top_logprobs", n: k, max: MAX_TOP_LOGPROBS });
    }
    check_logits(logits, logits.len())?;
    // Best first, never longer than k: a token enters before the first one it beats, and ids come ascending.
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(k + 1);
    for (id, &logit) in (0..).zip(logits) {
        if best.len() < k || best.last().is_some_and(|worst| logit > worst.1) {
            let rank = best.partition_point(|entry| entry.1 >= logit);
            best.insert(rank, (id, logit));
            best.truncate(k);
        }
    }
    let norm = log_sum_exp(logits);
    Ok(best.into_iter().map(|(id, logit)| TokenLogprob { id, logprob: logit - norm }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: torch.log_softmax in float64 of the same row, rounded to seven digits.
    #[test]
    fn logprobs_match_an_outside_softmax() {
        let logits = [1.5f32, -0.25, 3.0, 3.0, 0.0, -7.5, 2.25, f32::NEG_INFINITY];
        let top = top_logprobs(&logits, 8).unwrap();
        let ids: Vec<u32> = top.iter().map(|t| t.id).collect();
        assert_eq!(ids, [2, 3, 6, 0, 4, 1, 5, 7]);
        let expected = [
            -1.023_919_5,
            -1.023_919_5,
            -1.773_919_5,
            -2.523_919_5,
            -4.023_919_5,
            -4.273_919_5,
            -11.523_919,
            f32::NEG_INFINITY,
        ];
        for (got, want) in top.iter().zip(expected) {
            assert!(got.logprob == want || (got.logprob - want).abs() < 1e-6, "{got:?} {want}");
        }
    }

    #[test]
    fn far_from_zero_and_one_token() {
        assert_eq!(top_logprobs(&[-3000.0], 1).unwrap(), [TokenLogprob { id: 0, logprob: 0.0 }]);
        assert_eq!(log_sum_exp(&[f32::MAX, 0.0]), f32::MAX);
    }

    /// G44: the number of alternatives is bounded by name, and never needs more tokens than there are.
    #[test]
    fn g44_top_logprobs_is_bounded() {
        let error = top_logprobs(&[0.0; 4], 150_000).unwrap_err();
        assert_eq!(error.to_string(), "top_logprobs has 150000 entries, but at most 128 are taken");
        assert_eq!(top_logprobs(&[0.0; 4], 20).unwrap().len(), 4);
        assert!(top_logprobs(&[0.0; 4], 0).unwrap().is_empty());
    }
}
