//! One sequence from its prompt to its end.

use crate::EngineError;
use crate::engine::{EngineOptions, EventSender, ScoreSink};
use crate::event::{Event, Finish, FinishReason, StoppedBy, Timings, Token, Usage};
use crate::request::{Prompt, Request};
use crate::sampling::{Sampler, SamplingParams};
use crate::stops::StopMatcher;
use quern_backend::{Backend, Batch, SeqId, Want};
use quern_model::{Model, States, Workspace};
use quern_tokenizer::{EncodeOptions, SharedTokenizer, StreamDecoder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Where the events of a request go, and what can end it from outside.
pub(crate) struct Reply {
    pub(crate) events: EventSender,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) closing: Arc<AtomicBool>,
}

impl Reply {
    /// A reader that is gone has cancelled: the flag says so at the next step.
    fn send(&self, event: Event) {
        if self.events.send(Ok(event)).is_err() {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.closing.load(Ordering::Relaxed)
    }
}

/// Runs sequences on a model, one at a time.
pub(crate) struct Sequencer<B: Backend> {
    model: Arc<Model<B>>,
    tokenizer: Option<SharedTokenizer>,
    options: EngineOptions,
    context: usize,
}

/// Scoring rows of a batch: their logits are all held at once, and a large vocabulary makes them large.
const SCORE_ROWS: usize = 64;

const SEQ: SeqId = SeqId(0);

impl<B: Backend> Sequencer<B> {
    pub(crate) fn new(
        model: Arc<Model<B>>,
        tokenizer: Option<SharedTokenizer>,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let most = model.spec().context_length;
        let context = options.context.unwrap_or(most);
        if context == 0 || context > most {
            return Err(EngineError::Context { asked: context, most });
        }
        model.spec().check_cache(options.kv)?;
        Ok(Sequencer { model, tokenizer, options, context })
    }

    pub(crate) fn model(&self) -> &Model<B> {
        &self.model
    }

    pub(crate) fn context(&self) -> usize {
        self.context
    }

    pub(crate) fn workspace(&self) -> Workspace<B> {
        Workspace::new(&self.model, 1)
    }

    /// Runs a request and sends its events; the last is a finish or an error.
    pub(crate) fn generate(
        &self,
        ws: &mut Workspace<B>,
        request: Request,
        submitted: Instant,
        reply: &Reply,
    ) {
        let end = self.run(ws, request, submitted, reply).map(Event::Finish);
        // A reader that is gone needs no end.
        let _ = reply.events.send(end);
    }

    fn run(
        &self,
        ws: &mut Workspace<B>,
        request: Request,
        submitted: Instant,
        reply: &Reply,
    ) -> Result<Finish, EngineError> {
        let started = Instant::now();
        let ids = self.prompt_ids(request.prompt)?;
        let mut timings =
            Timings { queue: started - submitted, tokenize: started.elapsed(), ..Timings::default() };
        if ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if ids.len() >= self.context {
            return Err(EngineError::PromptTooLong { prompt: ids.len(), context: self.context });
        }
        let max_tokens = request.max_tokens.unwrap_or(usize::MAX).min(self.context - ids.len());
        let ends = self.tokenizer.as_ref().map_or(&[][..], |t| t.end_of_generation());
        let mut sampling = request.sampling;
        if request.ignore_eos {
            ban(&mut sampling, ends);
        }
        let mut sampler = Sampler::new(sampling, self.model.spec().n_vocab)?.with_end_of_generation(ends)?;
        sampler.set_logprobs(request.logprobs);
        let mut text = Text::new(self.tokenizer.as_ref(), &request.stops)?;
        let mut usage = Usage { prompt_tokens: ids.len(), completion_tokens: 0 };
        let seed = sampler.seed();
        let finish =
            |reason, stopped_by, usage, timings| Ok(Finish { reason, stopped_by, usage, timings, seed });

        let mut states = States::default();
        states.insert(SEQ, self.model.sequence(self.options.kv, self.context));
        let prefill_started = Instant::now();
        let mut done = 0;
        for chunk in ids.chunks(self.options.prefill_chunk) {
            if reply.is_cancelled() {
                return finish(FinishReason::Cancelled, None, usage, timings);
            }
            let want = if done + chunk.len() == ids.len() { Want::Last } else { Want::None };
            self.model.forward(ws, &Batch::single(SEQ, chunk, done as u32, want), &mut states)?;
            done += chunk.len();
            reply.send(Event::Prefill { done, total: ids.len() });
        }
        timings.prefill = prefill_started.elapsed();

        let mut generated = Vec::new();
        let decode_started = Instant::now();
        let (reason, stopped_by) = loop {
            if reply.is_cancelled() {
                break (FinishReason::Cancelled, None);
            }
            if usage.completion_tokens == max_tokens {
                break (FinishReason::Length, None);
            }
            if let Some(&last) = generated.last() {
                let batch = Batch::single(SEQ, &[last], (ids.len() + generated.len() - 1) as u32, Want::Last);
                self.model.forward(ws, &batch, &mut states)?;
            }
            let drawn = sampler.sample(&ws.logits(&self.model), &generated, 0, None)?;
            usage.completion_tokens += 1;
            if usage.completion_tokens == 1 {
                timings.first_token = submitted.elapsed();
            }
            timings.decode = decode_started.elapsed();
            if ends.contains(&drawn.id) || request.stop_ids.contains(&drawn.id) {
                break (FinishReason::Stop, Some(StoppedBy::Token(drawn.id)));
            }
            generated.push(drawn.id);
            reply.send(Event::Token(Token { id: drawn.id, logprob: drawn.logprob }));
            let step = text.push(drawn.id);
            if !step.emit.is_empty() {
                reply.send(Event::Text(step.emit));
            }
            if let Some(stop) = step.stopped {
                break (FinishReason::Stop, Some(StoppedBy::Text(request.stops[stop].clone())));
            }
        };
        if !matches!(stopped_by, Some(StoppedBy::Text(_))) {
            let step = text.finish();
            if !step.emit.is_empty() {
                reply.send(Event::Text(step.emit));
            }
        }
        finish(reason, stopped_by, usage, timings)
    }

    fn prompt_ids(&self, prompt: Prompt) -> Result<Vec<u32>, EngineError> {
        match prompt {
            Prompt::Ids(ids) => Ok(ids),
            Prompt::Text { segments, add_special } => {
                let tokenizer = self.tokenizer.as_ref().ok_or(EngineError::NoTokenizer)?;
                let segments: Vec<_> = segments.iter().map(|s| s.as_ref()).collect();
                Ok(tokenizer.encode(&segments, EncodeOptions { add_special }))
            }
        }
    }

    /// Logits of every position.
    pub(crate) fn score(&self, ids: &[u32], sink: ScoreSink<'_>) -> Result<(), EngineError> {
        if ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if ids.len() > self.context {
            return Err(EngineError::PromptTooLong { prompt: ids.len(), context: self.context });
        }
        let n_vocab = self.model.spec().n_vocab;
        let mut ws = Workspace::new(&self.model, SCORE_ROWS.min(ids.len()));
        let mut states = States::default();
        states.insert(SEQ, self.model.sequence(self.options.kv, self.context));
        for (i, chunk) in ids.chunks(SCORE_ROWS).enumerate() {
            let first = i * SCORE_ROWS;
            self.model.forward(&mut ws, &Batch::single(SEQ, chunk, first as u32, Want::All), &mut states)?;
            for (row, logits) in ws.logits(&self.model).chunks_exact(n_vocab).enumerate() {
                if !sink(first + row, logits) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Takes tokens out of the draw.
fn ban(sampling: &mut SamplingParams, ids: &[u32]) {
    sampling.logit_bias.retain(|(id, _)| !ids.contains(id));
    sampling.logit_bias.extend(ids.iter().map(|id| (*id, f32::NEG_INFINITY)));
}

/// Tokens to text, through the stop strings. Without a tokenizer there is no text.
struct Text {
    decoder: Option<(SharedTokenizer, StreamDecoder)>,
    stops: StopMatcher,
}

impl Text {
    fn new(tokenizer: Option<&SharedTokenizer>, stops: &[String]) -> Result<Text, EngineError> {
        if tokenizer.is_none() && !stops.is_empty() {
            return Err(EngineError::NoTokenizer);
        }
        let decoder = tokenizer.map(|t| (t.clone(), t.decoder()));
        Ok(Text { decoder, stops: StopMatcher::new(stops)? })
    }

    /// Control tokens are no text: a reader could not tell them from the words that spell them.
    fn push(&mut self, id: u32) -> crate::stops::Step {
        match &mut self.decoder {
            Some((tokenizer, decoder)) if !tokenizer.is_control(id) => self.stops.push(decoder.push(id)),
            _ => crate::stops::Step::default(),
        }
    }

    fn finish(&mut self) -> crate::stops::Step {
        let Some((_, decoder)) = &mut self.decoder else { return self.stops.finish() };
        let mut step = self.stops.push(decoder.finish());
        if step.stopped.is_none() {
            let rest = self.stops.finish();
            step.emit.push_str(&rest.emit);
            step.stopped = rest.stopped;
        }
        step
    }
}
