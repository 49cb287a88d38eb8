//! Tile kernels: a panel of weights times the tokens of a block, tile by tile, onto running sums.
//!
//! A tile is up to four tokens (six with f32 activations) by sixteen rows. There is one kernel for each shape of format, not
//! for each format ([`kernel`] picks it). Each adds to its sums what rule 1 or 2 of docs/arithmetic.md says, k ascending, so
//! a row may be taken in any number of panels.

use crate::activations::{FloatBlock, QuantBlock, Rows, XPart, XRow};
use crate::isa::{Isa, Kernel, Level};
use crate::panel::{FloatPanel, Panel};

/// Runs `$body` with `$T` bound to the number of tokens in a tile.
macro_rules! with_tokens {
    ($tokens:expr, $T:ident, [$($n:literal)*] => $body:expr) => {
        match $tokens {
            $($n => {
                const $T: usize = $n;
                $body
            })*
            n => panic!("a tile of {n} tokens"),
        }
    };
}

/// What decides how a panel of integer codes is multiplied.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Codes are multiplied as unsigned bytes of at most this much; none where they are wide.
    pub(crate) largest_byte: Option<i32>,
    /// A power of two is to come off each byte.
    pub(crate) offset: bool,
    /// Halves have integer scales.
    pub(crate) subs: bool,
    /// Halves have float scales of their own.
    pub(crate) half_floats: bool,
    /// Minimums of a part: none, one or two.
    pub(crate) mins: usize,
}

impl Shape {
    /// How the offset comes off bytes of at most `largest`.
    pub(crate) const fn offset(&self, largest: i32) -> u8 {
        // Eight products meet in an i16 before the sums of a half are widened. Where they fit with their offset, it can
        // come off the finished sum of a part.
        let fits = 8 * largest * 127 <= i16::MAX as i32;
        match self.offset {
            false => NONE,
            true if fits && !self.subs && !self.half_floats => AT_END,
            true => AT_START,
        }
    }
}

/// Multiplies a panel by a block of tokens onto `sums[token]`.
pub(crate) type TileKernel = fn(Level, &Panel, QuantBlock<'_>, &mut [[f32; 16]]);

/// The kernel of a shape.
pub(crate) const fn kernel(shape: Shape) -> TileKernel {
    let Some(largest) = shape.largest_byte else {
        assert!(!shape.half_floats && shape.mins == 0, "no tile kernel has this shape");
        return wide;
    };
    match (shape.offset(largest), shape.subs, shape.half_floats, shape.mins) {
        (NONE, false, false, 1) => bytes::<NONE, false, false, 1>,
        (NONE, true, false, 2) => bytes::<NONE, true, false, 2>,
        (AT_END, false, false, 0) => bytes::<AT_END, false, false, 0>,
        (AT_START, true, false, 0) => bytes::<AT_START, true, false, 0>,
        (AT_START, false, true, 0) => bytes::<AT_START, false, true, 0>,
        _ => panic!("no tile kernel has this shape"),
    }
}

/// Bytes have no offset.
pub(crate) const NONE: u8 = 0;
/// The offset comes off the sum of a part.
pub(crate) const AT_END: u8 = 1;
/// The sum of a half begins at minus the offset's share.
pub(crate) const AT_START: u8 = 2;

fn bytes<const OFFSET: u8, const SUBS: bool, const HALVES: bool, const MINS: usize>(
    level: Level,
    panel: &Panel,
    x: QuantBlock<'_>,
    sums: &mut [[f32; 16]],
) {
    level.run(Bytes::<OFFSET, SUBS, HALVES, MINS> { panel, x, sums });
}

fn wide(level: Level, panel: &Panel, x: QuantBlock<'_>, sums: &mut [[f32; 16]]) {
    level.run(WideCodes { panel, x, sums });
}

/// A part of 32 k of sixteen rows, as a kernel reads it: from a panel, or from packed bytes where one token wants it.
pub(crate) trait Weights<I: Isa> {
    /// How the offset of the codes comes off: [`NONE`], [`AT_END`] or [`AT_START`].
    const OFFSET: u8;
    /// Halves have integer scales.
    const SUBS: bool;
    /// Halves have float scales of their own.
    const HALF_FLOATS: bool;
    /// Minimums: none, one or two.
    const MINS: usize;

    /// Four k of each row.
    fn codes(&self, isa: I, step: usize) -> I::B;
    /// The exponent of the offset.
    fn offset(&self) -> u32;
    /// Integer scales of a half.
    fn sub(&self, isa: I, half: usize) -> I::S;
    /// Float scales, of a half where halves have their own.
    fn d(&self, isa: I, half: usize) -> I::F;
    /// Minimums, of a half where halves have their own.
    fn min(&self, isa: I, half: usize) -> I::F;
}

/// Part `part` of a panel.
struct PanelPart<'a, const OFFSET: u8, const SUBS: bool, const HALVES: bool, const MINS: usize> {
    panel: &'a Panel,
    codes: &'a [[u8; 64]; 8],
    part: usize,
}

impl<I: Isa, const OFFSET: u8, const SUBS: bool, const HALVES: bool, const MINS: usize> Weights<I>
    for PanelPart<'_, OFFSET, SUBS, HALVES, MINS>
{
    const OFFSET: u8 = OFFSET;
    const SUBS: bool = SUBS;
    const HALF_FLOATS: bool = HALVES;
    const MINS: usize = MINS;

    #[inline(always)]
    fn codes(&self, isa: I, step: usize) -> I::B {
        isa.load_bytes(&self.codes[step])
    }
    #[inline(always)]
    fn offset(&self) -> u32 {
        self.panel.offset
    }
    #[inline(always)]
    fn sub(&self, isa: I, half: usize) -> I::S {
        isa.load_scales(&self.panel.sub[2 * self.part + half])
    }
    #[inline(always)]
    fn d(&self, isa: I, half: usize) -> I::F {
        isa.load(&self.panel.d[2 * self.part + half])
    }
    #[inline(always)]
    fn min(&self, isa: I, half: usize) -> I::F {
        isa.load(&self.panel.min[2 * self.part + half])
    }
}

/// Codes as bytes.
struct Bytes<'a, const OFFSET: u8, const SUBS: bool, const HALVES: bool, const MINS: usize> {
    panel: &'a Panel,
    x: QuantBlock<'a>,
    sums: &'a mut [[f32; 16]],
}

impl<const OFFSET: u8, const SUBS: bool, const HALVES: bool, const MINS: usize> Kernel
    for Bytes<'_, OFFSET, SUBS, HALVES, MINS>
{
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let parts = self.panel.codes.as_chunks::<8>().0;
        for tile in self.x.tiles() {
            with_tokens!(tile.tokens, T, [1 2 3 4] => {
                let sums = &mut self.sums[tile.first..].as_chunks_mut::<T>().0[0];
                for (part, (codes, x)) in parts.iter().zip(tile.parts::<T>()).enumerate() {
                    let w = PanelPart::<OFFSET, SUBS, HALVES, MINS> { panel: self.panel, codes, part };
                    byte_part::<I, _, T>(isa, &w, x, sums);
                }
            });
        }
    }
}

/// Adds the products of a part whose codes are bytes.
#[inline(always)]
pub(crate) fn byte_part<I: Isa, W: Weights<I>, const T: usize>(
    isa: I,
    weights: &W,
    x: &XPart<T>,
    sums: &mut [[f32; 16]; T],
) {
    let mut isum = [isa.splat_i32(0); T];
    if W::OFFSET == AT_END {
        let less = x.row(XRow::MinusSum);
        for t in 0..T {
            isum[t] = isa.shl_i32(isa.splat_i32(less[t]), weights.offset());
        }
    }
    for half in 0..2 {
        let mut acc = [isa.acc_zero(); T];
        if W::OFFSET == AT_START {
            let pairs = x.row(XRow::minus_pairs(half));
            for t in 0..T {
                acc[t] = isa.acc_start(pairs[t], weights.offset());
            }
        }
        for step in 4 * half..4 * half + 4 {
            let w = weights.codes(isa, step);
            let q = x.row(XRow::codes(step));
            for t in 0..T {
                acc[t] = isa.acc_mac(acc[t], w, q[t]);
            }
            if T > 1 {
                for t in 0..T {
                    acc[t] = isa.keep_order(acc[t]);
                }
            }
        }
        flush_half(isa, weights, half, x, &acc, &mut isum);
        if W::HALF_FLOATS {
            add_scaled(isa, weights.d(isa, half), &[], x, &mut isum, sums);
        }
    }
    if !W::HALF_FLOATS {
        let d = weights.d(isa, 0);
        match W::MINS {
            0 => add_scaled(isa, d, &[], x, &mut isum, sums),
            1 => add_scaled(isa, d, &[(weights.min(isa, 0), XRow::Sum)], x, &mut isum, sums),
            _ => {
                let mins =
                    [(weights.min(isa, 0), XRow::half_sum(0)), (weights.min(isa, 1), XRow::half_sum(1))];
                add_scaled(isa, d, &mins, x, &mut isum, sums);
            }
        }
    }
}

/// Adds the sums of a half, times their integer scales.
#[inline(always)]
fn flush_half<I: Isa, W: Weights<I>, const T: usize>(
    isa: I,
    weights: &W,
    half: usize,
    x: &XPart<T>,
    acc: &[I::A; T],
    isum: &mut [I::I; T],
) {
    let x_sub = x.row(XRow::sub(half));
    for t in 0..T {
        let mut scale = isa.splat_scale(x_sub[t]);
        if W::SUBS {
            scale = isa.mul_scales(weights.sub(isa, half), scale);
        }
        isum[t] = isa.flush(isum[t], acc[t], scale);
    }
}

/// `sums += (d dx) isum`, then `sums += min x` for each minimum with its row of x; leaves isum at zero.
#[inline(always)]
fn add_scaled<I: Isa, const T: usize>(
    isa: I,
    d: I::F,
    mins: &[(I::F, XRow)],
    x: &XPart<T>,
    isum: &mut [I::I; T],
    sums: &mut [[f32; 16]; T],
) {
    for t in 0..T {
        let scale = isa.mul(d, splat(isa, x, XRow::Scale, t));
        let mut sum = isa.fma(scale, isa.to_f32(isum[t]), isa.load(&sums[t]));
        for (min, row) in mins {
            sum = isa.fma(*min, splat(isa, x, *row, t), sum);
        }
        isa.store(sum, &mut sums[t]);
        isum[t] = isa.splat_i32(0);
    }
}

/// The float of token `t` in a row, in all lanes.
#[inline(always)]
fn splat<I: Isa, const T: usize>(isa: I, x: &XPart<T>, row: XRow, t: usize) -> I::F {
    isa.splat(f32::from_bits(x.row(row)[t] as u32))
}

/// Adds the products of a part whose codes are wide, read as signed bytes: for one token, where making pairs would not pay.
#[inline(always)]
pub(crate) fn wide_part<I: Isa, W: Weights<I>>(isa: I, weights: &W, x: &XPart<1>, sums: &mut [[f32; 16]; 1]) {
    let mut isum = [isa.splat_i32(0)];
    for half in 0..2 {
        let mut scale = isa.splat_scale(x.row(XRow::sub(half))[0]);
        if W::SUBS {
            scale = isa.mul_scales(weights.sub(isa, half), scale);
        }
        for step in 4 * half..4 * half + 4 {
            isum[0] = isa.dot_i8(isum[0], weights.codes(isa, step), x.row(XRow::codes(step))[0], scale);
        }
    }
    add_scaled(isa, weights.d(isa, 0), &[], x, &mut isum, sums);
}

/// Codes too wide for sums of unsigned bytes in sixteen bits. The panel's pairs have the integer scales of halves in them.
struct WideCodes<'a> {
    panel: &'a Panel,
    x: QuantBlock<'a>,
    sums: &'a mut [[f32; 16]],
}

impl Kernel for WideCodes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for tile in self.x.tiles() {
            with_tokens!(tile.tokens, T, [1 2 3 4] => {
                let sums = &mut self.sums[tile.first..].as_chunks_mut::<T>().0[0];
                for (part, x) in tile.parts::<T>().iter().enumerate() {
                    pair_part::<I, T>(isa, self.panel, part, x, sums);
                }
            });
        }
    }
}

/// Adds the products of a part whose codes and activations are pairs of i16.
#[inline(always)]
fn pair_part<I: Isa, const T: usize>(
    isa: I,
    panel: &Panel,
    part: usize,
    x: &XPart<T>,
    sums: &mut [[f32; 16]; T],
) {
    let codes = &panel.codes.as_chunks::<16>().0[part];
    let mut isum = [isa.splat_i32(0); T];
    for step in 0..16 {
        let w = isa.load_bytes(&codes[step]);
        let pairs = x.row(XRow::pair(step));
        for t in 0..T {
            isum[t] = isa.mac_pairs(isum[t], w, pairs[t]);
        }
        for t in 0..T {
            isum[t] = isa.keep_order_i32(isum[t]);
        }
    }
    add_scaled(isa, isa.load(&panel.d[2 * part]), &[], x, &mut isum, sums);
}

/// Rule 2: a panel of floats times f32 activations, onto `sums[token]`.
pub(crate) struct Floats<'a> {
    pub(crate) panel: &'a FloatPanel,
    pub(crate) x: FloatBlock<'a>,
    pub(crate) sums: &'a mut [[f32; 16]],
}

impl Kernel for Floats<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for tile in self.x.tiles() {
            with_tokens!(tile.tokens, T, [1 2 3 4 5 6] => {
                let sums = &mut self.sums[tile.first..].as_chunks_mut::<T>().0[0];
                let mut acc = [isa.splat(0.0); T];
                for t in 0..T {
                    acc[t] = isa.load(&sums[t]);
                }
                for (w, x) in self.panel.0.iter().zip(tile.x::<T>()) {
                    let w = isa.load(w);
                    for t in 0..T {
                        acc[t] = isa.fma(w, isa.splat(x[t]), acc[t]);
                    }
                }
                for t in 0..T {
                    isa.store(acc[t], &mut sums[t]);
                }
            });
        }
    }
}
