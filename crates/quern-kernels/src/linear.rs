//! Linear layers: packed weights times a batch of rows, split over the pool by strips of sixteen output rows.
//!
//! Every output element is one chain over k, so neither the split, the tile shapes nor the batch can change its bits.

use crate::activations::{Activations, Forms};
use crate::formats::{FormatOps, STRIP_ROWS, Strip};
use crate::isa::{Isa, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use quern_gguf::TensorType;
use quern_platform::AlignedBytes;

/// Why a matrix cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// No kernels for the type.
    #[error("tensor type {} has no kernels yet", .0.name())]
    Type(TensorType),
    /// The memory cannot be had.
    #[error(transparent)]
    Memory(#[from] quern_platform::PlatformError),
    /// The bytes do not hold that shape.
    #[error("{n_rows} rows of {n_cols} {} values do not make {bytes} bytes", .ty.name())]
    Shape {
        /// Type.
        ty: TensorType,
        /// Rows.
        n_rows: usize,
        /// Columns.
        n_cols: usize,
        /// Bytes at hand.
        bytes: usize,
    },
}

/// A weight matrix [n_rows, n_cols] in strips of sixteen rows. A missing row of the last strip is zero.
pub struct PackedMatrix {
    ops: &'static FormatOps,
    n_rows: usize,
    n_cols: usize,
    bytes: AlignedBytes,
    strip_bytes: usize,
    code_bytes: usize,
    scale_bytes: usize,
}

impl PackedMatrix {
    /// Packs GGUF rows.
    pub fn pack(
        pool: &Pool,
        ty: TensorType,
        n_rows: usize,
        n_cols: usize,
        raw: &[u8],
    ) -> Result<PackedMatrix, PackError> {
        let ops = crate::formats::format(ty).ok_or(PackError::Type(ty))?;
        let row_bytes = ops.row_bytes(n_cols);
        if !n_cols.is_multiple_of(ops.unit_k) || n_rows.checked_mul(row_bytes) != Some(raw.len()) {
            return Err(PackError::Shape { ty, n_rows, n_cols, bytes: raw.len() });
        }
        let units = n_cols / ops.unit_k;
        let (code_bytes, scale_bytes) = (units * ops.code_bytes, units * ops.scale_bytes);
        let strip_bytes = (code_bytes + scale_bytes).next_multiple_of(64);
        let n_strips = n_rows.div_ceil(STRIP_ROWS);
        let mut bytes = AlignedBytes::zeroed(n_strips * strip_bytes)?;
        let out = Shared::new(bytes.as_mut_slice());
        pool.run(n_strips, &|_, strip| {
            // SAFETY: strips do not overlap, and each is taken by one chunk.
            let out = unsafe { out.slice(strip * strip_bytes, strip_bytes) };
            let (codes, rest) = out.split_at_mut(code_bytes);
            for unit in 0..units {
                let block_bytes = row_bytes / units;
                let blocks = std::array::from_fn(|r| {
                    let row = strip * STRIP_ROWS + r;
                    if row < n_rows {
                        &raw[row * row_bytes + unit * block_bytes..][..block_bytes]
                    } else {
                        &[]
                    }
                });
                (ops.pack)(
                    &blocks,
                    &mut codes[unit * ops.code_bytes..(unit + 1) * ops.code_bytes],
                    &mut rest[unit * ops.scale_bytes..(unit + 1) * ops.scale_bytes],
                );
            }
        });
        Ok(PackedMatrix { ops, n_rows, n_cols, bytes, strip_bytes, code_bytes, scale_bytes })
    }

    /// Output rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Input columns.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// The format it came from.
    pub fn ty(&self) -> TensorType {
        self.ops.ty
    }

    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The form of activations it takes when int8 is asked for (`int8`), or not.
    pub fn form(&self, int8: bool) -> Forms {
        let quantized = int8 && self.ops.integer.is_some();
        Forms { quantized, float: !quantized }
    }

    fn n_strips(&self) -> usize {
        self.n_rows.div_ceil(STRIP_ROWS)
    }

    fn strip(&self, index: usize) -> Strip<'_> {
        let bytes = &self.bytes.as_slice()[index * self.strip_bytes..(index + 1) * self.strip_bytes];
        let (codes, rest) = bytes.split_at(self.code_bytes);
        Strip { codes, scales: &rest[..self.scale_bytes] }
    }
}

/// One product of a set that shares its activations: `out = x W^T (* scale) (+ bias)`.
pub struct Product<'a> {
    /// Weights.
    pub weight: &'a PackedMatrix,
    /// What the whole tensor is to be multiplied by, where its file says so (NVFP4): applied to every finished sum.
    pub scale: Option<f32>,
    /// Added to every finished row, n_rows values.
    pub bias: Option<&'a [f32]>,
    /// [rows, n_rows]
    pub out: &'a mut [f32],
}

/// Where a strip's results go.
pub struct StripOut<'a> {
    out: &'a Shared<'a, f32>,
    scale: Option<f32>,
    bias: Option<&'a [f32]>,
    /// Row length of `out`.
    stride: usize,
    first: usize,
    /// Rows of the strip that exist.
    valid: usize,
}

impl StripOut<'_> {
    /// Stores sixteen outputs of `T` batch rows from `first_row`.
    #[inline(always)]
    pub(crate) fn store<I: Isa, const T: usize>(&self, isa: I, first_row: usize, acc: &[I::F; T]) {
        for (t, v) in acc.iter().enumerate() {
            let v = self.scale.map_or(*v, |scale| isa.mul(*v, isa.splat(scale)));
            let mut lanes = [0.0; STRIP_ROWS];
            isa.store(v, &mut lanes);
            // SAFETY: this strip's columns of this row belong to the one chunk that computes the strip.
            let out = unsafe { self.out.slice((first_row + t) * self.stride + self.first, self.valid) };
            match self.bias {
                None => out.copy_from_slice(&lanes[..self.valid]),
                Some(bias) => {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = lanes[i] + bias[self.first + i];
                    }
                }
            }
        }
    }
}

/// Weight bytes that a chunk of work should at least read: less costs more in claims than it evens out.
const CHUNK_BYTES: usize = 32 << 10;

/// Multiplies `x` by every product's weights, in one parallel region.
///
/// `x` must hold the forms that the weights take; `int8` chooses between them where a weight takes either.
pub fn linear(pool: &Pool, level: Level, x: &Activations, int8: bool, products: &mut [Product<'_>]) {
    struct Part<'a> {
        weight: &'a PackedMatrix,
        scale: Option<f32>,
        bias: Option<&'a [f32]>,
        out: Shared<'a, f32>,
        strips_per_chunk: usize,
        first_chunk: usize,
    }
    let mut n_chunks = 0;
    // At most a handful of products share an input (q, k, v; gate, up).
    let mut parts: [Option<Part<'_>>; MAX_PRODUCTS] = Default::default();
    assert!(products.len() <= MAX_PRODUCTS, "{} products share one input", products.len());
    for (part, product) in parts.iter_mut().zip(products) {
        let weight = product.weight;
        assert_eq!(weight.n_cols, x.cols(), "weight columns against activation columns");
        assert_eq!(product.out.len(), x.rows() * weight.n_rows, "output length");
        let busy = weight.strip_bytes * x.rows().min(8);
        let strips_per_chunk =
            (CHUNK_BYTES / busy.max(1)).clamp(1, weight.n_strips().div_ceil(4 * pool.threads()).max(1));
        *part = Some(Part {
            weight,
            scale: product.scale,
            bias: product.bias,
            out: Shared::new(&mut *product.out),
            strips_per_chunk,
            first_chunk: n_chunks,
        });
        n_chunks += weight.n_strips().div_ceil(strips_per_chunk);
    }
    pool.run(n_chunks, &|_, chunk| {
        let Some(part) = parts.iter().flatten().rfind(|p| p.first_chunk <= chunk) else { return };
        let first = (chunk - part.first_chunk) * part.strips_per_chunk;
        let last = (first + part.strips_per_chunk).min(part.weight.n_strips());
        for index in first..last {
            let first_row = index * STRIP_ROWS;
            let out = StripOut {
                out: &part.out,
                scale: part.scale,
                bias: part.bias,
                stride: part.weight.n_rows,
                first: first_row,
                valid: STRIP_ROWS.min(part.weight.n_rows - first_row),
            };
            let strip = part.weight.strip(index);
            match &part.weight.ops.integer {
                Some(integer) if int8 => (integer.strip)(level, strip, x, &out),
                _ => part.weight.ops.float_strip(level, strip, x, &out),
            }
        }
    });
}

/// Most products that may share one input.
pub const MAX_PRODUCTS: usize = 8;
