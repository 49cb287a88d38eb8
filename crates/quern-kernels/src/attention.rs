//! Attention over paged caches (rule 5): chunks of 256 positions, each giving (m, l, o) alone, merged in ascending order.
//!
//! Work is split by blocks of query rows of one KV head, where a query row is one head of one token; heads that share
//! keys sit in one block and read them once. Inside a block, tiles of up to four rows share each load of keys and
//! values. No split changes a bit: every row's chains run over its own keys in ascending order.

use crate::isa::{Isa, Kernel, Level};
use crate::kv::{KvElement, KvPage, KvShape, PAGE_POSITIONS, Plane, Planes, TILE_KEYS};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::{math, vector};
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
const BLOCK_ROWS: usize = 32;
/// Rows of a block that go through a chunk together, at most.
const TILE_ROWS: usize = 4;

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
    let group = shape.n_heads / shape.n_kv_heads;
    let rows_of = |s: &AttendSegment<'_, KvPage>| s.positions.len() * group;
    // Small batches are cut finer, so that every thread has a part.
    let total: usize = segments.iter().map(rows_of).sum::<usize>() * shape.n_kv_heads;
    let block_rows = total.div_ceil(2 * pool.threads()).clamp(1, BLOCK_ROWS);
    let blocks_of = |s: &AttendSegment<'_, KvPage>| rows_of(s).div_ceil(block_rows) * shape.n_kv_heads;
    let out = Shared::new(out);
    pool.run(segments.iter().map(blocks_of).sum(), &|_, mut index| {
        for segment in segments {
            let blocks = blocks_of(segment);
            if index >= blocks {
                index -= blocks;
                continue;
            }
            let (kv_head, block) = (index % shape.n_kv_heads, index / shape.n_kv_heads);
            let rows = block * block_rows..((block + 1) * block_rows).min(rows_of(segment));
            level.run(Block { shape, segment, kv_head, rows, q, out: &out });
            return;
        }
    });
}

/// Query rows of one KV head of one segment: row i is head `i % group` of token `i / group`.
struct Block<'a> {
    shape: AttendShape,
    segment: &'a AttendSegment<'a, KvPage>,
    kv_head: usize,
    rows: Range<usize>,
    q: &'a [f32],
    out: &'a Shared<'a, f32>,
}

thread_local! {
    /// Running outputs of a block, then chunk outputs of a tile, then scores: sized by the model, so kept off the stack.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The running softmax of a row: maximum and denominator over the chunks merged so far. `l` is zero before the first.
#[derive(Clone, Copy, Default)]
struct Running {
    m: f32,
    l: f32,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        // Taken and put back, not borrowed in a closure: a closure would not be compiled for the ISA.
        let mut scratch = SCRATCH.take();
        let stride = self.shape.head_dim.next_multiple_of(16);
        scratch.clear();
        scratch.resize((BLOCK_ROWS + TILE_ROWS) * stride + TILE_ROWS * PAGE_POSITIONS, 0.0);
        let (o, rest) = scratch.split_at_mut(BLOCK_ROWS * stride);
        let (chunk_o, scores) = rest.split_at_mut(TILE_ROWS * stride);
        let mut running = [Running::default(); BLOCK_ROWS];
        let (mut lo, mut hi) = (usize::MAX, 0);
        for row in self.rows.clone() {
            let seen = self.sees(row);
            (lo, hi) = (lo.min(seen.start), hi.max(seen.end));
        }
        for chunk in lo / PAGE_POSITIONS..hi.div_ceil(PAGE_POSITIONS) {
            let Some(page) = self.segment.pages.get(chunk).and_then(Option::as_ref) else {
                panic!("attention reads page {chunk}, which the cache does not hold");
            };
            let mut first = 0;
            while first < self.rows.len() {
                let tile = Tile { block: &self, chunk, first, shape: page.shape() };
                let work = Work {
                    o: &mut o[first * stride..],
                    chunk_o: &mut *chunk_o,
                    scores: &mut *scores,
                    running: &mut running[first..],
                };
                first += match &page.planes {
                    Planes::F32(plane) => tile.run(isa, plane, work),
                    Planes::F16(plane) => tile.run(isa, plane, work),
                };
            }
        }
        for (i, row) in self.rows.clone().enumerate() {
            let start = self.offset(row);
            // SAFETY: this head of this row belongs to this block alone.
            let out = unsafe { self.out.slice(start, self.shape.head_dim) };
            for (out, o) in out.iter_mut().zip(&o[i * stride..]) {
                *out = o / running[i].l;
            }
        }
        SCRATCH.set(scratch);
    }
}

impl Block<'_> {
    /// The positions that a query row sees.
    #[inline(always)]
    fn sees(&self, row: usize) -> Range<usize> {
        let group = self.shape.n_heads / self.shape.n_kv_heads;
        let end = self.segment.positions[row / group] as usize + 1;
        self.shape.window.map_or(0, |w| end.saturating_sub(w))..end
    }

    /// Where a query row starts in q and out.
    #[inline(always)]
    fn offset(&self, row: usize) -> usize {
        let group = self.shape.n_heads / self.shape.n_kv_heads;
        let head = self.kv_head * group + row % group;
        ((self.segment.first_row + row / group) * self.shape.n_heads + head) * self.shape.head_dim
    }
}

/// Where a tile works: the running outputs and softmaxes of its rows and on, and scratch for one chunk.
struct Work<'a> {
    o: &'a mut [f32],
    chunk_o: &'a mut [f32],
    scores: &'a mut [f32],
    running: &'a mut [Running],
}

/// Up to four rows of a block against one chunk.
struct Tile<'a> {
    block: &'a Block<'a>,
    chunk: usize,
    /// First row, counted in the block.
    first: usize,
    shape: KvShape,
}

impl Tile<'_> {
    /// Handles four, two or one rows; gives how many.
    #[inline(always)]
    fn run<I: Isa, E: KvElement>(&self, isa: I, plane: &Plane<E>, work: Work<'_>) -> usize {
        match self.block.rows.len() - self.first {
            4.. => self.rows::<I, E, 4, 1>(isa, plane, work),
            2.. => self.rows::<I, E, 2, 2>(isa, plane, work),
            _ => self.rows::<I, E, 1, 4>(isa, plane, work),
        }
    }

    /// `R` rows, `W` vectors wide: R x W independent chains hide the latency of fma.
    #[inline(always)]
    fn rows<I: Isa, E: KvElement, const R: usize, const W: usize>(
        &self,
        isa: I,
        plane: &Plane<E>,
        work: Work<'_>,
    ) -> usize {
        let Work { o, chunk_o, scores, running } = work;
        let start = self.chunk * PAGE_POSITIONS;
        let dim = self.shape.head_dim;
        let stride = self.shape.value_stride();
        // Each row's visible slots of this chunk; empty ranges are 0..0.
        let seen: [Range<usize>; R] = std::array::from_fn(|r| {
            let seen = self.block.sees(self.block.rows.start + self.first + r);
            let lo = seen.start.max(start) - start;
            let hi = seen.end.min(start + PAGE_POSITIONS).saturating_sub(start);
            if lo < hi { lo..hi } else { 0..0 }
        });
        let lo = seen.iter().filter(|s| !s.is_empty()).map(|s| s.start).min().unwrap_or(0);
        let hi = seen.iter().map(|s| s.end).max().unwrap_or(0);
        if lo >= hi {
            return R;
        }
        let q: [&[f32]; R] = std::array::from_fn(|r| {
            let offset = self.block.offset(self.block.rows.start + self.first + r);
            &self.block.q[offset..offset + dim]
        });

        // Scores: one chain over d for every key.
        let keys = plane.keys(self.shape, self.block.kv_head);
        let mut tile = lo / TILE_KEYS;
        let last = hi.div_ceil(TILE_KEYS);
        while tile < last {
            if tile + W <= last {
                score_tiles::<I, E, R, W>(isa, q, keys, tile, dim, scores);
                tile += W;
            } else {
                score_tiles::<I, E, R, 1>(isa, q, keys, tile, dim, scores);
                tile += 1;
            }
        }

        // Each row's softmax over its own keys.
        let mut chunk = [Running::default(); R];
        for r in 0..R {
            if !seen[r].is_empty() {
                let scores = &mut scores[r * PAGE_POSITIONS..(r + 1) * PAGE_POSITIONS];
                chunk[r] = softmax(isa, &self.block.shape, scores, seen[r].clone());
            }
        }

        // Weighted values: what all rows see together, each row's own edges before and after it.
        chunk_o[..R * stride].fill(0.0);
        let values = plane.values(self.shape, self.block.kv_head);
        let mut common_lo = lo;
        let mut common_hi = hi;
        for s in &seen {
            common_lo = common_lo.max(s.start);
            common_hi = common_hi.min(s.end);
        }
        let common = if common_lo < common_hi { common_lo..common_hi } else { 0..0 };
        for r in 0..R {
            let (o, scores) = (&mut chunk_o[r * stride..(r + 1) * stride], &scores[r * PAGE_POSITIONS..]);
            let before = if common.is_empty() { seen[r].clone() } else { seen[r].start..common.start };
            weigh::<I, E, 1, 4>(isa, scores, values, stride, before, o);
        }
        weigh::<I, E, R, W>(isa, scores, values, stride, common.clone(), &mut chunk_o[..R * stride]);
        for r in 0..R {
            let (o, scores) = (&mut chunk_o[r * stride..(r + 1) * stride], &scores[r * PAGE_POSITIONS..]);
            let after = if common.is_empty() { 0..0 } else { common.end..seen[r].end };
            weigh::<I, E, 1, 4>(isa, scores, values, stride, after, o);
        }

        for r in 0..R {
            if !seen[r].is_empty() {
                merge(
                    isa,
                    &mut running[r],
                    &mut o[r * stride..(r + 1) * stride],
                    chunk[r],
                    &chunk_o[r * stride..(r + 1) * stride],
                );
            }
        }
        R
    }
}

/// Dots of `R` queries with `W` tiles of sixteen keys, to `scores[r][key]`.
#[inline(always)]
fn score_tiles<I: Isa, E: KvElement, const R: usize, const W: usize>(
    isa: I,
    q: [&[f32]; R],
    keys: &[[E; 16]],
    tile: usize,
    dim: usize,
    scores: &mut [f32],
) {
    let tiles: [&[[E; 16]]; W] = std::array::from_fn(|w| &keys[(tile + w) * dim..(tile + w + 1) * dim]);
    let q: [&[f32]; R] = q.map(|q| &q[..dim]);
    let mut acc = [[isa.splat(0.0); W]; R];
    for d in 0..dim {
        let k: [I::F; W] = std::array::from_fn(|w| E::load(isa, &tiles[w][d]));
        for r in 0..R {
            let q = isa.splat(q[r][d]);
            for w in 0..W {
                acc[r][w] = isa.fma(q, k[w], acc[r][w]);
            }
        }
    }
    for r in 0..R {
        let row = scores[r * PAGE_POSITIONS..(r + 1) * PAGE_POSITIONS].as_chunks_mut::<TILE_KEYS>().0;
        for w in 0..W {
            isa.store(acc[r][w], &mut row[tile + w]);
        }
    }
}

/// Turns the scores of the slots `seen` into exp(s - m), zero elsewhere in their tiles; gives m and l.
#[inline(always)]
fn softmax<I: Isa>(isa: I, shape: &AttendShape, scores: &mut [f32], seen: Range<usize>) -> Running {
    let first = seen.start / TILE_KEYS;
    let last = seen.end.div_ceil(TILE_KEYS);
    let tiles = &mut scores.as_chunks_mut::<TILE_KEYS>().0[first..last];
    let lanes = |i: usize| {
        let start = (first + i) * TILE_KEYS;
        (seen.start.saturating_sub(start), (seen.end - start).min(TILE_KEYS))
    };
    let scale = isa.splat(shape.scale);
    let mut max = isa.splat(f32::NEG_INFINITY);
    for (i, tile) in tiles.iter_mut().enumerate() {
        let mut s = isa.mul(isa.load(tile), scale);
        if let Some(cap) = shape.softcap {
            let cap = isa.splat(cap);
            s = isa.mul(cap, vector::tanh(isa, isa.div(s, cap)));
        }
        let (lo, hi) = lanes(i);
        let s = isa.keep_lanes(s, lo, hi, f32::NEG_INFINITY);
        max = isa.max(s, max);
        isa.store(s, tile);
    }
    let m = isa.reduce_max(max);
    let mut l = isa.splat(0.0);
    for (i, tile) in tiles.iter_mut().enumerate() {
        let p = vector::exp(isa, isa.sub(isa.load(tile), isa.splat(m)));
        let (lo, hi) = lanes(i);
        let p = isa.keep_lanes(p, lo, hi, 0.0);
        // An absent key adds +0 to a sum that is never negative: it changes no bit.
        l = isa.add(l, p);
        isa.store(p, tile);
    }
    Running { m, l: isa.reduce_add(l) }
}

/// `o[r] += sum_key p[r][key] v[key]` over `keys` ascending, for `R` rows; o = [R][stride].
#[inline(always)]
fn weigh<I: Isa, E: KvElement, const R: usize, const W: usize>(
    isa: I,
    scores: &[f32],
    values: &[E],
    stride: usize,
    keys: Range<usize>,
    o: &mut [f32],
) {
    if keys.is_empty() {
        return;
    }
    let vectors = stride / 16;
    let mut first = 0;
    while first < vectors {
        if first + W <= vectors {
            weigh_vectors::<I, E, R, W>(isa, scores, values, stride, keys.clone(), first, o);
            first += W;
        } else {
            weigh_vectors::<I, E, R, 1>(isa, scores, values, stride, keys.clone(), first, o);
            first += 1;
        }
    }
}

#[inline(always)]
fn weigh_vectors<I: Isa, E: KvElement, const R: usize, const W: usize>(
    isa: I,
    scores: &[f32],
    values: &[E],
    stride: usize,
    keys: Range<usize>,
    first: usize,
    o: &mut [f32],
) {
    let mut acc = [[isa.splat(0.0); W]; R];
    for r in 0..R {
        let o = o[r * stride..(r + 1) * stride].as_chunks::<16>().0;
        for w in 0..W {
            acc[r][w] = isa.load(&o[first + w]);
        }
    }
    let p: [&[f32]; R] = std::array::from_fn(|r| &scores[r * PAGE_POSITIONS..r * PAGE_POSITIONS + keys.end]);
    let rows = values[keys.start * stride..keys.end * stride].chunks_exact(stride);
    for (key, row) in keys.zip(rows) {
        let row = &row.as_chunks::<16>().0[first..first + W];
        let v: [I::F; W] = std::array::from_fn(|w| E::load(isa, &row[w]));
        for r in 0..R {
            let p = isa.splat(p[r][key]);
            for w in 0..W {
                acc[r][w] = isa.fma(p, v[w], acc[r][w]);
            }
        }
    }
    for r in 0..R {
        let o = o[r * stride..(r + 1) * stride].as_chunks_mut::<16>().0;
        for w in 0..W {
            isa.store(acc[r][w], &mut o[first + w]);
        }
    }
}

/// Merges a chunk into the chunks before it.
#[inline(always)]
fn merge<I: Isa>(isa: I, running: &mut Running, o: &mut [f32], chunk: Running, chunk_o: &[f32]) {
    if running.l == 0.0 {
        *running = chunk;
        o.copy_from_slice(chunk_o);
        return;
    }
    let m = if running.m > chunk.m { running.m } else { chunk.m };
    let (a, b) = (math::exp(running.m - m), math::exp(chunk.m - m));
    running.l = running.l.mul_add(a, chunk.l * b);
    running.m = m;
    let (a, b) = (isa.splat(a), isa.splat(b));
    for (o, c) in o.as_chunks_mut::<16>().0.iter_mut().zip(chunk_o.as_chunks::<16>().0) {
        isa.store(isa.fma(isa.load(o), a, isa.mul(isa.load(c), b)), o);
    }
}
