//! What happens in registers: a few query rows against a vector or two of keys or of values.
//!
//! Rows times vectors are as many independent chains as hide the latency of fma: twelve registers of sums, one vector of
//! keys or values and one broadcast are all that AVX2 has room for. Sums come and go through memory, once for a whole
//! chain, so that what comes before and after is one loop over rows, and not code of its own for every shape of tile.

use super::rows::Chunk;
use super::softmax::Turn;
use crate::isa::{Isa, Kernel};
use crate::kv::{BLOCK, Element, Keys, PAGE_POSITIONS, TILE_KEYS, Values};
use std::ops::Range;

/// How far ahead pages are asked for, in vectors of a tile of keys and in rows of values: hardware that looks ahead begins
/// anew at every page of memory.
const AHEAD: usize = 128;
const AHEAD_KEYS: usize = 64;

/// How many of `left` vectors go together for so many rows: what gives enough chains.
#[inline(always)]
fn vectors(rows: usize, left: usize) -> usize {
    match rows {
        1 if left >= 4 => 4,
        2 if left >= 2 => 2,
        _ => 1,
    }
}

/// All rows of a block against some tiles of keys: dots with every key that any row of a tile of rows sees.
pub(super) struct Score<'a, E> {
    pub(super) chunk: &'a Chunk,
    /// Whole groups of tiles.
    pub(super) tiles: Range<usize>,
    /// From the first of the tiles on.
    pub(super) keys: Keys<'a, E>,
    pub(super) head_dim: usize,
    /// Queries, [rows][head_dim].
    pub(super) q: &'a [f32],
    pub(super) scores: &'a mut [[f32; PAGE_POSITIONS]],
}

impl<E: Element> Kernel for Score<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Score { chunk, tiles, keys, head_dim, q, scores } = self;
        for rows in chunk.tiles() {
            let these = rows.first..rows.first + rows.rows;
            let q = &q[these.start * head_dim..these.end * head_dim];
            let scores = &mut scores[these];
            let mut tile = tiles.start.max(rows.any.start / TILE_KEYS);
            let end = tiles.end.min(rows.any.end.div_ceil(TILE_KEYS));
            while tile < end {
                let at = tile - tiles.start;
                // Several tiles where the page has them, seen or not: what a row does not see is masked in any case.
                let wide = vectors(rows.rows, tiles.end - tile);
                match (rows.rows, wide) {
                    (6, _) if !E::SCALED => dots::<I, E, 6, 1>(isa, q, keys, at, tile, scores),
                    (5, _) if !E::SCALED => dots::<I, E, 5, 1>(isa, q, keys, at, tile, scores),
                    (4, _) => dots::<I, E, 4, 1>(isa, q, keys, at, tile, scores),
                    (3, _) => dots::<I, E, 3, 1>(isa, q, keys, at, tile, scores),
                    (2, 2) => dots::<I, E, 2, 2>(isa, q, keys, at, tile, scores),
                    (2, _) => dots::<I, E, 2, 1>(isa, q, keys, at, tile, scores),
                    (_, 4) => dots::<I, E, 1, 4>(isa, q, keys, at, tile, scores),
                    _ => dots::<I, E, 1, 1>(isa, q, keys, at, tile, scores),
                }
                tile += wide;
            }
        }
    }
}

/// Dots of R queries, [R][head_dim], with `W` tiles of sixteen keys from `at` on, which are the page's from `tile` on.
#[inline(always)]
fn dots<I: Isa, E: Element, const R: usize, const W: usize>(
    isa: I,
    q: &[f32],
    keys: Keys<'_, E>,
    at: usize,
    tile: usize,
    scores: &mut [[f32; PAGE_POSITIONS]],
) {
    let Some(scores) = scores.first_chunk_mut::<R>() else { return };
    let dim = q.len() / R;
    let n_scales = if E::SCALED { dim / BLOCK } else { 0 };
    let mut acc = [[isa.splat(0.0); W]; R];
    let step = if E::SCALED { BLOCK } else { dim };
    for start in (0..dim).step_by(step) {
        let n = step.min(dim - start);
        let mut rows: [&[f32]; R] = [&[]; R];
        for r in 0..R {
            rows[r] = &q[r * dim + start..][..n];
        }
        let mut scale = [isa.splat(0.0); W];
        let mut codes: [&[[E; 16]]; W] = [&[]; W];
        for w in 0..W {
            if E::SCALED {
                scale[w] = isa.load_f16(&keys.scales[(at + w) * n_scales + start / BLOCK]);
            }
            codes[w] = &keys.codes[(at + w) * dim + start..][..n];
        }
        for d in 0..n {
            let mut k = [isa.splat(0.0); W];
            for w in 0..W {
                if E::AHEAD {
                    isa.prefetch(codes[w].as_ptr().wrapping_add(d + AHEAD));
                }
                k[w] = E::load(isa, &codes[w][d], scale[w]);
            }
            for r in 0..R {
                let q = isa.splat(rows[r][d]);
                for w in 0..W {
                    acc[r][w] = isa.fma(q, k[w], acc[r][w]);
                }
            }
        }
    }
    for r in 0..R {
        for w in 0..W {
            isa.store(acc[r][w], &mut scores[r].as_chunks_mut::<TILE_KEYS>().0[tile + w]);
        }
    }
}

/// All rows of a block against some columns of values, merged into the running outputs.
pub(super) struct Weigh<'a, E> {
    pub(super) chunk: &'a Chunk,
    pub(super) turn: &'a Turn,
    pub(super) columns: Range<usize>,
    pub(super) values: Values<'a, E>,
    /// The exponents of the scores.
    pub(super) p: &'a [[f32; PAGE_POSITIONS]],
    /// Running outputs, [rows][stride].
    pub(super) o: &'a mut [[f32; 16]],
    /// Columns of all.
    pub(super) stride: usize,
    /// Sums of a tile of rows, [columns][rows].
    pub(super) sums: &'a mut [[f32; 16]],
    /// Keys that all columns take before the next keys do: their values stay in the first cache level.
    pub(super) step: usize,
}

impl<E: Element> Kernel for Weigh<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Weigh { chunk, turn, columns, values, p, o, stride, sums, step } = self;
        for rows in chunk.tiles().iter().filter(|rows| !rows.any.is_empty()) {
            let (first, n) = (rows.first, rows.rows);
            let p = &p[first..first + n];
            let sums = &mut sums[..columns.len() * n];
            sums.fill([0.0; 16]);
            // What all rows of the tile see together, each row's own edges before and after it.
            if rows.any != rows.all {
                for ((i, p), seen) in p.iter().enumerate().zip(&chunk.seen[first..]) {
                    for (column, sums) in columns.clone().zip(sums.chunks_exact_mut(n)) {
                        edge(isa, p, values, column, rows.before(seen), &mut sums[i]);
                    }
                }
            }
            let mut start = rows.all.start;
            while start < rows.all.end {
                let keys = start..(start + step).min(rows.all.end);
                start = keys.end;
                let mut column = columns.start;
                while column < columns.end {
                    let wide = vectors(n, columns.end - column);
                    let sums = &mut sums[(column - columns.start) * n..][..wide * n];
                    let keys = keys.clone();
                    match (n, wide) {
                        (6, _) if !E::SCALED => weigh::<I, E, 6, 1>(isa, p, values, column, keys, sums),
                        (5, _) if !E::SCALED => weigh::<I, E, 5, 1>(isa, p, values, column, keys, sums),
                        (4, _) => weigh::<I, E, 4, 1>(isa, p, values, column, keys, sums),
                        (3, _) => weigh::<I, E, 3, 1>(isa, p, values, column, keys, sums),
                        (2, 2) => weigh::<I, E, 2, 2>(isa, p, values, column, keys, sums),
                        (2, _) => weigh::<I, E, 2, 1>(isa, p, values, column, keys, sums),
                        (_, 4) => weigh::<I, E, 1, 4>(isa, p, values, column, keys, sums),
                        _ => weigh::<I, E, 1, 1>(isa, p, values, column, keys, sums),
                    }
                    column += wide;
                }
            }
            for (i, p) in p.iter().enumerate() {
                let (row, seen) = (first + i, &chunk.seen[first + i]);
                if seen.is_empty() {
                    continue;
                }
                for (column, sums) in columns.clone().zip(sums.chunks_exact_mut(n)) {
                    let sum = &mut sums[i];
                    edge(isa, p, values, column, rows.after(seen), sum);
                    turn.outputs(isa, row, &mut o[row * stride + column], isa.load(sum));
                }
            }
        }
    }
}

/// `sum += sum_key p[key] v[key]` over `keys` ascending.
#[inline(always)]
fn edge<I: Isa, E: Element>(
    isa: I,
    p: &[f32; PAGE_POSITIONS],
    values: Values<'_, E>,
    column: usize,
    keys: Range<usize>,
    sum: &mut [f32; 16],
) {
    if !keys.is_empty() {
        let mut acc = isa.load(sum);
        for key in keys {
            acc = isa.fma(isa.splat(p[key]), values.load(isa, key, column), acc);
        }
        isa.store(acc, sum);
    }
}

/// `sums[w][r] += sum_key p[r][key] v[key][column + w]` over `keys` ascending.
#[inline(always)]
fn weigh<I: Isa, E: Element, const R: usize, const W: usize>(
    isa: I,
    p: &[[f32; PAGE_POSITIONS]],
    values: Values<'_, E>,
    column: usize,
    keys: Range<usize>,
    sums: &mut [[f32; 16]],
) {
    let Some(p) = p.first_chunk::<R>() else { return };
    let mut acc = [[isa.splat(0.0); W]; R];
    for r in 0..R {
        for w in 0..W {
            acc[r][w] = isa.load(&sums[w * R + r]);
        }
    }
    let end = keys.end.min(PAGE_POSITIONS);
    for key in keys.start..end {
        let mut v = [isa.splat(0.0); W];
        for w in 0..W {
            if E::AHEAD {
                isa.prefetch(
                    values.codes.as_ptr().wrapping_add((key + AHEAD_KEYS) * values.columns + column + w),
                );
            }
            v[w] = values.load(isa, key, column + w);
        }
        for r in 0..R {
            let p = isa.splat(p[r][key]);
            for w in 0..W {
                acc[r][w] = isa.fma(p, v[w], acc[r][w]);
            }
        }
    }
    for r in 0..R {
        for w in 0..W {
            isa.store(acc[r][w], &mut sums[w * R + r]);
        }
    }
}

/// Widens the first tile of keys, [head_dim].
pub(super) struct WidenKeys<'a, E> {
    pub(super) keys: Keys<'a, E>,
    pub(super) out: &'a mut [[f32; 16]],
}

impl<E: Element> Kernel for WidenKeys<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let step = if E::SCALED { BLOCK } else { self.out.len() };
        for (block, (out, codes)) in self.out.chunks_mut(step).zip(self.keys.codes.chunks(step)).enumerate() {
            let scale = if E::SCALED { isa.load_f16(&self.keys.scales[block]) } else { isa.splat(0.0) };
            for (out, codes) in out.iter_mut().zip(codes) {
                isa.store(E::load(isa, codes, scale), out);
            }
        }
    }
}

/// Widens a column of values where `keys` are.
pub(super) struct WidenColumn<'a, E> {
    pub(super) values: Values<'a, E>,
    pub(super) column: usize,
    pub(super) keys: Range<usize>,
    pub(super) out: &'a mut [[f32; 16]],
}

impl<E: Element> Kernel for WidenColumn<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for (key, out) in self.keys.clone().zip(&mut self.out[self.keys]) {
            isa.store(self.values.load(isa, key, self.column), out);
        }
    }
}

/// Widens scales of values.
pub(super) struct WidenScales<'a> {
    pub(super) scales: &'a [[u16; 16]],
    pub(super) out: &'a mut [[f32; 16]],
}

impl Kernel for WidenScales<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for (out, scales) in self.out.iter_mut().zip(self.scales) {
            isa.store(isa.load_f16(scales), out);
        }
    }
}
