//! Number formats, dot products, attention, norms, RoPE, the thread pool and the ISA layer.
//!
//! Everything that turns floats into other floats on a CPU lives here, and follows docs/arithmetic.md to the last bit:
//! a result depends neither on the thread count, nor on the batch a row travels in, nor on the instruction set.
//! Nothing here knows of models, files or requests; nothing does I/O.

#![allow(unsafe_code)]
// A kernel walks lanes, tokens and vectors of several arrays at once: an index is the plain form of that.
#![allow(clippy::needless_range_loop)]

pub mod activations;
pub mod attention;
pub mod formats;
pub mod isa;
pub mod kv;
pub mod linear;
pub mod math;
pub mod norm;
mod panel;
pub mod pool;
pub mod recurrent;
pub mod rope;
mod shared;
mod tiles;
pub mod vector;

/// Version of the canonical arithmetic (docs/arithmetic.md). A change to any rule bumps it and remakes every committed
/// logits hash.
pub const NUMERICS: u32 = 2;
