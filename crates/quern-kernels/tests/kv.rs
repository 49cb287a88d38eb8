//! What caches hold, and what they weigh.

#![allow(clippy::unwrap_used)]

use quern_kernels::kv::{KvShape, KvType, PAGE_POSITIONS, quantize_q8_0};
use quern_kernels::math;
use std::path::Path;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kv").join(name)).unwrap()
}

#[test]
fn q8_0_is_what_another_quantiser_makes_of_it() {
    let (floats, blocks) = (fixture("q8_0.f32.bin"), fixture("q8_0.blocks.bin"));
    let values: Vec<f32> = floats.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let (blocks, rest) = blocks.as_chunks::<34>();
    assert!(rest.is_empty() && blocks.len() * 32 == values.len() && blocks.len() > 20);
    for (i, (block, x)) in blocks.iter().zip(values.chunks_exact(32)).enumerate() {
        let (scale, codes) = quantize_q8_0(x);
        assert_eq!(scale, u16::from_le_bytes([block[0], block[1]]), "scale of block {i}");
        assert_eq!(codes.map(|code| code as u8), block[2..], "codes of block {i}");
    }
}

#[test]
fn a_nan_is_not_lost_in_q8_0() {
    for at in [0, 7, 31] {
        let mut x = [1.0; 32];
        x[at] = f32::NAN;
        assert!(math::f16_to_f32(quantize_q8_0(&x).0).is_nan());
    }
}

#[test]
fn pages_weigh_what_their_type_says() {
    let bytes = |ty, head_dim| KvShape { n_kv_heads: 3, head_dim, ty }.page_bytes() / (3 * PAGE_POSITIONS);
    assert_eq!(bytes(KvType::F32, 64), 2 * 256);
    assert_eq!(bytes(KvType::F16, 64), 2 * 128);
    assert_eq!(bytes(KvType::Q8_0, 64), 2 * (64 + 2 * 2));
    // Values are padded to whole vectors.
    assert_eq!(bytes(KvType::F16, 20), 2 * (20 + 32));
}
