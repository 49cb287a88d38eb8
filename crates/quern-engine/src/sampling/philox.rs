//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): random numbers addressed by
//! position.
//!
//! There is no generator state. The number behind a draw is a function of the seed and of where the draw happens, so
//! a request replayed alone, in a batch, or through speculation meets the same numbers.

/// Philox rounds; ten is the count the published test vectors and the authors' margin are for.
const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Third counter word of the categorical draw. These words are part of the arithmetic contract: never renumber.
pub(crate) const STAGE_DRAW: u32 = 0;
/// Third counter word of XTC's coin.
pub(crate) const STAGE_XTC: u32 = 1;

/// One Philox4x32-10 block.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut c = counter;
    let mut k = key;
    for round in 0..ROUNDS {
        if round > 0 {
            k = [k[0].wrapping_add(KEY_STEPS[0]), k[1].wrapping_add(KEY_STEPS[1])];
        }
        let a = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
    }
    c
}

/// Where a random number is used: the counter of the contract, without its constant last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawAt {
    /// How many tokens had been generated before this draw.
    pub generated_index: u32,
    /// Which of the request's parallel choices is drawing.
    pub choice: u32,
    /// Which draw of the step this is.
    pub stage: u32,
}

/// A uniform number in [0, 1) with 24 bits, each of them exact in f32.
pub fn uniform(seed: u64, at: DrawAt) -> f32 {
    let key = [seed as u32, (seed >> 32) as u32];
    let block = philox4x32_10([at.generated_index, at.choice, at.stage, 0], key);
    (block[0] >> 8) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32, 10 rounds).
    #[test]
    fn known_answers() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn uniform_takes_the_high_24_bits_of_the_first_word() {
        let at = DrawAt { generated_index: 0, choice: 0, stage: 0 };
        assert_eq!(uniform(0, at), 0x0066_27e8 as f32 / 16_777_216.0);
    }

    /// R71: every bit of the seed counts; above 2^53 nothing is rounded away.
    #[test]
    fn r71_all_64_seed_bits_matter() {
        let at = DrawAt { generated_index: 3, choice: 1, stage: 0 };
        let base = uniform((1 << 53) + 1, at);
        for bit in 0..64 {
            assert_ne!(uniform(((1 << 53) + 1) ^ (1 << bit), at), base, "seed bit {bit}");
        }
    }
}
