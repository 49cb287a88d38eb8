//! Query rows of one KV head against its pages.
//!
//! Many rows go through a chunk together: each tile of keys and each column of values is widened to floats once, into
//! scratch that the first cache level holds, and meets all tiles of rows there. Few rows read the page as it is.

use super::rows::{Chunk, MOST_ROWS};
use super::softmax::{Exponents, Merge, Softmax, Turn};
use super::tile::{Score, Weigh, WidenColumn, WidenKeys, WidenScales};
use super::{AttendSegment, AttendShape};
use crate::isa::Level;
use crate::kv::{Keys, KeysOf, KvPage, PAGE_POSITIONS, TILE_KEYS, Values, ValuesOf};
use crate::shared::Shared;
use std::cell::RefCell;
use std::ops::Range;

/// From so many rows on, widening keys and values first is cheaper than widening them for each tile of rows.
const WIDEN_ROWS: usize = 24;
/// The same where they have scales. Below it, a tile of rows leaves registers for the scales.
const WIDEN_SCALED_ROWS: usize = 5;
/// Tiles of keys that few rows take before the next rows do: they stay in the first cache level.
const NARROW_TILES: usize = 4;
/// The same, in keys, for values.
const NARROW_KEYS: usize = NARROW_TILES * TILE_KEYS;

/// Where a block's results go.
pub(super) enum Target<'a> {
    /// Divided, to out = [rows, n_heads, head_dim].
    Out(&'a Shared<'a, f32>),
    /// As they are, with maxima and denominators, to be merged: parts from that of row 0 of this KV head and chunk on.
    Parts(&'a Shared<'a, f32>, usize),
}

/// Query rows of one KV head of one segment: row i is head `i % group` of token `i / group`.
pub(super) struct Block<'a> {
    pub(super) level: Level,
    pub(super) shape: AttendShape,
    pub(super) segment: &'a AttendSegment<'a, KvPage>,
    pub(super) kv_head: usize,
    pub(super) rows: Range<usize>,
    /// The chunks to go through; those that no row sees are passed over.
    pub(super) chunks: Range<usize>,
    pub(super) q: &'a [f32],
    pub(super) target: Target<'a>,
}

/// Sixteen floats where no vector crosses a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Lanes(#[expect(dead_code, reason = "read as floats, see `Block::scratch`")] [f32; 16]);

thread_local! {
    /// Sized by the model, so kept off the stack.
    static SCRATCH: RefCell<Vec<Lanes>> = const { RefCell::new(Vec::new()) };
}

/// The scratch of a block.
struct Scratch<'a> {
    /// Queries, [rows][head_dim].
    q: &'a mut [f32],
    /// Running outputs, [rows][columns].
    o: &'a mut [[f32; 16]],
    /// Scores of a chunk, then their exponents.
    scores: &'a mut [[f32; PAGE_POSITIONS]],
    /// A widened tile of keys, [head_dim].
    keys: &'a mut [[f32; 16]],
    /// A widened column of values, [256].
    values: &'a mut [[f32; 16]],
    /// Sums of a tile of rows, [columns][rows].
    sums: &'a mut [[f32; 16]],
    /// Widened scales of values, [head_dim / 32][256].
    scales: &'a mut [[f32; PAGE_POSITIONS]],
}

impl Block<'_> {
    pub(super) fn run(self) {
        SCRATCH.with_borrow_mut(|memory| {
            let mut scratch = self.scratch(memory);
            self.gather_queries(scratch.q);
            // The identity of addition, see `Turn::outputs`.
            scratch.o.fill([-0.0; 16]);
            let mut running = Softmax::default();
            for index in self.chunks.clone() {
                let chunk = Chunk::new(&self.shape, self.segment, self.rows.clone(), index);
                if chunk.any.is_empty() {
                    continue;
                }
                let Some(page) = self.segment.pages.get(index).and_then(Option::as_ref) else {
                    panic!("attention reads page {index}, which the cache does not hold");
                };
                self.scores(page, &chunk, &mut scratch);
                let (shape, scores) = (&self.shape, &mut *scratch.scores);
                let softmax = self.level.run(Exponents { shape, chunk: &chunk, scores });
                let rows = self.rows.len();
                let turn = self.level.run(Merge { running: &mut running, chunk: &softmax, rows });
                self.values(page, &chunk, &turn, &mut scratch);
            }
            self.finish(&running, scratch.o);
        });
    }

    fn columns(&self) -> usize {
        self.shape.head_dim.div_ceil(16)
    }

    fn widens(&self, page: &KvPage) -> bool {
        self.rows.len() >= if page.shape().scales() > 0 { WIDEN_SCALED_ROWS } else { WIDEN_ROWS }
    }

    fn scratch<'m>(&self, memory: &'m mut Vec<Lanes>) -> Scratch<'m> {
        let (rows, dim, columns) = (self.rows.len(), self.shape.head_dim, self.columns());
        let page = PAGE_POSITIONS / 16;
        let lens = [
            (rows * dim).div_ceil(16),
            rows * columns,
            rows * page,
            dim,
            PAGE_POSITIONS,
            columns * MOST_ROWS,
            columns.div_ceil(2) * page,
        ];
        let total: usize = lens.iter().sum();
        if memory.len() < total {
            memory.resize(total, Lanes::default());
        }
        // SAFETY: `Lanes` is sixteen floats without padding.
        let mut rest =
            unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<[f32; 16]>(), total) };
        let mut take = |len| rest.split_off_mut(..len).unwrap_or_default();
        let [q, o, scores, keys, values, sums, scales] = lens.map(&mut take);
        Scratch {
            q: &mut q.as_flattened_mut()[..rows * dim],
            o,
            scores: scores.as_flattened_mut().as_chunks_mut().0,
            keys,
            values,
            sums,
            scales: scales.as_flattened_mut().as_chunks_mut().0,
        }
    }

    /// Heads of a token lie side by side and tokens far apart, at strides that would meet in a few sets of a cache.
    fn gather_queries(&self, out: &mut [f32]) {
        let dim = self.shape.head_dim;
        for (row, out) in self.rows.clone().zip(out.chunks_exact_mut(dim)) {
            let offset = self.shape.offset(self.segment, self.kv_head, row);
            out.copy_from_slice(&self.q[offset..offset + dim]);
        }
    }

    fn scores(&self, page: &KvPage, chunk: &Chunk, scratch: &mut Scratch<'_>) {
        let step = if self.widens(page) { 1 } else { NARROW_TILES };
        let end = chunk.any.end.div_ceil(TILE_KEYS);
        for first in (chunk.any.start / TILE_KEYS / step * step..end).step_by(step) {
            let mut keys = page.keys(self.kv_head, first);
            if self.widens(page) {
                let out = &mut *scratch.keys;
                match keys {
                    KeysOf::F32(_) => {}
                    KeysOf::F16(keys) => self.level.run(WidenKeys { keys, out }),
                    KeysOf::Q8_0(keys) => self.level.run(WidenKeys { keys, out }),
                }
                if !matches!(keys, KeysOf::F32(_)) {
                    keys = KeysOf::F32(Keys { codes: scratch.keys, scales: &[] });
                }
            }
            let (q, scores) = (&*scratch.q, &mut *scratch.scores);
            let (head_dim, tiles) = (self.shape.head_dim, first..first + step);
            match keys {
                KeysOf::F32(keys) => {
                    self.level.run(Score { chunk, tiles, keys, head_dim, q, scores });
                }
                KeysOf::F16(keys) => {
                    self.level.run(Score { chunk, tiles, keys, head_dim, q, scores });
                }
                KeysOf::Q8_0(keys) => {
                    self.level.run(Score { chunk, tiles, keys, head_dim, q, scores });
                }
            }
        }
    }

    fn values(&self, page: &KvPage, chunk: &Chunk, turn: &Turn, scratch: &mut Scratch<'_>) {
        let stride = self.columns();
        let out = scratch.scales.as_flattened_mut().as_chunks_mut().0;
        self.level.run(WidenScales { scales: page.value_scales(self.kv_head), out });
        let step = if self.widens(page) { 1 } else { stride };
        for column in (0..stride).step_by(step) {
            let mut values = page.values(self.kv_head, scratch.scales);
            if self.widens(page) {
                let (keys, out) = (chunk.any.clone(), &mut *scratch.values);
                match values {
                    ValuesOf::F32(values) => self.level.run(WidenColumn { values, column, keys, out }),
                    ValuesOf::F16(values) => self.level.run(WidenColumn { values, column, keys, out }),
                    ValuesOf::Q8_0(values) => self.level.run(WidenColumn { values, column, keys, out }),
                }
                values =
                    ValuesOf::F32(Values { codes: scratch.values, scales: &[], first: column, columns: 1 });
            }
            let (columns, p, o) = (column..column + step, &*scratch.scores, &mut *scratch.o);
            let (sums, step) =
                (&mut *scratch.sums, if self.widens(page) { PAGE_POSITIONS } else { NARROW_KEYS });
            match values {
                ValuesOf::F32(values) => {
                    self.level.run(Weigh { chunk, turn, columns, values, p, o, stride, sums, step });
                }
                ValuesOf::F16(values) => {
                    self.level.run(Weigh { chunk, turn, columns, values, p, o, stride, sums, step });
                }
                ValuesOf::Q8_0(values) => {
                    self.level.run(Weigh { chunk, turn, columns, values, p, o, stride, sums, step });
                }
            }
        }
    }

    fn finish(&self, running: &Softmax, o: &[[f32; 16]]) {
        for (i, (row, o)) in self.rows.clone().zip(o.chunks_exact(self.columns())).enumerate() {
            match self.target {
                Target::Out(out) => {
                    self.shape.store(self.segment, (self.kv_head, row), out, o, running.l[i]);
                }
                Target::Parts(parts, first) => {
                    let part = self.shape.part();
                    // SAFETY: this part belongs to this block alone.
                    let out = unsafe { parts.slice(first + row * part.len(), part.len()) };
                    part.write(out, running.m[i], running.l[i], o);
                }
            }
        }
    }
}
