//! Which keys of a chunk the rows of a block see, and in what company rows go through registers.

use super::{AttendSegment, AttendShape, BLOCK_ROWS};
use crate::kv::PAGE_POSITIONS;
use std::ops::Range;

/// Rows of a tile, at most.
pub(super) const MOST_ROWS: usize = 6;
/// Tiles of rows in a block, at most.
const MAX_TILES: usize = BLOCK_ROWS / MOST_ROWS;

/// Rows that go through registers together.
#[derive(Clone)]
pub(super) struct RowTile {
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Slots of the chunk that any of the rows sees.
    pub(super) any: Range<usize>,
    /// Slots that all of them see.
    pub(super) all: Range<usize>,
}

impl RowTile {
    /// Of what one row sees, what is before the slots that all see; everything where they share none.
    #[inline(always)]
    pub(super) fn before(&self, seen: &Range<usize>) -> Range<usize> {
        if self.all.is_empty() { seen.clone() } else { seen.start..self.all.start }
    }

    /// And what is after them.
    #[inline(always)]
    pub(super) fn after(&self, seen: &Range<usize>) -> Range<usize> {
        if self.all.is_empty() { 0..0 } else { self.all.end..seen.end }
    }
}

/// A chunk, as the rows of a block see it.
pub(super) struct Chunk {
    /// Each row's slots; 0..0 where it sees none.
    pub(super) seen: [Range<usize>; BLOCK_ROWS],
    tiles: [RowTile; MAX_TILES],
    n_tiles: usize,
    /// Slots that any row sees.
    pub(super) any: Range<usize>,
}

impl Chunk {
    pub(super) fn new(
        shape: &AttendShape,
        segment: &AttendSegment<'_, impl Sized>,
        rows: Range<usize>,
        index: usize,
    ) -> Chunk {
        let start = index * PAGE_POSITIONS;
        let mut chunk = Chunk {
            seen: [const { 0..0 }; BLOCK_ROWS],
            tiles: [const { RowTile { first: 0, rows: 0, any: 0..0, all: 0..0 } }; MAX_TILES],
            n_tiles: 0,
            any: 0..0,
        };
        let mut first = 0;
        while first < rows.len() {
            let n = tile_rows(rows.len() - first);
            let (mut any, mut all) = (0..0, 0..PAGE_POSITIONS);
            for row in first..first + n {
                let seen = shape.sees(segment, rows.start + row);
                let lo = seen.start.saturating_sub(start);
                let hi = seen.end.min(start + PAGE_POSITIONS).saturating_sub(start);
                if lo < hi {
                    chunk.seen[row] = lo..hi;
                    any = cover(any, lo..hi);
                    all = all.start.max(lo)..all.end.min(hi);
                } else {
                    all = 0..0;
                }
            }
            let all = if all.is_empty() { 0..0 } else { all };
            chunk.any = cover(chunk.any, any.clone());
            chunk.tiles[chunk.n_tiles] = RowTile { first, rows: n, any, all };
            chunk.n_tiles += 1;
            first += n;
        }
        chunk
    }

    pub(super) fn tiles(&self) -> &[RowTile] {
        &self.tiles[..self.n_tiles]
    }
}

/// The least range that holds both.
fn cover(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b,
        (_, true) => a,
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// How many of `left` rows go together: the most, and the last ones as evenly as can be.
fn tile_rows(left: usize) -> usize {
    if left >= 3 * MOST_ROWS { MOST_ROWS } else { left.div_ceil(left.div_ceil(MOST_ROWS)) }
}
