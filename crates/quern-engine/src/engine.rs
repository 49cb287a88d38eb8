//! The engine: a queue in front of one worker thread.

use crate::sequence::{Reply, Sequencer};
use crate::{EngineError, Event, Output, Request};
use quern_backend::{Backend, KvType};
use quern_model::{Model, ModelSpec};
use quern_tokenizer::SharedTokenizer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// How an engine runs its model.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Positions of a sequence; None: as many as the model reaches.
    pub context: Option<usize>,
    /// How caches hold keys and values.
    pub kv: KvType,
    /// Tokens of a prefill batch. It changes no bit of any result.
    pub prefill_chunk: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions { context: None, kv: KvType::F16, prefill_chunk: 512 }
    }
}

/// Events that may wait for a slow reader before the worker does.
const EVENT_QUEUE: usize = 1024;

struct Job {
    request: Request,
    submitted: Instant,
    reply: Reply,
}

/// A model that takes requests. Dropping it ends the worker after the request it is on, which is cancelled.
pub struct Engine {
    jobs: Option<Sender<Job>>,
    worker: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    core: Arc<dyn Core>,
}

/// What the engine needs of a model, whatever its backend.
trait Core: Send + Sync {
    fn spec(&self) -> &ModelSpec;
    fn context(&self) -> usize;
    fn score(&self, ids: &[u32], sink: ScoreSink<'_>) -> Result<(), EngineError>;
}

impl<B: Backend> Core for Sequencer<B> {
    fn spec(&self) -> &ModelSpec {
        self.model().spec()
    }
    fn context(&self) -> usize {
        Sequencer::context(self)
    }
    fn score(&self, ids: &[u32], sink: ScoreSink<'_>) -> Result<(), EngineError> {
        Sequencer::score(self, ids, sink)
    }
}

/// Hears a position and its logits; answers whether to go on.
pub(crate) type ScoreSink<'a> = &'a mut dyn FnMut(usize, &[f32]) -> bool;

impl Engine {
    /// Starts an engine. Without a tokenizer it takes ids only.
    pub fn new<B: Backend>(
        model: Arc<Model<B>>,
        tokenizer: Option<SharedTokenizer>,
        options: EngineOptions,
    ) -> Result<Engine, EngineError> {
        let sequencer = Arc::new(Sequencer::new(model, tokenizer, options)?);
        let (jobs, queue) = channel::<Job>();
        let closing = Arc::new(AtomicBool::new(false));
        let (worker_sequencer, worker_closing) = (sequencer.clone(), closing.clone());
        let worker = std::thread::Builder::new().name("quern-engine".into()).spawn(move || {
            let mut workspace = worker_sequencer.workspace();
            for job in queue {
                if worker_closing.load(Ordering::Relaxed) {
                    break;
                }
                worker_sequencer.generate(&mut workspace, job.request, job.submitted, &job.reply);
            }
        });
        let worker = worker.map_err(|_| EngineError::Stopped)?;
        Ok(Engine { jobs: Some(jobs), worker: Some(worker), closing, core: sequencer })
    }

    /// What the model is made of.
    pub fn spec(&self) -> &ModelSpec {
        self.core.spec()
    }

    /// Positions of a sequence: the context in force.
    pub fn context(&self) -> usize {
        self.core.context()
    }

    /// Queues a request.
    pub fn submit(&self, request: Request) -> Result<Generation, EngineError> {
        let (events, receiver) = sync_channel(EVENT_QUEUE);
        let cancelled = Arc::new(AtomicBool::new(false));
        let reply = Reply { events, cancelled: cancelled.clone(), closing: self.closing.clone() };
        let job = Job { request, submitted: Instant::now(), reply };
        let jobs = self.jobs.as_ref().ok_or(EngineError::Stopped)?;
        jobs.send(job).map_err(|_| EngineError::Stopped)?;
        Ok(Generation { events: receiver, cancelled, ended: false })
    }

    /// Runs a request to its end.
    pub fn complete(&self, request: Request) -> Result<Output, EngineError> {
        self.submit(request)?.output()
    }

    /// Logits of every position of `ids` (teacher forcing), in order. `sink` gets the position and its n_vocab logits,
    /// and answers whether to go on.
    pub fn score(&self, ids: &[u32], sink: &mut dyn FnMut(usize, &[f32]) -> bool) -> Result<(), EngineError> {
        self.core.score(ids, sink)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has already printed why.
            let _ = worker.join();
        }
    }
}

/// A request under way: an iterator of events. Dropping it cancels the request within one step.
pub struct Generation {
    events: Receiver<Result<Event, EngineError>>,
    cancelled: Arc<AtomicBool>,
    ended: bool,
}

impl Generation {
    /// Ends the generation within one step; the events go on to its `Finish`.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// A handle that cancels from elsewhere, such as a signal handler's thread: set it to true.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    /// Waits for the whole answer.
    pub fn output(self) -> Result<Output, EngineError> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for event in self {
            match event? {
                Event::Prefill { .. } => {}
                Event::Token(token) => tokens.push(token),
                Event::Text(piece) => text.push_str(&piece),
                Event::Finish(finish) => return Ok(Output { text, tokens, finish }),
            }
        }
        Err(EngineError::Stopped)
    }
}

impl Iterator for Generation {
    type Item = Result<Event, EngineError>;

    /// The next event. The last is a `Finish` or an error; a worker that died before either gives an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().unwrap_or(Err(EngineError::Stopped));
        self.ended = matches!(event, Err(_) | Ok(Event::Finish(_)));
        Some(event)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel();
    }
}

pub(crate) type EventSender = SyncSender<Result<Event, EngineError>>;
