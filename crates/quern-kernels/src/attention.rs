//! Attention over paged caches (rule 5): chunks of 256 positions, each giving (m, l, o) alone, merged in ascending order.
//!
//! Work is split by blocks of query rows of one KV head, where a query row is one head of one token; heads that share
//! keys sit in one block and read them once. Where that gives too few blocks, chunks are computed apart. No split changes
//! a bit: every row's chains run over its own keys in ascending order.

mod block;
mod parts;
mod rows;
mod softmax;
mod tile;

use crate::isa::Level;
use crate::kv::{KvPage, PAGE_POSITIONS};
use crate::pool::Pool;
use crate::shared::Shared;
use block::{Block, Target};
use parts::{MergeParts, PartShape};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// What every row of a layer has in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttendShape {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; n_heads is a multiple.
    pub n_kv_heads: usize,
    /// Length of queries, keys and values.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// `cap tanh(s / cap)` over the scaled scores.
    pub softcap: Option<f32>,
    /// A row sees this many positions, its own included; None: all.
    pub window: Option<usize>,
}

/// The rows of one sequence. Each sees its own position and earlier ones, back to the window's start.
pub struct AttendSegment<'a, P> {
    /// Page i holds positions 256 i and on. A page that no row can see may be missing.
    pub pages: &'a [Option<Arc<P>>],
    /// First row of the batch.
    pub first_row: usize,
    /// The position of each row. Positions up to a row's own are in the cache.
    pub positions: &'a [u32],
}

/// Query rows of a block, at most.
const BLOCK_ROWS: usize = 96;
/// Floats of parts, at most, for chunks to be computed apart.
const MOST_PARTS: usize = 1 << 24;

thread_local! {
    /// What chunks computed apart gave, [`PartShape::len`] floats for each row and chunk.
    static PARTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// `out[row, head] = softmax(scale q k^T) v` over the keys each row sees; q and out = [rows, n_heads, head_dim].
pub fn attend(
    pool: &Pool,
    level: Level,
    shape: AttendShape,
    segments: &[AttendSegment<'_, KvPage>],
    q: &[f32],
    out: &mut [f32],
) {
    assert_eq!(q.len(), out.len(), "attention output");
    let out = Shared::new(out);
    let wanted = 2 * pool.threads();
    let blocks = |rows: usize, block_rows: usize| rows.div_ceil(block_rows) * shape.n_kv_heads;
    let rows = || segments.iter().map(|segment| shape.rows(segment));
    let n_parts: usize =
        segments.iter().map(|s| shape.rows(s) * shape.n_kv_heads * shape.chunks(s).len()).sum();
    let few = pool.threads() > 1 && rows().map(|n| blocks(n, BLOCK_ROWS)).sum::<usize>() < wanted;
    if few && segments.iter().any(|s| shape.chunks(s).len() > 1) && n_parts * shape.part().len() <= MOST_PARTS
    {
        let mut parts = PARTS.take();
        parts.resize(parts.len().max(n_parts * shape.part().len()), 0.0);
        by_chunks(pool, level, shape, segments, q, &Shared::new(&mut parts), &out);
        PARTS.set(parts);
        return;
    }
    // Small batches are cut finer, so that every thread has a part.
    let total = rows().sum::<usize>() * shape.n_kv_heads;
    let block_rows =
        if pool.threads() == 1 { BLOCK_ROWS } else { total.div_ceil(wanted).clamp(1, BLOCK_ROWS) };
    let n_blocks = rows().map(|n| blocks(n, block_rows)).sum::<usize>();
    pool.run(n_blocks, &|_, index| {
        // Backwards: the last rows of a prompt see the most keys, and long work goes first.
        let (segment, index) =
            find(segments, n_blocks - 1 - index, |segment| blocks(shape.rows(segment), block_rows));
        let segment = &segments[segment];
        let (kv_head, first) = (index % shape.n_kv_heads, index / shape.n_kv_heads * block_rows);
        let rows = first..(first + block_rows).min(shape.rows(segment));
        let (chunks, target) = (shape.chunks(segment), Target::Out(&out));
        Block { level, shape, segment, kv_head, rows, chunks, q, target }.run();
    });
}

/// The segment that task `index` of all belongs to, and which of its tasks that is.
fn find<'s, 'p, P>(
    segments: &'s [AttendSegment<'p, P>],
    mut index: usize,
    tasks: impl Fn(&'s AttendSegment<'p, P>) -> usize,
) -> (usize, usize) {
    for (i, segment) in segments.iter().enumerate() {
        let tasks = tasks(segment);
        if index < tasks {
            return (i, index);
        }
        index -= tasks;
    }
    panic!("{index} tasks more than the segments have");
}

/// Few rows: every chunk apart, so that all threads have a part of a long cache; then the chunks of each row merged in
/// ascending order, as one block would have.
fn by_chunks(
    pool: &Pool,
    level: Level,
    shape: AttendShape,
    segments: &[AttendSegment<'_, KvPage>],
    q: &[f32],
    parts: &Shared<'_, f32>,
    out: &Shared<'_, f32>,
) {
    // Where each segment's parts begin: [kv head][chunk][row].
    let mut starts = Vec::new();
    let mut n_parts = 0;
    for segment in segments {
        starts.push(n_parts);
        n_parts += shape.n_kv_heads * shape.chunks(segment).len() * shape.rows(segment);
    }
    let blocks = |segment| shape.rows(segment).div_ceil(BLOCK_ROWS);
    let tasks = |segment| shape.n_kv_heads * shape.chunks(segment).len() * blocks(segment);
    pool.run(segments.iter().map(tasks).sum(), &|_, index| {
        let (at, index) = find(segments, index, tasks);
        let segment = &segments[at];
        let (rows, chunks) = (shape.rows(segment), shape.chunks(segment));
        let (page, first) = (index / blocks(segment), index % blocks(segment) * BLOCK_ROWS);
        let (kv_head, chunk) = (page / chunks.len(), chunks.start + page % chunks.len());
        let target = Target::Parts(parts, (starts[at] + page * rows) * shape.part().len());
        let (rows, chunks) = (first..(first + BLOCK_ROWS).min(rows), chunk..chunk + 1);
        Block { level, shape, segment, kv_head, rows, chunks, q, target }.run();
    });
    let tasks = |segment| shape.n_kv_heads * blocks(segment);
    pool.run(segments.iter().map(tasks).sum(), &|_, index| {
        let (at, index) = find(segments, index, tasks);
        let segment = &segments[at];
        let rows = shape.rows(segment);
        let (kv_head, first) = (index / blocks(segment), index % blocks(segment) * BLOCK_ROWS);
        let start = starts[at] + kv_head * shape.chunks(segment).len() * rows;
        let rows = first..(first + BLOCK_ROWS).min(rows);
        MergeParts { level, shape, segment, kv_head, rows, parts, start, out }.run();
    });
}

impl AttendShape {
    /// Query rows of a KV head: row i is head `i % group` of token `i / group`.
    fn rows<P>(&self, segment: &AttendSegment<'_, P>) -> usize {
        segment.positions.len() * (self.n_heads / self.n_kv_heads)
    }

    /// The positions that a query row sees.
    fn sees<P>(&self, segment: &AttendSegment<'_, P>, row: usize) -> Range<usize> {
        let end = segment.positions[row / (self.n_heads / self.n_kv_heads)] as usize + 1;
        self.window.map_or(0, |w| end.saturating_sub(w))..end
    }

    /// The chunks that any row of a segment sees.
    fn chunks<P>(&self, segment: &AttendSegment<'_, P>) -> Range<usize> {
        let (mut lo, mut hi) = (usize::MAX, 0);
        for position in segment.positions {
            let end = *position as usize + 1;
            (lo, hi) = (lo.min(self.window.map_or(0, |w| end.saturating_sub(w))), hi.max(end));
        }
        (lo / PAGE_POSITIONS).min(hi)..hi.div_ceil(PAGE_POSITIONS)
    }

    /// Where a query row starts in q and out.
    fn offset<P>(&self, segment: &AttendSegment<'_, P>, kv_head: usize, row: usize) -> usize {
        let group = self.n_heads / self.n_kv_heads;
        let head = kv_head * group + row % group;
        ((segment.first_row + row / group) * self.n_heads + head) * self.head_dim
    }

    /// Stores the outputs `o` of a query row, divided by the denominator `l`. Nobody else may store that row.
    fn store<P>(
        &self,
        segment: &AttendSegment<'_, P>,
        (kv_head, row): (usize, usize),
        out: &Shared<'_, f32>,
        o: &[[f32; 16]],
        l: f32,
    ) {
        let start = self.offset(segment, kv_head, row);
        // SAFETY: a row of a head is one task's, as the caller says.
        let out = unsafe { out.slice(start, self.head_dim) };
        for (out, o) in out.iter_mut().zip(o.as_flattened()) {
            *out = o / l;
        }
    }

    fn part(&self) -> PartShape {
        PartShape { columns: self.head_dim.div_ceil(16) }
    }
}
