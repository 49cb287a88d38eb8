//! What the formats with integer codes share: packing, decode, the canonical dot and the kernel, written once.
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
//! - Larger values are multiplied signed and widened every step: a pair is at most 2 * 128 * 127.
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
    const fn unsigned(&self) -> Option<Option<u32>> {
        match self {
            Values::Unsigned => Some(None),
            Values::Offset(n) => Some(Some(*n)),
            Values::Table(_) if self.largest(4) <= 32 => Some(Some(5)),
            _ => None,
        }
    }

    /// The table as it is multiplied.
    const fn table(&self) -> Option<[u8; 16]> {
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
        assert!(64 * sub <= i16::MAX as i64 && 32 * largest * 127 * 64 * sub <= i32::MAX as i64);
    };
}

/// Sizes of a format's packed parts.
struct Packed<B>(PhantomData<B>);

impl<B: Blocks> Packed<B> {
    const PARTS: usize = B::TYPE.block_len() as usize / 32;
    const CODE_BYTES: usize = 64 * B::BITS;
    /// Bits of the low plane.
    const LOW: usize = match B::BITS {
        2 | 3 => 2,
        8 => 8,
        _ => 4,
    };
    /// Float scales of a unit, d and m.
    const N_D: usize = if B::HALF_FLOATS { 2 * Self::PARTS } else { 1 };
    const N_FLOATS: usize = Self::N_D + B::MINS.is_some() as usize;
    /// Integer vectors of a part, sub and min.
    const N_MINS: usize = if let Some(n) = B::MINS { n } else { 0 };
    const N_INTS: usize = B::SUBS + Self::N_MINS;

    /// Where the d of `half` of part `part` lies.
    const fn d_at(part: usize, half: usize) -> usize {
        if B::HALF_FLOATS { 32 * (2 * part + half) } else { 0 }
    }

    /// Where integer vector `index` of part `part` lies, in vectors of sixteen bytes.
    const fn int_at(part: usize, index: usize) -> usize {
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

/// Codes of step `step` of a part, table entries looked up, as they are multiplied.
#[inline(always)]
fn load_step<B: Blocks, I: Isa>(isa: I, part: &[u8], step: usize) -> I::B {
    let low = Packed::<B>::LOW;
    let mut codes = load_field(isa, part, low, step, 0);
    if B::BITS > low {
        codes = isa.or_bytes(codes, load_field(isa, &part[64 * low..], B::BITS - low, step, low));
    }
    match const { B::VALUES.table() } {
        Some(table) => isa.shuffle16(&table, codes),
        None => codes,
    }
}

/// The bits of step `step` in a plane of `width` bits, as bits `up` and on of each byte.
#[inline(always)]
fn load_field<I: Isa>(isa: I, plane: &[u8], width: usize, step: usize, up: usize) -> I::B {
    let bytes = isa.load_bytes(&plane.as_chunks::<64>().0[step * width / 8]);
    let mask = ((1u16 << width) - 1) << up;
    isa.shift_mask(bytes, (step * width % 8) as i32 - up as i32, mask as u8)
}

/// Writes `bits` for weight k of row `row` into a plane of `width` bits.
fn put_field(plane: &mut [u8], width: usize, row: usize, k: usize, bits: u8) {
    let (step, at) = (k / 4, 4 * row + k % 4);
    plane[64 * (step * width / 8) + at] |= bits << (step * width % 8);
}

/// The float scales of a part's halves, with what belongs to them: all but 16-wide integer scales.
#[inline(always)]
fn load_d<B: Blocks, I: Isa>(isa: I, scales: &[u8], part: usize) -> [I::F; 2] {
    let first = load_half_d::<B, I>(isa, scales, part, 0);
    [first, if B::HALF_FLOATS { load_half_d::<B, I>(isa, scales, part, 1) } else { first }]
}

#[inline(always)]
fn load_half_d<B: Blocks, I: Isa>(isa: I, scales: &[u8], part: usize, half: usize) -> I::F {
    let d = load_float::<B, I>(isa, &scales[Packed::<B>::d_at(part, half)..]);
    let d = if B::FACTOR == 1.0 { d } else { isa.mul(d, isa.splat(B::FACTOR)) };
    if B::SUBS == 1 { isa.mul(d, isa.to_f32(load_sub::<B, I>(isa, scales, part, 0))) } else { d }
}

#[inline(always)]
fn load_sub<B: Blocks, I: Isa>(isa: I, scales: &[u8], part: usize, half: usize) -> I::I {
    isa.load_i8(bytes16(scales, Packed::<B>::int_at(part, half)))
}

/// The minimum of half `half` of a part.
#[inline(always)]
fn load_min<B: Blocks, I: Isa>(isa: I, scales: &[u8], part: usize, half: usize) -> I::F {
    let m = load_float::<B, I>(isa, &scales[32 * Packed::<B>::N_D..]);
    let index = match B::MINS {
        Some(2) => half,
        Some(1) => 0,
        _ => return m,
    };
    let min = isa.load_u8(bytes16(scales, Packed::<B>::int_at(part, B::SUBS + index)));
    isa.mul(m, isa.to_f32(min))
}

#[inline(always)]
fn load_float<B: Blocks, I: Isa>(isa: I, bytes: &[u8]) -> I::F {
    if B::BFLOAT { isa.load_bf16(&u16s(bytes)) } else { isa.load_f16(&u16s(bytes)) }
}

/// Adds the products of a half block, times their integer scales, to each token's integer sum.
#[inline(always)]
fn add_half<B: Blocks, I: Isa, const T: usize>(
    isa: I,
    codes: &[u8],
    sub: Option<I::S>,
    x: QuantTile<'_>,
    half: usize,
    isum: &mut [I::I; T],
) {
    let (q, x_sub) = (x.q::<T>(half), x.sub::<T>(half));
    let mut scale = [isa.splat_scale(0); T];
    for t in 0..T {
        scale[t] = isa.splat_scale(x_sub[t]);
        if let Some(sub) = sub {
            scale[t] = isa.mul_scales(sub, scale[t]);
        }
    }
    let Some(offset) = (const { B::VALUES.unsigned() }) else {
        for step in 0..4 {
            let w = load_step::<B, I>(isa, codes, 4 * (half % 2) + step);
            for t in 0..T {
                isum[t] = isa.dot_i8(isum[t], w, q[step][t], scale[t]);
            }
        }
        return;
    };
    let mut sums = [isa.acc_zero(); T];
    if let Some(n) = offset {
        let pairs = x.pairs::<T>(half);
        for t in 0..T {
            sums[t] = isa.acc_start(pairs[t], n);
        }
    }
    for step in 0..4 {
        let w = load_step::<B, I>(isa, codes, 4 * (half % 2) + step);
        for t in 0..T {
            sums[t] = isa.acc_mac(sums[t], w, q[step][t]);
        }
    }
    for t in 0..T {
        isum[t] = isa.flush(isum[t], sums[t], scale[t]);
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
                for (k, code) in B::codes(block, part).into_iter().enumerate() {
                    put_field(out, low, row, k, code & (0xff >> (8 - low)));
                    if B::BITS > low {
                        put_field(&mut out[64 * low..], B::BITS - low, row, k, code >> low);
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
        let (unit, part) = (first_k / Self::UNIT_K, first_k % Self::UNIT_K / 32);
        let codes = &strip.codes[first_k * 2 * B::BITS..][..Packed::<B>::CODE_BYTES];
        let scales = &strip.scales[unit * Self::SCALE_BYTES..(unit + 1) * Self::SCALE_BYTES];
        let d = load_d::<B, I>(isa, scales, part);
        for step in 0..8 {
            let half = step / 4;
            let mut scale = d[half];
            if B::SUBS == 2 {
                scale = isa.mul(scale, isa.to_f32(load_sub::<B, I>(isa, scales, part, half)));
            }
            let bytes = load_step::<B, I>(isa, codes, step);
            for j in 0..4 {
                let v = match const { B::VALUES.unsigned() } {
                    None => isa.to_f32(isa.byte_i8(bytes, j as u32)),
                    Some(None) => isa.to_f32(isa.byte_u8(bytes, j as u32)),
                    Some(Some(n)) => {
                        isa.sub(isa.to_f32(isa.byte_u8(bytes, j as u32)), isa.splat((1u32 << n) as f32))
                    }
                };
                let mut w = isa.mul(scale, v);
                if B::MINS.is_some() {
                    w = isa.add(w, load_min::<B, I>(isa, scales, part, half));
                }
                isa.store(w, &mut out[4 * step + j]);
            }
        }
    }
}

impl<B: Blocks> IntegerFormat for B {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32 {
        dot::<B>(block, x, index, acc)
    }

    #[inline(always)]
    fn mac<I: Isa, const T: usize>(
        isa: I,
        codes: &[u8],
        scales: &[u8],
        x: QuantTile<'_>,
        unit: usize,
        acc: &mut [I::F; T],
    ) {
        const { Bounds::<B>::HOLD };
        for part in 0..Packed::<B>::PARTS {
            let block = Packed::<B>::PARTS * unit + part;
            let codes = &codes[part * Packed::<B>::CODE_BYTES..(part + 1) * Packed::<B>::CODE_BYTES];
            let d = load_d::<B, I>(isa, scales, part);
            let dx = x.d::<T>(block);
            let mut isum = [isa.splat_i32(0); T];
            for half in 0..2 {
                let sub =
                    (B::SUBS == 2).then(|| isa.scales_i8(bytes16(scales, Packed::<B>::int_at(part, half))));
                add_half::<B, I, T>(isa, codes, sub, x, 2 * block + half, &mut isum);
                if B::HALF_FLOATS || half == 1 {
                    for t in 0..T {
                        let scale = isa.mul(d[half], isa.splat(dx[t]));
                        acc[t] = isa.fma(scale, isa.to_f32(isum[t]), acc[t]);
                    }
                    isum = [isa.splat_i32(0); T];
                }
            }
            if B::MINS == Some(2) {
                for half in 0..2 {
                    let min = load_min::<B, I>(isa, scales, part, half);
                    let sums = x.half_sums::<T>(2 * block + half);
                    for t in 0..T {
                        acc[t] = isa.fma(min, isa.splat(sums[t]), acc[t]);
                    }
                }
            } else if B::MINS.is_some() {
                let (min, sums) = (load_min::<B, I>(isa, scales, part, 0), x.dsum::<T>(block));
                for t in 0..T {
                    acc[t] = isa.fma(min, isa.splat(sums[t]), acc[t]);
                }
            }
        }
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

/// 32 nibbles from sixteen bytes: low nibbles are k 0..16, high nibbles k 16..32.
pub(super) fn split_nibbles(bytes: &[u8]) -> [u8; 32] {
    std::array::from_fn(|k| (bytes[k % 16] >> (4 * (k / 16))) & 15)
}

/// Field `index`, `width` bits wide, of each of 32 bytes.
pub(super) fn fields(bytes: &[u8], width: usize, index: usize) -> [u8; 32] {
    let mask = 0xff >> (8 - width);
    std::array::from_fn(|k| (bytes[k] >> (width * index)) & mask)
}

/// `low | high << shift`, code by code.
pub(super) fn join(low: [u8; 32], high: [u8; 32], shift: u32) -> [u8; 32] {
    std::array::from_fn(|k| low[k] | high[k] << shift)
}
