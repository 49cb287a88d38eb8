//! The codebooks of the IQ formats: tables of ggml, written by `scripts/iq_grids.py` from the gguf package.
//!
//! An entry takes two bytes: eight magnitudes of two bits, or four in nibbles, the first lowest.

/// 2048 entries of eight: -1, 0, 1 as 0, 1, 2.
pub(super) static IQ1: &[u8] = include_bytes!("grids/iq1.bin");
/// 256 entries of eight: 8, 25, 43 as 0, 1, 2.
pub(super) static IQ2_XXS: &[u8] = include_bytes!("grids/iq2_xxs.bin");
/// 512 entries, as above.
pub(super) static IQ2_XS: &[u8] = include_bytes!("grids/iq2_xs.bin");
/// 1024 entries, as above.
pub(super) static IQ2_S: &[u8] = include_bytes!("grids/iq2_s.bin");
/// 256 entries of four: 4, 12, .. 52, 62 as 0 to 7.
pub(super) static IQ3_XXS: &[u8] = include_bytes!("grids/iq3_xxs.bin");
/// 512 entries of four: 1, 3, .. 15 as 0 to 7.
pub(super) static IQ3_S: &[u8] = include_bytes!("grids/iq3_s.bin");

fn entry(grid: &[u8], index: u16) -> u16 {
    super::blocks::u16_at(grid, 2 * usize::from(index))
}

/// The eight magnitudes of an entry.
pub(super) fn eight(grid: &[u8], index: u16) -> [u8; 8] {
    let entry = entry(grid, index);
    std::array::from_fn(|k| (entry >> (2 * k)) as u8 & 3)
}

/// The four magnitudes of an entry.
pub(super) fn four(grid: &[u8], index: u16) -> [u8; 4] {
    let entry = entry(grid, index);
    std::array::from_fn(|k| (entry >> (4 * k)) as u8 & 15)
}

/// Four times eight codes.
pub(super) fn eights(codes: impl Fn(usize) -> [u8; 8]) -> [u8; 32] {
    let mut all = [0; 32];
    for (g, out) in all.as_chunks_mut().0.iter_mut().enumerate() {
        *out = codes(g);
    }
    all
}

/// Each code with its sign bit at bit `shift`.
pub(super) fn signed(codes: [u8; 8], signs: u8, shift: u32) -> [u8; 8] {
    std::array::from_fn(|k| codes[k] | (signs >> k & 1) << shift)
}

/// Eight sign bits from the low seven of `bits`: the eighth makes the number of minus signs even.
pub(super) fn even_signs(bits: u32) -> u8 {
    let seven = bits as u8 & 127;
    seven | (seven.count_ones() as u8 & 1) << 7
}
