//! What the formats with integer codes share: packing, decode and the canonical dot, written once.
//!
//! A format says through [`Blocks`] where a block holds its codes and scales. Here every such format is
//! `w = d sub v + m min`: d and m floats; v the integer that a code stands for; sub and min integers for 32 or 16
//! weights, where a format has them.
//!
//! # Packed
//! A unit is cut into parts of 32 k. A part's codes take [`Blocks::BITS`] bits each, so 64 bytes a bit for sixteen rows:
//! a plane of the low bits (whole bytes, nibbles or pairs), then one of the bits above. In a plane of `width` bits step
//! s lies at bit `s width % 8` of the 64 bytes `s width / 8`. Codes that stand for table entries are looked up as they
//! are read, so the IQ1, IQ2 and IQ3 formats take 4.3 to 4.6 bits a weight in memory, scales included, for the 1.6 to 3.4
//! of their files.
//! The scales of sixteen rows: the floats d and m (32 bytes each), then for each part the bytes of sub and of min (16
//! bytes each).
//!
//! # Bounds
//! Held by the assertions of `Bounds` and met by the extremes in tests/formats.rs. Activation codes are at most 127,
//! their sub-scales at most 64.
//! - Values of at most 32 are multiplied as unsigned bytes: a pair of products fits an i16 before the offset comes off,
//!   and the eight products that meet in one i16 sum over a half come to at most 8 * 32 * 127 = 32512 once it is off.
//!   Where the bytes with their offset stay below 33, the offset comes off the sum of a part instead.
//! - Larger values are wide. For one token they are multiplied signed and widened every step: a pair is at most
//!   2 * 128 * 127. For more they go as i16, times sub where halves have one, by codes times sub-scales (127 * 64).
//! - sub times an activation sub-scale is at most 128 * 64, which an i16 holds, and the integer sum of 32 weights at
//!   most 32 * 43 * 127 * 128 * 64 (IQ2), which an i32 holds.
//!
//! d sub and m min are exact as f32: eleven bits times eight.

use super::*;

/// What a code stands for.
pub(super) enum Values {
    /// The code.
    Unsigned,
    /// The code less 2^n.
    Offset(u32),
    /// The code as i8.
    Signed,
    /// Entry `code` of a table.
    Table([i8; 16]),
}

impl Values {
    const fn of(&self, code: u8) -> i32 {
        match self {
            Values::Unsigned => code as i32,
            Values::Offset(n) => code as i32 - (1 << *n),
            Values::Signed => code as i8 as i32,
            Values::Table(table) => table[code as usize] as i32,
        }
    }

    /// The largest magnitude.
    const fn largest(&self, bits: usize) -> i32 {
        let (mut largest, mut code) = (0, 0);
        while code < 1 << bits {
            let v = self.of(code as u8).abs();
            largest = if v > largest { v } else { largest };
            code += 1;
        }
        largest
    }

    /// Where values are multiplied as unsigned bytes: the n of 2^n that is added to them for it, if any.
    pub(super) const fn unsigned(&self) -> Option<Option<u32>> {
        match self {
            Values::Unsigned => Some(None),
            Values::Offset(n) => Some(Some(*n)),
            Values::Table(_) if self.largest(4) <= 16 => Some(Some(4)),
            Values::Table(_) if self.largest(4) <= 32 => Some(Some(5)),
            _ => None,
        }
    }

    /// The largest value as it is multiplied, where that is as an unsigned byte.
    const fn largest_byte(&self, bits: usize) -> Option<i32> {
        let Some(offset) = self.unsigned() else { return None };
        let add = if let Some(n) = offset { 1 << n } else { 0 };
        let (mut largest, mut code) = (0, 0);
        while code < 1 << bits {
            let v = self.of(code as u8) + add;
            largest = if v > largest { v } else { largest };
            code += 1;
        }
        Some(largest)
    }

    /// The table as it is multiplied.
    pub(super) const fn table(&self) -> Option<[u8; 16]> {
        let Values::Table(table) = self else { return None };
        let add = if let Some(Some(n)) = self.unsigned() { 1 << n } else { 0 };
        let (mut bytes, mut i) = ([0; 16], 0);
        while i < 16 {
            bytes[i] = (table[i] as i32 + add) as u8;
            i += 1;
        }
        Some(bytes)
    }
}

/// The scales of 32 weights, as a block holds them. What a format has not stays zero.
#[derive(Default)]
pub(super) struct PartScales {
    /// Bits of the float scale of each half.
    pub(super) d: [u16; 2],
    /// Bits of the float scale of the minimums, with the sign that lets them be added.
    pub(super) m: u16,
    /// Integer scales.
    pub(super) sub: [i8; 2],
    /// Integer minimums.
    pub(super) min: [u8; 2],
}

/// A format with integer codes, as data.
pub(super) trait Blocks: 'static {
    /// The GGUF type.
    const TYPE: TensorType;
    /// Bits of a packed code: 2, 3, 4, 5, 6 or 8.
    const BITS: usize;
    /// What a code stands for.
    const VALUES: Values;
    /// A power of two that belongs to every d.
    const FACTOR: f32 = 1.0;
    /// Floats are bfloat16, not half floats.
    const BFLOAT: bool = false;
    /// Each half has a float scale of its own.
    const HALF_FLOATS: bool = false;
    /// Integer scales of 32 weights: none, one that joins d, or two that multiply the integer sums.
    const SUBS: usize = 0;
    /// Integer minimums of 32 weights: none and m is the minimum, one, or two. None where there is no minimum.
    const MINS: Option<usize> = None;

    /// The codes of weights 32 `part` and on.
    fn codes(block: &[u8], part: usize) -> [u8; 32];
    /// Their scales.
    fn scales(block: &[u8], part: usize) -> PartScales;
}

/// The bounds of the module's head, as checks of each format.
struct Bounds<B>(PhantomData<B>);

impl<B: Blocks> Bounds<B> {
    const HOLD: () = {
        let largest = B::VALUES.largest(B::BITS) as i64;
        assert!(B::VALUES.unsigned().is_none() || 8 * largest * 127 <= i16::MAX as i64);
        assert!(B::VALUES.unsigned().is_none() || B::BITS < 8);
        let sub = if B::SUBS == 2 { 128 } else { 1 };
        assert!(largest * sub <= i16::MAX as i64);
        assert!(64 * sub <= i16::MAX as i64 && 32 * largest * 127 * 64 * sub <= i32::MAX as i64);
    };
}

/// Sizes of a format's packed parts.
pub(super) struct Packed<B>(PhantomData<B>);

impl<B: Blocks> Packed<B> {
    pub(super) const PARTS: usize = B::TYPE.block_len() as usize / 32;
    pub(super) const CODE_BYTES: usize = 64 * B::BITS;
    /// Bits of the low plane.
    pub(super) const LOW: usize = match B::BITS {
        2 | 3 => 2,
        8 => 8,
        _ => 4,
    };
    /// Float scales of a unit, d and m.
    pub(super) const N_D: usize = if B::HALF_FLOATS { 2 * Self::PARTS } else { 1 };
    const N_FLOATS: usize = Self::N_D + B::MINS.is_some() as usize;
    /// Integer vectors of a part, sub and min.
    const N_MINS: usize = if let Some(n) = B::MINS { n } else { 0 };
    const N_INTS: usize = B::SUBS + Self::N_MINS;

    /// 2^n is to come off a byte: n, zero where there is no offset as well.
    pub(super) const OFFSET: u32 = match B::VALUES.unsigned() {
        Some(Some(n)) => n,
        _ => 0,
    };
    /// What decides how it is multiplied.
    pub(super) const SHAPE: Shape = {
        let () = Bounds::<B>::HOLD;
        Shape {
            largest_byte: B::VALUES.largest_byte(B::BITS),
            offset: matches!(B::VALUES.unsigned(), Some(Some(_))),
            subs: B::SUBS == 2,
            half_floats: B::HALF_FLOATS,
            mins: match B::MINS {
                None => 0,
                Some(2) => 2,
                Some(_) => 1,
            },
        }
    };

    /// Where the d of `half` of part `part` lies.
    pub(super) const fn d_at(part: usize, half: usize) -> usize {
        if B::HALF_FLOATS { 32 * (2 * part + half) } else { 0 }
    }

    /// Where integer vector `index` of part `part` lies, in vectors of sixteen bytes.
    pub(super) const fn int_at(part: usize, index: usize) -> usize {
        2 * Self::N_FLOATS + part * Self::N_INTS + index
    }
}

// The definition, one weight after the other.

fn float<B: Blocks>(bits: u16) -> f32 {
    if B::BFLOAT { crate::math::bf16_to_f32(bits) } else { crate::math::f16_to_f32(bits) }
}

impl PartScales {
    /// One float scale for a block of 32, or of 16.
    pub(super) fn float(d: u16) -> PartScales {
        PartScales { d: [d; 2], ..PartScales::default() }
    }

    /// d with what belongs to it: all but 16-wide integer scales.
    fn d<B: Blocks>(&self, half: usize) -> f32 {
        let d = float::<B>(self.d[half]) * B::FACTOR;
        if B::SUBS == 1 { d * f32::from(self.sub[0]) } else { d }
    }

    /// The scale of a weight.
    fn scale<B: Blocks>(&self, half: usize) -> f32 {
        let d = self.d::<B>(half);
        if B::SUBS == 2 { d * f32::from(self.sub[half]) } else { d }
    }

    /// The minimum of a weight.
    fn min<B: Blocks>(&self, half: usize) -> Option<f32> {
        let m = float::<B>(self.m);
        Some(match B::MINS? {
            0 => m,
            1 => m * f32::from(self.min[0]),
            _ => m * f32::from(self.min[half]),
        })
    }
}

/// The dot of one block with the activations of block `index`, by rule 1.
fn dot<B: Blocks>(block: &[u8], x: &QuantizedRow, index: usize, mut acc: f32) -> f32 {
    let parts = Packed::<B>::PARTS;
    for part in 0..parts {
        let (codes, scales) = (B::codes(block, part), B::scales(block, part));
        let x = x.block(parts * index + part);
        let mut isum = 0;
        for half in 0..2 {
            let sum = x.half_dot(half, |k| B::VALUES.of(codes[k]));
            isum += if B::SUBS == 2 { i32::from(scales.sub[half]) * sum } else { sum };
            if B::HALF_FLOATS || half == 1 {
                acc = (scales.d::<B>(half) * x.d).mul_add(isum as f32, acc);
                isum = 0;
            }
        }
        if B::MINS == Some(2) {
            for half in 0..2 {
                acc = scales.min::<B>(half).map_or(acc, |m| m.mul_add(x.half_sum(half), acc));
            }
        } else {
            acc = scales.min::<B>(0).map_or(acc, |m| m.mul_add(x.sum(), acc));
        }
    }
    acc
}

// The packed form.

/// Writes the codes of a step of row `row`, one in each byte of `word`, into a plane of `width` bits.
#[inline(always)]
fn put_step(plane: &mut [u8], width: usize, row: usize, step: usize, word: u32) {
    let bytes = &mut plane[64 * (step * width / 8) + 4 * row..][..4];
    for (byte, code) in bytes.iter_mut().zip((word << (step * width % 8)).to_le_bytes()) {
        *byte |= code;
    }
}

impl<B: Blocks> Format for B {
    const TYPE: TensorType = B::TYPE;
    const UNIT_K: usize = 32 * Packed::<B>::PARTS;
    const CODE_BYTES: usize = Packed::<B>::PARTS * Packed::<B>::CODE_BYTES;
    const SCALE_BYTES: usize = 32 * Packed::<B>::N_FLOATS + 16 * Packed::<B>::PARTS * Packed::<B>::N_INTS;

    fn decode(block: &[u8], out: &mut [f32]) {
        for (part, out) in out.chunks_exact_mut(32).enumerate() {
            let (codes, scales) = (B::codes(block, part), B::scales(block, part));
            for (half, (out, codes)) in out.chunks_exact_mut(16).zip(codes.chunks_exact(16)).enumerate() {
                let (scale, min) = (scales.scale::<B>(half), scales.min::<B>(half));
                for (out, code) in out.iter_mut().zip(codes) {
                    let product = scale * B::VALUES.of(*code) as f32;
                    *out = min.map_or(product, |min| product + min);
                }
            }
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        let low = Packed::<B>::LOW;
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            for (part, out) in out.chunks_exact_mut(Packed::<B>::CODE_BYTES).enumerate() {
                let mask = u32::from_le_bytes([0xff >> (8 - low); 4]);
                for (step, four) in B::codes(block, part).as_chunks::<4>().0.iter().enumerate() {
                    let word = u32::from_le_bytes(*four);
                    put_step(out, low, row, step, word & mask);
                    if B::BITS > low {
                        put_step(&mut out[64 * low..], B::BITS - low, row, step, (word & !mask) >> low);
                    }
                }
                let own = B::scales(block, part);
                for half in 0..2 {
                    put_u16(&mut scales[Packed::<B>::d_at(part, half)..], row, own.d[half]);
                }
                if B::MINS.is_some() {
                    put_u16(&mut scales[32 * Packed::<B>::N_D..], row, own.m);
                }
                let mins = own.min.into_iter().take(Packed::<B>::N_MINS);
                let ints = own.sub.into_iter().take(B::SUBS).map(|sub| sub as u8).chain(mins);
                for (index, int) in ints.enumerate() {
                    scales[16 * Packed::<B>::int_at(part, index) + row] = int;
                }
            }
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, strip: Strip<'_>, first_k: usize, out: &mut [[f32; 16]]) {
        unpack::widen::<B, I>(isa, strip, first_k / 32, out);
    }
}

impl<B: Blocks> IntegerFormat for B {
    const SHAPE: Shape = Packed::<B>::SHAPE;

    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32 {
        dot::<B>(block, x, index, acc)
    }

    #[inline(always)]
    fn unpack<I: Isa>(isa: I, strip: Strip<'_>, first_part: usize, parts: usize, panel: &mut Panel) {
        unpack::panel::<B, I>(isa, strip, first_part, parts, panel);
    }

    #[inline(always)]
    fn row<I: Isa>(isa: I, strip: Strip<'_>, x: &[XPart<1>]) -> [f32; 16] {
        unpack::row::<B, I>(isa, strip, x)
    }
}

// Pieces of block layouts.

/// The u16 at `offset` of a block.
pub(super) fn u16_at(block: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([block[offset], block[offset + 1]])
}

/// The u32 at `offset` of a block.
pub(super) fn u32_at(block: &[u8], offset: usize) -> u32 {
    u32::from(u16_at(block, offset)) | u32::from(u16_at(block, offset + 2)) << 16
}

/// Half float bits with the other sign.
pub(super) fn negated(bits: u16) -> u16 {
    bits ^ 0x8000
}

/// Nibble `i`, low nibbles first.
pub(super) fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

// Loops, not `from_fn`: packing a file is bound by these, and a closure would keep them from being vectorised.

/// 32 nibbles from sixteen bytes: low nibbles are k 0..16, high nibbles k 16..32.
#[inline(always)]
pub(super) fn split_nibbles(bytes: &[u8]) -> [u8; 32] {
    let (bytes, mut codes) = (&bytes[..16], [0; 32]);
    for k in 0..16 {
        codes[k] = bytes[k] & 15;
        codes[16 + k] = bytes[k] >> 4;
    }
    codes
}

/// Field `index`, `width` bits wide, of each of 32 bytes.
#[inline(always)]
pub(super) fn fields(bytes: &[u8], width: usize, index: usize) -> [u8; 32] {
    let (bytes, mask, shift) = (&bytes[..32], 0xff >> (8 - width), width * index);
    let mut codes = [0; 32];
    for k in 0..32 {
        codes[k] = (bytes[k] >> shift) & mask;
    }
    codes
}

/// `low | high << shift`, code by code.
#[inline(always)]
pub(super) fn join(mut low: [u8; 32], high: [u8; 32], shift: u32) -> [u8; 32] {
    for k in 0..32 {
        low[k] |= high[k] << shift;
    }
    low
}
