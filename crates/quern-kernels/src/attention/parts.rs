//! What a row has of one chunk, kept until all its chunks are there.

use super::softmax::{Merge, Softmax, Turn};
use super::{AttendSegment, AttendShape, BLOCK_ROWS};
use crate::isa::{Isa, Kernel, Level};
use crate::kv::KvPage;
use crate::shared::Shared;
use std::ops::Range;

/// A part: a vector that begins with the maximum and the denominator, then columns of outputs.
#[derive(Clone, Copy)]
pub(super) struct PartShape {
    pub(super) columns: usize,
}

impl PartShape {
    /// Floats of a part.
    pub(super) fn len(self) -> usize {
        16 * (1 + self.columns)
    }

    /// Fills a part.
    pub(super) fn write(self, part: &mut [f32], m: f32, l: f32, o: &[[f32; 16]]) {
        let (head, outputs) = part.split_at_mut(16);
        (head[0], head[1]) = (m, l);
        outputs.copy_from_slice(o.as_flattened());
    }
}

/// Merges the parts of rows of one KV head.
pub(super) struct MergeParts<'a> {
    pub(super) level: Level,
    pub(super) shape: AttendShape,
    pub(super) segment: &'a AttendSegment<'a, KvPage>,
    pub(super) kv_head: usize,
    pub(super) rows: Range<usize>,
    pub(super) parts: &'a Shared<'a, f32>,
    /// The part of the first chunk and of row 0; parts are [chunk][row].
    pub(super) start: usize,
    pub(super) out: &'a Shared<'a, f32>,
}

impl MergeParts<'_> {
    pub(super) fn run(self) {
        let (columns, len) = (self.shape.part().columns, self.shape.part().len());
        let n = self.rows.len();
        let mut o = vec![[-0.0f32; 16]; n * columns];
        let mut running = Softmax::default();
        for chunk in 0..self.shape.chunks(self.segment).len() {
            let first = self.start + chunk * self.shape.rows(self.segment) + self.rows.start;
            // SAFETY: no other task reads or writes the parts of these rows.
            let parts = unsafe { self.parts.slice(first * len, n * len) }.as_chunks::<16>().0;
            let mut softmax = Softmax::default();
            for (row, part) in parts.chunks_exact(1 + columns).enumerate() {
                (softmax.m[row], softmax.l[row]) = (part[0][0], part[0][1]);
            }
            let turn = self.level.run(Merge { running: &mut running, chunk: &softmax, rows: n });
            self.level.run(MergeOutputs { turn: &turn, chunk: &softmax, parts, o: &mut o, columns });
        }
        for (i, (row, o)) in self.rows.clone().zip(o.chunks_exact(columns)).enumerate() {
            self.shape.store(self.segment, (self.kv_head, row), self.out, o, running.l[i]);
        }
    }
}

/// Merges the outputs of a chunk.
struct MergeOutputs<'a> {
    turn: &'a Turn,
    chunk: &'a Softmax,
    parts: &'a [[f32; 16]],
    o: &'a mut [[f32; 16]],
    columns: usize,
}

impl Kernel for MergeOutputs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let parts = self.parts.chunks_exact(1 + self.columns);
        for (row, (o, part)) in self.o.chunks_exact_mut(self.columns).zip(parts).enumerate() {
            if self.chunk.l[row] != 0.0 {
                for (o, part) in o.iter_mut().zip(&part[1..]) {
                    self.turn.outputs(isa, row, o, isa.load(part));
                }
            }
        }
    }
}

const _: () = assert!(BLOCK_ROWS.is_multiple_of(16), "softmaxes merge sixteen rows at a time");
