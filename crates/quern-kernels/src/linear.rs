//! Linear layers: packed weights times a batch of rows, split over the pool by strips of sixteen output rows.
//!
//! Every output element is one chain over k, so neither the split, the tile shapes nor the batch can change its bits.
//!
//! A chunk of work is some strips times a block of tokens. One token is multiplied straight from the packed bytes, which is
//! bound by reading them. More tokens share panels: a few hundred k of a strip are unpacked into the first-level cache, then
//! every tile of the block is multiplied by them (tiles.rs).

use crate::activations::{Activations, Forms};
use crate::formats::{FormatOps, IntegerOps, STRIP_ROWS, Strip};
use crate::isa::Level;
use crate::panel::{BLOCK_TOKENS, FLOAT_BLOCK_TOKENS, FloatPanel, PANEL_K, PANEL_PARTS, Panel};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::tiles::Floats;
use quern_gguf::TensorType;
use quern_platform::AlignedBytes;
use std::cell::RefCell;
use std::ops::Range;

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

    /// The form of activations it takes for `rows` rows, with int8 activations where it can (`int8`), or without.
    pub fn form(&self, rows: usize, int8: bool) -> Forms {
        match &self.ops.integer {
            Some(ops) if int8 => {
                let pairs = takes_pairs(ops, rows);
                Forms { bytes: !pairs, pairs, float: false }
            }
            _ => Forms { float: true, ..Forms::default() },
        }
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

/// Whether `rows` rows are multiplied as pairs of i16.
fn takes_pairs(ops: &IntegerOps, rows: usize) -> bool {
    ops.wide && rows > 1
}

/// A product as the threads see it.
struct Part<'a> {
    weight: &'a PackedMatrix,
    scale: Option<f32>,
    bias: Option<&'a [f32]>,
    out: Shared<'a, f32>,
    strips_per_chunk: usize,
    /// Chunks of strips.
    n_groups: usize,
    first_chunk: usize,
}

impl Part<'_> {
    /// Stores sixteen finished sums of batch row `row` as the outputs from `first` on.
    fn store(&self, row: usize, first: usize, sums: &[f32; STRIP_ROWS]) {
        let n_rows = self.weight.n_rows;
        let valid = STRIP_ROWS.min(n_rows - first);
        // SAFETY: these columns of this row belong to the one chunk that computes the strip for the row.
        let out = unsafe { self.out.slice(row * n_rows + first, valid) };
        match out.as_chunks_mut() {
            ([whole], []) => *whole = *sums,
            _ => out.copy_from_slice(&sums[..valid]),
        }
        if let Some(scale) = self.scale {
            out.iter_mut().for_each(|out| *out *= scale);
        }
        if let Some(bias) = self.bias {
            for (out, bias) in out.iter_mut().zip(&bias[first..]) {
                *out += bias;
            }
        }
    }

    /// Multiplies the strips `strips` by the tokens `tokens`.
    fn multiply(
        &self,
        level: Level,
        x: &Activations,
        int8: bool,
        strips: Range<usize>,
        tokens: Range<usize>,
    ) {
        match &self.weight.ops.integer {
            Some(ops) if int8 && x.rows() == 1 => {
                for index in strips {
                    let sums = (ops.row)(level, self.weight.strip(index), x.quant(false, 0..1));
                    self.store(0, index * STRIP_ROWS, &sums);
                }
            }
            Some(ops) if int8 => {
                let block = x.quant(takes_pairs(ops, x.rows()), tokens.clone());
                let n_parts = x.cols() / 32;
                self.by_panels(strips, tokens, |scratch, strip, sums| {
                    for first in (0..n_parts).step_by(PANEL_PARTS) {
                        let parts = PANEL_PARTS.min(n_parts - first);
                        (ops.unpack)(level, strip, first, parts, &mut scratch.codes);
                        (ops.tiles)(level, &scratch.codes, block.parts(first, parts), sums);
                    }
                });
            }
            _ => {
                let block = x.float(tokens.clone());
                self.by_panels(strips, tokens, |scratch, strip, sums| {
                    for first in (0..x.cols()).step_by(PANEL_K) {
                        let cols = PANEL_K.min(x.cols() - first);
                        (self.weight.ops.widen)(level, strip, first, &mut scratch.floats.0[..cols]);
                        level.run(Floats {
                            panel: &scratch.floats,
                            x: block.cols(first, cols),
                            sums: &mut *sums,
                        });
                    }
                });
            }
        }
    }

    /// Lets `sum` add up the products of each strip with each token.
    fn by_panels(
        &self,
        strips: Range<usize>,
        tokens: Range<usize>,
        mut sum: impl FnMut(&mut Scratch, Strip<'_>, &mut [[f32; 16]]),
    ) {
        SCRATCH.with_borrow_mut(|scratch| {
            for index in strips {
                let mut sums = [[0.0; 16]; BLOCK_TOKENS];
                sum(scratch, self.weight.strip(index), &mut sums[..tokens.len()]);
                for (row, sums) in tokens.clone().zip(&sums) {
                    self.store(row, index * STRIP_ROWS, sums);
                }
            }
        });
    }
}

/// What a thread unpacks into.
struct Scratch {
    codes: Panel,
    floats: FloatPanel,
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> =
        RefCell::new(Box::new(Scratch { codes: Panel::new(), floats: FloatPanel::new() }));
}

/// Weight bytes that a chunk of work should at least read: less costs more in claims than it evens out.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks a thread should get of a product at least, so that a slow one can be helped out.
const CHUNKS_PER_THREAD: usize = 6;

/// Strips that a block of tokens is multiplied by while it is in the second-level cache.
const GROUP_STRIPS: usize = 8;

/// Multiplies `x` by every product's weights, in one parallel region.
///
/// `x` must hold the forms that the weights take; `int8` chooses between them where a weight takes either.
pub fn linear(pool: &Pool, level: Level, x: &Activations, int8: bool, products: &mut [Product<'_>]) {
    let block_tokens = if x.forms().float { FLOAT_BLOCK_TOKENS } else { BLOCK_TOKENS };
    let n_blocks = x.rows().div_ceil(block_tokens);
    let mut n_chunks = 0;
    // At most a handful of products share an input (q, k, v; gate, up).
    let mut parts: [Option<Part<'_>>; MAX_PRODUCTS] = Default::default();
    assert!(products.len() <= MAX_PRODUCTS, "{} products share one input", products.len());
    for (part, product) in parts.iter_mut().zip(products) {
        let weight = product.weight;
        assert_eq!(weight.n_cols, x.cols(), "weight columns against activation columns");
        assert_eq!(product.out.len(), x.rows() * weight.n_rows, "output length");
        let wanted = if x.rows() > 1 { GROUP_STRIPS } else { CHUNK_BYTES / weight.strip_bytes.max(1) };
        let most = (weight.n_strips() * n_blocks).div_ceil(CHUNKS_PER_THREAD * pool.threads());
        let strips_per_chunk = wanted.clamp(1, most.max(1));
        let n_groups = weight.n_strips().div_ceil(strips_per_chunk);
        *part = Some(Part {
            weight,
            scale: product.scale,
            bias: product.bias,
            out: Shared::new(&mut *product.out),
            strips_per_chunk,
            n_groups,
            first_chunk: n_chunks,
        });
        n_chunks += n_groups * n_blocks;
    }
    pool.run(n_chunks, &|_, chunk| {
        let Some(part) = parts.iter().flatten().rfind(|p| p.first_chunk <= chunk) else { return };
        let (block, group) =
            ((chunk - part.first_chunk) / part.n_groups, (chunk - part.first_chunk) % part.n_groups);
        let first = group * part.strips_per_chunk;
        let strips = first..(first + part.strips_per_chunk).min(part.weight.n_strips());
        let first_token = block * block_tokens;
        part.multiply(level, x, int8, strips, first_token..(first_token + block_tokens).min(x.rows()));
    });
}

/// Most products that may share one input.
pub const MAX_PRODUCTS: usize = 8;
