//! Teacher forcing: how probable the model finds a text, token by token.

use crate::{Error, Quern};
use quern_engine::sampling::log_sum_exp;
use quern_tokenizer::{EncodeOptions, Segment};

/// How probable a text is. Row i of the logits predicts id i + 1, so the first id has no prediction.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// The text's ids.
    pub ids: Vec<u32>,
    /// The log probability of each id after the ones before it, in nats; None for the first.
    pub logprobs: Vec<Option<f32>>,
    /// Minus the sum of the log probabilities.
    pub nll_sum: f64,
    /// Ids that were the most probable ones; the lowest id wins a tie.
    pub top1_hits: usize,
}

impl Scores {
    /// Ids that were predicted: all but the first.
    pub fn predicted(&self) -> usize {
        self.logprobs.iter().flatten().count()
    }

    /// Mean negative log likelihood; None where nothing was predicted.
    pub fn nll_mean(&self) -> Option<f64> {
        let n = self.predicted();
        (n > 0).then(|| self.nll_sum / n as f64)
    }

    /// The exponential of the mean negative log likelihood.
    pub fn perplexity(&self) -> Option<f64> {
        self.nll_mean().map(libm::exp)
    }

    /// The share of predictions whose most probable id came true.
    pub fn top1(&self) -> Option<f64> {
        let n = self.predicted();
        (n > 0).then(|| self.top1_hits as f64 / n as f64)
    }

    fn row(&mut self, next: Option<&u32>, logits: &[f32]) {
        let Some(&next) = next else { return };
        // An id outside the vocabulary is refused before its row exists.
        let logit = logits.get(next as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let logprob = logit - log_sum_exp(logits);
        self.logprobs.push(Some(logprob));
        self.nll_sum -= f64::from(logprob);
        self.top1_hits += usize::from(argmax(logits) == Some(next as usize));
    }
}

fn argmax(logits: &[f32]) -> Option<usize> {
    let best = logits.iter().enumerate().reduce(|best, x| if x.1 > best.1 { x } else { best });
    best.map(|(id, _)| id)
}

impl Quern {
    /// The ids a text is scored as: plain text, with the tokens around it that the file's rules add.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let options = EncodeOptions { add_special: true };
        Ok(self.need_tokenizer()?.encode(&[Segment::Plain(text)], options))
    }

    /// Scores a text.
    pub fn score_text(&self, text: &str) -> Result<Scores, Error> {
        self.score(&self.encode(text)?)
    }

    /// Scores ids.
    pub fn score(&self, ids: &[u32]) -> Result<Scores, Error> {
        self.score_rows(ids, &mut |_| true)
    }

    /// Scores ids and hands out the logits of every position, in order. `sink` answers whether to go on; where it does
    /// not, the scores end there.
    pub fn score_rows(&self, ids: &[u32], sink: &mut dyn FnMut(&[f32]) -> bool) -> Result<Scores, Error> {
        let mut scores = Scores { ids: ids.into(), logprobs: vec![None], ..Scores::default() };
        self.engine.score(ids, &mut |position, logits| {
            scores.row(ids.get(position + 1), logits);
            sink(logits)
        })?;
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: torch.log_softmax in float64 of the same row.
    #[test]
    fn a_row_predicts_the_next_id() {
        let mut scores = Scores { logprobs: vec![None], ..Scores::default() };
        let logits = [1.5f32, -0.25, 3.0, 3.0];
        scores.row(Some(&3), &logits);
        scores.row(Some(&2), &logits);
        scores.row(None, &logits);
        let expected = -0.8162071;
        assert!(scores.logprobs[1..].iter().all(|p| (p.unwrap() - expected).abs() < 1e-6), "{scores:?}");
        // A tie goes to the lower id.
        assert_eq!((scores.top1_hits, scores.predicted(), scores.top1()), (1, 2, Some(0.5)));
        assert!((scores.perplexity().unwrap() - 2.2619044).abs() < 1e-5, "{scores:?}");
    }

    #[test]
    fn one_id_predicts_nothing() {
        let scores = Scores { ids: vec![7], logprobs: vec![None], ..Scores::default() };
        assert_eq!((scores.nll_mean(), scores.perplexity(), scores.top1()), (None, None, None));
    }
}
