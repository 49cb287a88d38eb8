//! What a model keeps of a sequence between batches.
//!
//! One state per layer, one enum for all kinds: a new kind does not compile until every operation below handles it.

use crate::ModelError;
use crate::spec::{Mixer, ModelSpec};
use quern_backend::{Backend, KvShape, KvType, PAGE_POSITIONS, SeqId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a layer never meets a state of another kind.
const MADE_BY_SPEC: &str = "a sequence's states are made from the spec that the layers are made from";

/// The state of one layer.
pub enum State<B: Backend> {
    /// Keys and values by position.
    Kv(KvState<B>),
    /// What a recurrent layer remembers: of a fixed size, and only as of the last position.
    Recurrent(RecurrentState<B>),
}

/// The inputs that a short convolution still sees, and the state of the recurrence.
pub struct RecurrentState<B: Backend> {
    pub(crate) conv: B::Buf,
    pub(crate) state: B::Buf,
    lens: [usize; 2],
}

/// Keys and values in pages of 256 positions. Pages are shared between forks and copied when written.
pub struct KvState<B: Backend> {
    shape: KvShape,
    window: Option<usize>,
    pages: Vec<Option<Arc<B::Page>>>,
}

/// A sequence: the state of every layer, and how many positions it holds.
pub struct SequenceState<B: Backend> {
    pub(crate) layers: Vec<State<B>>,
    len: usize,
    context: usize,
    /// A batch failed when recurrent layers had already taken some of its rows in.
    lost: bool,
}

impl<B: Backend> KvState<B> {
    /// Page i holds positions 256 i and on; pages that slid out of the window are gone.
    pub(crate) fn pages(&self) -> &[Option<Arc<B::Page>>] {
        &self.pages
    }

    /// The page of a position, made or made unshared as needed.
    pub(crate) fn page_mut(&mut self, backend: &B, index: usize) -> &mut B::Page {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        let page = self.pages[index].get_or_insert_with(|| Arc::new(backend.page(self.shape)));
        if Arc::get_mut(page).is_none() {
            *page = Arc::new(backend.copy_page(page));
        }
        let Some(page) = Arc::get_mut(page) else { unreachable!("a page just made has one owner") };
        page
    }
}

impl<B: Backend> RecurrentState<B> {
    /// The state before the first position: zeros.
    fn new(backend: &B, lens: [usize; 2]) -> RecurrentState<B> {
        RecurrentState { conv: backend.alloc(lens[0]), state: backend.alloc(lens[1]), lens }
    }
}

impl<B: Backend> State<B> {
    /// The keys and values of an attention layer.
    pub(crate) fn kv(&self) -> &KvState<B> {
        match self {
            State::Kv(kv) => kv,
            State::Recurrent(_) => unreachable!("{MADE_BY_SPEC}"),
        }
    }

    pub(crate) fn kv_mut(&mut self) -> &mut KvState<B> {
        match self {
            State::Kv(kv) => kv,
            State::Recurrent(_) => unreachable!("{MADE_BY_SPEC}"),
        }
    }

    /// The state of a recurrent layer.
    pub(crate) fn recurrent_mut(&mut self) -> &mut RecurrentState<B> {
        match self {
            State::Recurrent(state) => state,
            State::Kv(_) => unreachable!("{MADE_BY_SPEC}"),
        }
    }

    /// Forgets positions that no row from `next` on can see.
    fn slide(&mut self, next: usize) {
        match self {
            State::Kv(kv) => {
                if let Some(window) = kv.window {
                    let first = (next + 1).saturating_sub(window) / PAGE_POSITIONS;
                    let gone = first.min(kv.pages.len());
                    kv.pages[..gone].iter_mut().for_each(|page| *page = None);
                }
            }
            State::Recurrent(_) => {}
        }
    }

    /// A copy that shares what it can.
    fn fork(&self, backend: &B) -> State<B> {
        match self {
            State::Kv(kv) => {
                State::Kv(KvState { shape: kv.shape, window: kv.window, pages: kv.pages.clone() })
            }
            State::Recurrent(r) => {
                let mut fork = RecurrentState::new(backend, r.lens);
                backend.copy(&mut fork.conv, &r.conv, r.lens[0]);
                backend.copy(&mut fork.state, &r.state, r.lens[1]);
                State::Recurrent(fork)
            }
        }
    }

    /// Whether the state can go back from `now` positions to the first `len`. A recurrent one can only begin again.
    fn can_truncate(&self, now: usize, len: usize) -> bool {
        match self {
            State::Recurrent(_) => len == now || len == 0,
            State::Kv(kv) => {
                let first = kv.window.map_or(0, |w| (len + 1).saturating_sub(w)) / PAGE_POSITIONS;
                let last = len.div_ceil(PAGE_POSITIONS);
                kv.pages.len() >= last && (first..last).all(|i| kv.pages[i].is_some())
            }
        }
    }

    fn truncate(&mut self, backend: &B, len: usize) {
        match self {
            State::Kv(kv) => kv.pages.truncate(len.div_ceil(PAGE_POSITIONS)),
            State::Recurrent(r) if len == 0 => *r = RecurrentState::new(backend, r.lens),
            State::Recurrent(_) => {}
        }
    }

    /// Bytes held, shared pages counted whole.
    fn bytes(&self) -> usize {
        match self {
            State::Kv(kv) => kv.pages.iter().flatten().count() * kv.shape.page_bytes(),
            State::Recurrent(r) => r.lens.iter().sum::<usize>() * size_of::<f32>(),
        }
    }
}

impl<B: Backend> SequenceState<B> {
    /// An empty sequence of at most `context` positions.
    pub fn new(backend: &B, spec: &ModelSpec, kv: KvType, context: usize) -> SequenceState<B> {
        let layers = spec.layers.iter().map(|layer| match &layer.mixer {
            Mixer::Attention(a) => State::Kv(KvState {
                shape: KvShape { n_kv_heads: a.n_kv_heads, head_dim: a.head_dim, ty: kv },
                window: a.window,
                pages: Vec::new(),
            }),
            Mixer::DeltaNet(d) => {
                State::Recurrent(RecurrentState::new(backend, [d.conv().state_len(), d.shape.state_len()]))
            }
        });
        SequenceState { layers: layers.collect(), len: 0, context, lost: false }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions it may hold.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Bytes held, shared pages counted whole.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(State::bytes).sum()
    }

    /// A copy that shares pages until one of the two writes them. Kept beside the original, it is what a sequence with
    /// recurrent layers goes back to.
    pub fn fork(&self, backend: &B) -> SequenceState<B> {
        SequenceState {
            layers: self.layers.iter().map(|state| state.fork(backend)).collect(),
            len: self.len,
            context: self.context,
            lost: self.lost,
        }
    }

    /// Goes back to the first `len` positions; false, and nothing changed, where a layer has already forgotten what
    /// that would need. Recurrent layers remember their last position alone: a model that has them goes back to nothing, or
    /// to a [fork](SequenceState::fork).
    pub fn truncate(&mut self, backend: &B, len: usize) -> bool {
        if len > self.len || !self.layers.iter().all(|s| s.can_truncate(self.len, len)) {
            return false;
        }
        self.layers.iter_mut().for_each(|s| s.truncate(backend, len));
        self.len = len;
        self.lost &= len > 0;
        true
    }

    /// Whether a failed batch has left the sequence unusable.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Says that a batch failed: what recurrent layers held of the positions before it is gone.
    pub(crate) fn fail(&mut self) {
        self.lost |= self.layers.iter().any(|state| matches!(state, State::Recurrent(_)));
    }

    /// Counts positions that a batch has written, and lets go of what slid out of every window.
    pub(crate) fn advance(&mut self, n: usize) {
        self.len += n;
        let next = self.len;
        self.layers.iter_mut().for_each(|s| s.slide(next));
    }
}

/// The sequences that a model is working on.
pub struct States<B: Backend>(BTreeMap<SeqId, SequenceState<B>>);

impl<B: Backend> Default for States<B> {
    fn default() -> Self {
        States(BTreeMap::new())
    }
}

impl<B: Backend> States<B> {
    /// Adds or replaces a sequence.
    pub fn insert(&mut self, seq: SeqId, state: SequenceState<B>) {
        self.0.insert(seq, state);
    }

    /// Takes a sequence out.
    pub fn remove(&mut self, seq: SeqId) -> Option<SequenceState<B>> {
        self.0.remove(&seq)
    }

    /// A sequence.
    pub fn get(&self, seq: SeqId) -> Result<&SequenceState<B>, ModelError> {
        self.0.get(&seq).ok_or_else(|| missing(seq))
    }

    pub(crate) fn get_mut(&mut self, seq: SeqId) -> Result<&mut SequenceState<B>, ModelError> {
        self.0.get_mut(&seq).ok_or_else(|| missing(seq))
    }
}

fn missing(seq: SeqId) -> ModelError {
    ModelError::Sequence { seq: seq.0, reason: "has no state".into() }
}
