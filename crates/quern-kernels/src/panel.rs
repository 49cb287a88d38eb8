//! Panels: a few hundred weights of sixteen rows, unpacked, which the tiles of a batch share.
//!
//! What differs between number formats ends here. A panel holds what the multiply-add instructions take, so one set of tile
//! kernels (tiles.rs) serves every format, and the price of unpacking is paid once for up to [`BLOCK_TOKENS`] tokens.

use crate::activations::{FLOAT_TILE_TOKENS, TILE_TOKENS};

/// Parts of 32 k in a panel, at most.
pub(crate) const PANEL_PARTS: usize = 8;

/// k of a panel, at most.
pub(crate) const PANEL_K: usize = 32 * PANEL_PARTS;

/// Tokens that share one unpacking: their sums of one strip take four KiB.
pub(crate) const BLOCK_TOKENS: usize = 64;

/// The same where f32 activations are held: whole tiles of both kinds.
pub(crate) const FLOAT_BLOCK_TOKENS: usize = 60;

const _: () = assert!(
    BLOCK_TOKENS.is_multiple_of(TILE_TOKENS)
        && FLOAT_BLOCK_TOKENS.is_multiple_of(TILE_TOKENS)
        && FLOAT_BLOCK_TOKENS.is_multiple_of(FLOAT_TILE_TOKENS)
        && FLOAT_BLOCK_TOKENS <= BLOCK_TOKENS
);

/// Unpacked weights with integer codes.
#[repr(align(64))]
pub(crate) struct Panel {
    /// By part: eight steps of bytes (four k of each row), or sixteen steps of pairs (two k of each row as i16).
    pub(crate) codes: [[u8; 64]; 16 * PANEL_PARTS],
    /// By part and half: the float scales with what belongs to them. Half 1 counts only where halves have scales of their own.
    pub(crate) d: [[f32; 16]; 2 * PANEL_PARTS],
    /// By part and half: the minimums. Half 1 counts only where halves have minimums of their own.
    pub(crate) min: [[f32; 16]; 2 * PANEL_PARTS],
    /// By part and half: the integer scales of halves, as [`crate::isa::Isa::save_scales`] lays them down.
    pub(crate) sub: [[u8; 64]; 2 * PANEL_PARTS],
    /// Each byte stands for this much less than itself, as a power of two.
    pub(crate) offset: u32,
}

impl Panel {
    pub(crate) fn new() -> Panel {
        Panel {
            codes: [[0; 64]; 16 * PANEL_PARTS],
            d: [[0.0; 16]; 2 * PANEL_PARTS],
            min: [[0.0; 16]; 2 * PANEL_PARTS],
            sub: [[0; 64]; 2 * PANEL_PARTS],
            offset: 0,
        }
    }
}

/// Weights decoded to floats: sixteen rows for each k.
#[repr(align(64))]
pub(crate) struct FloatPanel(pub(crate) [[f32; 16]; PANEL_K]);

impl FloatPanel {
    pub(crate) fn new() -> FloatPanel {
        FloatPanel([[0.0; 16]; PANEL_K])
    }
}
