//! Rotary position embedding (rule 4) over rows of heads, from a table of cosines and sines.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;

/// Which two values of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// 2i and 2i+1 (GPT-J; llama in GGUF files).
    Adjacent,
    /// i and i + dims/2 (GPT-NeoX).
    Halves,
}

/// The shape of what is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RopeShape {
    /// Heads in a row.
    pub n_heads: usize,
    /// Values in a head.
    pub head_dim: usize,
    /// Leading values of a head that turn.
    pub dims: usize,
    /// How they pair up.
    pub pairs: RopePairs,
}

/// Turns x = [rows, n_heads, head_dim] in place; `table` = [rows, 2, dims/2]: cosines, then sines, of each row's position.
pub fn rope(pool: &Pool, level: Level, x: &mut [f32], table: &[f32], shape: RopeShape) {
    let (row, angles) = (shape.n_heads * shape.head_dim, shape.dims);
    assert_eq!(x.len() / row * angles, table.len(), "one table row for each row");
    let rows = x.len() / row;
    let shared = Shared::new(x);
    // A row is short work: several go together.
    let per_chunk = (8192 / row).max(1);
    pool.run(rows.div_ceil(per_chunk), &|_, chunk| {
        let first = chunk * per_chunk;
        let n = per_chunk.min(rows - first);
        // SAFETY: chunks do not overlap.
        let x = unsafe { shared.slice(first * row, n * row) };
        level.run(Rope { x, table: &table[first * angles..(first + n) * angles], shape });
    });
}

struct Rope<'a> {
    x: &'a mut [f32],
    table: &'a [f32],
    shape: RopeShape,
}

#[inline(always)]
fn turn(a: f32, b: f32, c: f32, s: f32) -> (f32, f32) {
    (a.mul_add(c, -(b * s)), a.mul_add(s, b * c))
}

impl Kernel for Rope<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, _isa: I) {
        let RopeShape { n_heads, head_dim, dims, pairs } = self.shape;
        let rows = self.x.chunks_exact_mut(n_heads * head_dim).zip(self.table.chunks_exact(dims));
        for (row, table) in rows {
            let (cos, sin) = table.split_at(dims / 2);
            for head in row.chunks_exact_mut(head_dim) {
                let turned = &mut head[..dims];
                match pairs {
                    RopePairs::Adjacent => {
                        for ((pair, c), s) in turned.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
                            (pair[0], pair[1]) = turn(pair[0], pair[1], *c, *s);
                        }
                    }
                    RopePairs::Halves => {
                        let (a, b) = turned.split_at_mut(dims / 2);
                        for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                            (*a, *b) = turn(*a, *b, *c, *s);
                        }
                    }
                }
            }
        }
    }
}
