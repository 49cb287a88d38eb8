//! Attention against rule 5 written out over plain arrays, to the last bit; and against a softmax in f64.

#![allow(clippy::unwrap_used)]

use quern_kernels::attention::{AttendSegment, AttendShape, attend};
use quern_kernels::isa::Level;
use quern_kernels::kv::{KvPage, KvShape, KvType, PAGE_POSITIONS};
use quern_kernels::math;
use quern_kernels::pool::Pool;
use std::sync::Arc;

struct Case {
    shape: AttendShape,
    kv: KvType,
    /// Positions in the cache.
    len: usize,
    /// Query rows: the last ones.
    rows: usize,
}

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// What a cache holds of rows of head_dim values, or of several blocks.
fn held(kv: KvType, x: &[f32]) -> Vec<f32> {
    match kv {
        KvType::F32 => x.to_vec(),
        KvType::F16 => x.iter().map(|x| math::f16_to_f32(math::f32_to_f16(*x))).collect(),
        KvType::Q8_0 => x
            .chunks_exact(32)
            .flat_map(|x| {
                let d = x.iter().fold(0.0f32, |m, x| m.max(x.abs())) / 127.0;
                let held = math::f16_to_f32(math::f32_to_f16(d));
                x.iter().map(move |x| if d == 0.0 { 0.0 } else { held * (x * (1.0 / d)).round() })
            })
            .collect(),
    }
}

/// Rule 5 as it is written, one row at a time, over keys and values as the cache holds them.
fn definition(case: &Case, q: &[f32], k: &[f32], v: &[f32], position: usize) -> Vec<f32> {
    let AttendShape { n_heads, n_kv_heads, head_dim, scale, softcap, window } = case.shape;
    let mut out = Vec::new();
    for head in 0..n_heads {
        let kv_head = head / (n_heads / n_kv_heads);
        let at = |x: &[f32], key: usize, d: usize| x[(key * n_kv_heads + kv_head) * head_dim + d];
        let q = &q[head * head_dim..(head + 1) * head_dim];
        let first = window.map_or(0, |w| (position + 1).saturating_sub(w));
        let mut merged: Option<(f32, f32, Vec<f32>)> = None;
        for chunk in first / PAGE_POSITIONS..=position / PAGE_POSITIONS {
            let start = chunk * PAGE_POSITIONS;
            let keys: Vec<usize> = (start.max(first)..(start + PAGE_POSITIONS).min(position + 1)).collect();
            let scores: Vec<f32> = keys
                .iter()
                .map(|&key| {
                    let s = (0..head_dim).fold(0.0, |s, d| q[d].mul_add(at(k, key, d), s)) * scale;
                    softcap.map_or(s, |cap| cap * math::tanh(s / cap))
                })
                .collect();
            let m = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let p: Vec<f32> = scores.iter().map(|s| math::exp(s - m)).collect();
            let mut partials = [0.0f32; 16];
            for (key, p) in keys.iter().zip(&p) {
                partials[(key - start) % 16] += p;
            }
            let l = math::tree_sum(&partials);
            let o: Vec<f32> = (0..head_dim)
                .map(|d| keys.iter().zip(&p).fold(0.0, |o, (&key, p)| p.mul_add(at(v, key, d), o)))
                .collect();
            merged = Some(match merged {
                None => (m, l, o),
                Some((m0, l0, o0)) => {
                    let max = m0.max(m);
                    let (a, b) = (math::exp(m0 - max), math::exp(m - max));
                    let o = o0.iter().zip(&o).map(|(o0, o)| o0.mul_add(a, o * b)).collect();
                    (max, l0.mul_add(a, l * b), o)
                }
            });
        }
        let (_, l, o) = merged.unwrap();
        out.extend(o.iter().map(|o| o / l));
    }
    out
}

/// The textbook softmax in f64.
fn textbook(case: &Case, q: &[f32], k: &[f32], v: &[f32], position: usize) -> Vec<f64> {
    let AttendShape { n_heads, n_kv_heads, head_dim, scale, softcap, window } = case.shape;
    let mut out = Vec::new();
    for head in 0..n_heads {
        let kv_head = head / (n_heads / n_kv_heads);
        let at = |x: &[f32], key: usize, d: usize| f64::from(x[(key * n_kv_heads + kv_head) * head_dim + d]);
        let first = window.map_or(0, |w| (position + 1).saturating_sub(w));
        let p: Vec<f64> = (first..=position)
            .map(|key| {
                let s = (0..head_dim).map(|d| f64::from(q[head * head_dim + d]) * at(k, key, d)).sum::<f64>()
                    * f64::from(scale);
                libm::exp(softcap.map_or(s, |cap| f64::from(cap) * libm::tanh(s / f64::from(cap))))
            })
            .collect();
        let l: f64 = p.iter().sum();
        for d in 0..head_dim {
            out.push((first..=position).zip(&p).map(|(key, p)| p * at(v, key, d)).sum::<f64>() / l);
        }
    }
    out
}

fn check(case: &Case) {
    let AttendShape { n_heads, n_kv_heads, head_dim, .. } = case.shape;
    let kv_row = n_kv_heads * head_dim;
    let q = values(case.rows * n_heads * head_dim, 1);
    let (k, v) = (values(case.len * kv_row, 2), values(case.len * kv_row, 3));
    let pool = Pool::new(2);
    let shape = KvShape { n_kv_heads, head_dim, ty: case.kv };
    let first_row_at = case.len - case.rows;
    let first_seen = case.shape.window.map_or(0, |w| (first_row_at + 1).saturating_sub(w));
    let pages: Vec<_> = (0..case.len.div_ceil(PAGE_POSITIONS))
        .map(|i| {
            let mut page = KvPage::new(shape);
            // A recycled page holds anything: what no row may see must not matter.
            page.store(
                &pool,
                0,
                &vec![f32::NAN; PAGE_POSITIONS * kv_row],
                &vec![f32::NAN; PAGE_POSITIONS * kv_row],
            );
            let start = i * PAGE_POSITIONS;
            let end = (start + PAGE_POSITIONS).min(case.len);
            page.store(&pool, 0, &k[start * kv_row..end * kv_row], &v[start * kv_row..end * kv_row]);
            // And a page that slid out of the window may be gone.
            (end > first_seen).then(|| Arc::new(page))
        })
        .collect();
    let (k, v) = (held(case.kv, &k), held(case.kv, &v));
    let positions: Vec<u32> = (first_row_at as u32..case.len as u32).collect();
    let expected: Vec<f32> = positions
        .iter()
        .zip(q.chunks_exact(n_heads * head_dim))
        .flat_map(|(p, q)| definition(case, q, &k, &v, *p as usize))
        .collect();
    for level in Level::available() {
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            let segment = AttendSegment { pages: &pages, first_row: 0, positions: &positions };
            let mut out = vec![f32::NAN; q.len()];
            attend(&pool, level, case.shape, &[segment], &q, &mut out);
            for (i, (got, expected)) in out.iter().zip(&expected).enumerate() {
                assert_eq!(
                    got.to_bits(),
                    expected.to_bits(),
                    "{} {threads} threads, {:?} {:?} len {} rows {}: value {i}: {got} against {expected}",
                    level.name(),
                    case.shape,
                    case.kv,
                    case.len,
                    case.rows
                );
            }
        }
    }
    let last = textbook(case, &q[q.len() - n_heads * head_dim..], &k, &v, case.len - 1);
    for (got, expected) in expected[expected.len() - last.len()..].iter().zip(&last) {
        assert!((f64::from(*got) - expected).abs() < 2e-5, "{got} against {expected}");
    }
}

fn shape(n_heads: usize, n_kv_heads: usize, head_dim: usize, window: Option<usize>) -> AttendShape {
    AttendShape {
        n_heads,
        n_kv_heads,
        head_dim,
        scale: 1.7 / (head_dim as f32).sqrt(),
        softcap: None,
        window,
    }
}

#[test]
fn every_tile_shape_and_chunk_border() {
    for kv in KvType::ALL {
        for (len, rows) in [(1, 1), (17, 17), (256, 3), (257, 1), (300, 60), (700, 5), (1030, 40)] {
            check(&Case { shape: shape(9, 3, 64, None), kv, len, rows });
        }
    }
    for kv in [KvType::F32, KvType::F16] {
        for (len, rows) in [(1, 1), (17, 17), (256, 3), (257, 1), (300, 60), (1030, 40)] {
            check(&Case { shape: shape(4, 1, 20, None), kv, len, rows });
        }
    }
}

#[test]
fn every_count_of_rows() {
    for kv in KvType::ALL {
        for group in 1..=9 {
            check(&Case { shape: shape(group, 1, 96, None), kv, len: 290, rows: 1 });
        }
    }
    for rows in 10..=26 {
        check(&Case { shape: shape(1, 1, 32, None), kv: KvType::Q8_0, len: 270, rows });
    }
    // More than one block of a head, and an end of each size.
    for rows in 95..=108 {
        check(&Case { shape: shape(1, 1, 16, None), kv: KvType::F16, len: 300, rows });
    }
}

#[test]
fn sliding_windows() {
    for window in [1, 7, 255, 256, 257, 512] {
        for (len, rows) in [(5, 5), (280, 30), (600, 300), (1030, 2)] {
            check(&Case { shape: shape(4, 2, 32, Some(window)), kv: KvType::F32, len, rows });
        }
        check(&Case { shape: shape(3, 1, 64, Some(window)), kv: KvType::Q8_0, len: 600, rows: 40 });
    }
}

#[test]
fn soft_caps() {
    let capped = AttendShape { softcap: Some(0.8), ..shape(2, 2, 16, None) };
    check(&Case { shape: capped, kv: KvType::F32, len: 300, rows: 3 });
}

#[test]
fn several_sequences_in_one_batch_equal_each_alone() {
    let shape = shape(4, 2, 32, Some(100));
    let pool = Pool::new(3);
    let level = Level::detect().unwrap();
    let kv_row = 64;
    let lens = [3usize, 300, 41];
    let sequences: Vec<_> = lens
        .iter()
        .enumerate()
        .map(|(i, &len)| {
            let (k, v) = (values(len * kv_row, 10 + i as u32), values(len * kv_row, 20 + i as u32));
            let pages: Vec<_> = (0..len.div_ceil(PAGE_POSITIONS))
                .map(|p| {
                    let mut page = KvPage::new(KvShape { n_kv_heads: 2, head_dim: 32, ty: KvType::F16 });
                    let part = p * PAGE_POSITIONS * kv_row..((p + 1) * PAGE_POSITIONS).min(len) * kv_row;
                    page.store(&pool, 0, &k[part.clone()], &v[part]);
                    Some(Arc::new(page))
                })
                .collect();
            (pages, (0..len as u32).skip(i).collect::<Vec<_>>())
        })
        .collect();
    let rows: usize = sequences.iter().map(|(_, p)| p.len()).sum();
    let q = values(rows * 128, 5);
    let mut together = vec![0.0; q.len()];
    let mut first_row = 0;
    let segments: Vec<_> = sequences
        .iter()
        .map(|(pages, positions)| {
            let segment = AttendSegment { pages, first_row, positions };
            first_row += positions.len();
            segment
        })
        .collect();
    attend(&pool, level, shape, &segments, &q, &mut together);
    for segment in segments {
        let mut alone = vec![0.0; q.len()];
        let part = segment.first_row * 128..(segment.first_row + segment.positions.len()) * 128;
        attend(&pool, level, shape, &[segment], &q, &mut alone);
        assert!(alone[part.clone()].iter().zip(&together[part]).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
