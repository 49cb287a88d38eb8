//! Every format: its decode against an outside decoder, its packed kernels against its own definition, to the last bit.

#![allow(clippy::unwrap_used)]

use quern_gguf::TensorType;
use quern_kernels::activations::{Activations, Forms, QuantizedRow};
use quern_kernels::formats::{FORMATS, FormatOps};
use quern_kernels::isa::Level;
use quern_kernels::linear::{PackedMatrix, Product, linear};
use quern_kernels::pool::Pool;
use std::path::Path;

/// A small generator: tests must not depend on a crate's choice of one.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 16
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// In -1..1.
    fn float(&mut self) -> f32 {
        (self.below(1 << 24) as f32 / (1 << 23) as f32) - 1.0
    }
}

/// How the numbers of a test are made.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Ordinary.
    Random,
    /// Every code and every activation at the end of its range, all products of one sign: the largest integer sums.
    Extreme,
    /// Zeros, subnormals, huge and tiny scales, infinite and NaN weights.
    Odd,
}

const KINDS: [Kind; 3] = [Kind::Random, Kind::Extreme, Kind::Odd];

/// Offsets of the half floats in a block.
fn half_offsets(ty: TensorType) -> &'static [usize] {
    use TensorType::*;
    match ty {
        Q4_0 | Q5_0 | Q8_0 | IQ4NL | IQ4XS | IQ1S | IQ2XXS | IQ2XS | IQ2S | IQ3XXS | IQ3S => &[0],
        Q4_1 | Q5_1 | Q4K | Q5K => &[0, 2],
        Q2K => &[80, 82],
        Q3K => &[108],
        Q6K => &[208],
        TQ1_0 => &[52],
        TQ2_0 => &[64],
        _ => &[],
    }
}

/// Gives a block float scales of its kind.
fn set_scales(ty: TensorType, block: &mut [u8], kind: Kind, random: &mut Random) {
    let odd = matches!(kind, Kind::Odd);
    let half = |random: &mut Random| {
        if odd {
            [0u16, 0x8000, 0x0001, 0x03ff, 0x7bff, 0xfbff, 0x7c00, 0x7e00, 0x3c00][random.below(9) as usize]
        } else {
            0x2000 + random.below(0x1000) as u16 + 0x8000 * random.below(2) as u16
        }
    };
    for &at in half_offsets(ty) {
        block[at..at + 2].copy_from_slice(&half(random).to_le_bytes());
    }
    match ty {
        // A nibble in the top of each of four words.
        TensorType::IQ1M => {
            let d = half(random);
            for (i, word) in block[48..56].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                word[1] = (word[1] & 15) | ((d >> (4 * i)) as u8 & 15) << 4;
            }
        }
        // The ends of the range, the subnormal ones and the NaN code.
        TensorType::MXFP4 if odd => block[0] = [0, 1, 2, 3, 127, 254, 255][random.below(7) as usize],
        TensorType::MXFP4 => block[0] = 118 + random.below(16) as u8,
        // Zero, subnormals, the largest, the NaN codes, and those whose top bit is not read.
        TensorType::NVFP4 if odd => block[..4]
            .fill_with(|| [0, 1, 2, 3, 4, 7, 8, 0x7e, 0x7f, 0x80, 0xff, 0x38][random.below(12) as usize]),
        _ => {}
    }
}

fn weights(format: &FormatOps, n_rows: usize, n_cols: usize, kind: Kind, random: &mut Random) -> Vec<u8> {
    let block_bytes = format.ty.bytes_per_block() as usize;
    let n_blocks = n_rows * n_cols / format.unit_k;
    let mut bytes = Vec::with_capacity(n_blocks * block_bytes);
    for _ in 0..n_blocks {
        let fill = [0x00, 0xff, 0x80, 0x7f][random.below(4) as usize];
        let mut block: Vec<u8> = (0..block_bytes)
            .map(|_| if matches!(kind, Kind::Extreme) { fill } else { random.next() as u8 })
            .collect();
        set_scales(format.ty, &mut block, kind, random);
        // Random float weights must be numbers, or every sum is NaN.
        if !matches!(kind, Kind::Odd) {
            match format.ty {
                TensorType::F32 => block.copy_from_slice(&random.float().to_le_bytes()),
                TensorType::F16 => block[1] = (block[1] & 0x80) | 0x30,
                TensorType::BF16 => block[1] = (block[1] & 0x80) | 0x3e,
                _ => {}
            }
        }
        bytes.extend(block);
    }
    bytes
}

fn inputs(rows: usize, cols: usize, kind: Kind, random: &mut Random) -> Vec<f32> {
    let mut x: Vec<f32> = (0..rows * cols)
        .map(|_| match kind {
            Kind::Random => random.float(),
            Kind::Extreme => [-1.0, 1.0][random.below(8).min(1) as usize],
            Kind::Odd => {
                [0.0, -0.0, 1e-45, 1e-38, -1e30, 1e-20, 3.5][random.below(7) as usize] * random.float()
            }
        })
        .collect();
    if matches!(kind, Kind::Odd) {
        // A block whose scale has no reciprocal, and one of zeros.
        x[..32.min(cols)].fill(1e-40);
        if cols >= 64 {
            x[32..64].fill(0.0);
        }
    }
    x
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Runs a linear in one mode on one level.
fn run(
    pool: &Pool,
    level: Level,
    matrix: &PackedMatrix,
    x: &[f32],
    int8: bool,
    scale: Option<f32>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let rows = x.len() / matrix.n_cols();
    let mut activations = Activations::default();
    let forms: Forms = matrix.form(rows, int8);
    activations.prepare(pool, level, x, matrix.n_cols(), forms).unwrap();
    let mut out = vec![f32::NAN; rows * matrix.n_rows()];
    linear(pool, level, &activations, int8, &mut [Product { weight: matrix, scale, bias, out: &mut out }]);
    out
}

#[test]
fn packed_kernels_equal_the_scalar_definition_on_every_level() {
    let mut random = Random(7);
    for format in FORMATS {
        for kind in KINDS {
            // One strip, a strip and a bit, less than a strip; token tiles of every width, more tokens than share one
            // unpacking; columns of less than a panel, of whole panels and of one and a bit.
            for (n_rows, rows) in [(16, 1), (37, 2), (5, 3), (20, 71)] {
                let n_cols = match (format.unit_k, rows) {
                    (1, 71) => 264,
                    (1, _) => 72,
                    (unit_k @ 32..=64, 71) => 9 * unit_k,
                    (unit_k, _) => 3 * unit_k,
                };
                let raw = weights(format, n_rows, n_cols, kind, &mut random);
                let x = inputs(rows, n_cols, kind, &mut random);
                let scale = (rows == 2).then_some(0.37f32);
                let bias: Vec<f32> = (0..n_rows).map(|_| random.float()).collect();
                let row_bytes = format.row_bytes(n_cols);
                for int8 in [true, false] {
                    let mut expected = Vec::new();
                    for x in x.chunks_exact(n_cols) {
                        for (raw, bias) in raw.chunks_exact(row_bytes).zip(&bias) {
                            let dot = if int8 && matrix_is_integer(format) {
                                format.dot_row(raw, &QuantizedRow::new(x)).unwrap()
                            } else {
                                let mut w = vec![0.0; n_cols];
                                format.decode_row(raw, &mut w);
                                w.iter().zip(x).fold(0.0, |acc, (w, x)| w.mul_add(*x, acc))
                            };
                            expected.push(scale.map_or(dot, |scale| dot * scale) + bias);
                        }
                    }
                    for level in Level::available() {
                        for threads in [1, 3] {
                            let pool = Pool::new(threads);
                            let matrix = PackedMatrix::pack(&pool, format.ty, n_rows, n_cols, &raw).unwrap();
                            let got = run(&pool, level, &matrix, &x, int8, scale, Some(&bias));
                            for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                                assert!(
                                    same(*got, *expected),
                                    "{} {kind:?} int8 {int8} {} {threads} threads: row {} output {}: {got:e} against {expected:e}",
                                    format.ty.name(),
                                    level.name(),
                                    i / n_rows,
                                    i % n_rows
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

fn matrix_is_integer(format: &FormatOps) -> bool {
    format.dot_row(&[], &QuantizedRow::new(&[])).is_some()
}

/// The outside decoder: the numpy dequantiser of the `gguf` package (scripts/fixtures).
#[test]
fn decodes_equal_the_gguf_package() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
    for format in FORMATS.iter().filter(|f| f.ty != TensorType::F32) {
        let name = format.ty.name();
        let read = |ending: &str| {
            let path = dir.join(format!("{name}.{ending}"));
            std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let raw = read("blocks.bin");
        let expected: Vec<f32> =
            read("f32.bin").as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut got = vec![0.0; expected.len()];
        assert_eq!(
            raw.len(),
            expected.len() / format.unit_k * format.ty.bytes_per_block() as usize,
            "{name}"
        );
        assert!(!got.is_empty());
        format.decode_row(&raw, &mut got);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got.to_bits(), expected.to_bits(), "{name} value {i}: {got:e} against {expected:e}");
        }
    }
}

#[test]
fn non_finite_activations_are_named_not_converted() {
    let pool = Pool::new(2);
    for level in Level::available() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![0.5; 6 * 64];
            x[5 * 64 + 40] = bad;
            let int8 = Forms { bytes: true, ..Forms::default() };
            let error = Activations::default().prepare(&pool, level, &x, 64, int8).unwrap_err();
            assert_eq!(error.row, 5);
        }
    }
}

/// The types of ggml's table that no weight of a file may have, by their names.
#[test]
fn every_other_type_is_refused_by_name() {
    let refused: Vec<&str> = TensorType::ALL
        .iter()
        .filter_map(|ty| match PackedMatrix::pack(&Pool::new(1), *ty, 0, 256, &[]) {
            Ok(_) => None,
            Err(e) => {
                assert!(e.to_string().contains(ty.name()), "{e}");
                Some(ty.name())
            }
        })
        .collect();
    assert_eq!(refused, ["Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"]);
}

#[test]
fn a_matrix_of_the_wrong_size_is_refused() {
    let pool = Pool::new(1);
    for (n_rows, n_cols, bytes) in [(2, 32, 39), (2, 33, 40), (usize::MAX, 64, 80)] {
        assert!(PackedMatrix::pack(&pool, TensorType::Q4_1, n_rows, n_cols, &vec![0; bytes]).is_err());
    }
}
