//! A batch: rows of several sequences that go through the model together.

/// Names a sequence whose state the model keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// Which rows of a segment want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// None: the rows only fill the state.
    None,
    /// The last.
    Last,
    /// Every one.
    All,
}

/// Successive tokens of one sequence. A row sees its own position and earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whose.
    pub seq: SeqId,
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Position of the first; the others follow.
    pub first_pos: u32,
    /// Which rows want logits.
    pub want: Want,
}

/// Segments of different sequences. Prefill, decode and scoring are all batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In row order.
    pub segments: Vec<Segment>,
}

impl Batch {
    /// A batch of one causal segment.
    pub fn single(seq: SeqId, tokens: &[u32], first_pos: u32, want: Want) -> Batch {
        Batch { segments: vec![Segment { seq, tokens: tokens.to_vec(), first_pos, want }] }
    }

    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.segments.iter().map(|s| s.tokens.len()).sum()
    }
}
