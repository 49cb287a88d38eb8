//! Elementary functions, norms, RoPE and gates: every level against the scalar definition, and that against f64.

#![allow(clippy::unwrap_used)]

use quern_kernels::isa::{Isa, Kernel, Level};
use quern_kernels::norm::{Activation, act_mul, rms_norm, softcap};
use quern_kernels::pool::Pool;
use quern_kernels::rope::{RopePairs, RopeShape, rope};
use quern_kernels::{math, vector};

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Floats of every size and sign: a stride through all bit patterns, and the edges.
fn floats() -> Vec<f32> {
    let mut all: Vec<f32> = (0..1u64 << 32).step_by(10_007).map(|b| f32::from_bits(b as u32)).collect();
    all.extend([
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
    ]);
    all.extend((-2000..2000).map(|i| i as f32 * 0.06));
    all.resize(all.len().next_multiple_of(16), 0.5);
    all
}

#[derive(Clone, Copy)]
enum Function {
    Exp,
    Silu,
    GeluTanh,
    Sigmoid,
    Tanh,
    HalfRoundTrip,
}

type Scalar = fn(f32) -> f32;

struct Apply<'a>(Function, &'a mut [f32]);

impl Kernel for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for lanes in self.1.as_chunks_mut::<16>().0 {
            let x = isa.load(lanes);
            let y = match self.0 {
                Function::Exp => vector::exp(isa, x),
                Function::Silu => vector::silu(isa, x),
                Function::GeluTanh => vector::gelu_tanh(isa, x),
                Function::Sigmoid => vector::sigmoid(isa, x),
                Function::Tanh => vector::tanh(isa, x),
                Function::HalfRoundTrip => isa.load_f16(&lanes.map(math::f32_to_f16)),
            };
            isa.store(y, lanes);
        }
    }
}

#[test]
fn functions_equal_their_scalar_form_on_every_level() {
    let x = floats();
    let functions: [(Function, Scalar); 6] = [
        (Function::Exp, math::exp),
        (Function::Silu, math::silu),
        (Function::GeluTanh, math::gelu_tanh),
        (Function::Sigmoid, math::sigmoid),
        (Function::Tanh, math::tanh),
        (Function::HalfRoundTrip, |x| math::f16_to_f32(math::f32_to_f16(x))),
    ];
    for level in Level::available() {
        for (i, (function, scalar)) in functions.iter().enumerate() {
            let mut y = x.clone();
            level.run(Apply(*function, &mut y));
            for (x, y) in x.iter().zip(&y) {
                assert!(same(*y, scalar(*x)), "function {i} of {x:e} on {}: {y:e}", level.name());
            }
        }
    }
}

#[test]
fn functions_are_close_to_f64() {
    for x in floats().into_iter().filter(|x| x.abs() < 1e4) {
        let wide = f64::from(x);
        let near = |name: &str, got: f32, exact: f64, relative: f64, absolute: f64| {
            let delta = (f64::from(got) - exact).abs();
            assert!(delta <= relative * exact.abs() + absolute, "{name}({x:e}) = {got:e}, exactly {exact:e}");
        };
        if wide < 88.7 {
            near("exp", math::exp(x), libm::exp(wide), 2e-7, 1e-45);
        }
        near("silu", math::silu(x), wide / (1.0 + libm::exp(-wide)), 4e-7, 1e-36);
        let gelu =
            0.5 * wide * (1.0 + libm::tanh(0.797_884_560_802_865_4 * (wide + 0.044715 * wide.powi_exact())));
        near("gelu", math::gelu_tanh(x), gelu, 2e-6, 2e-7);
        near("sigmoid", math::sigmoid(x), 1.0 / (1.0 + libm::exp(-wide)), 4e-7, 1e-37);
        near("softplus", math::softplus(x), wide.max(0.0) + libm::log1p(libm::exp(-wide.abs())), 4e-7, 1e-37);
        near("tanh", math::tanh(x), libm::tanh(wide), 2e-7, 2e-7);
    }
}

/// x^3 by multiplication.
trait PowiExact {
    fn powi_exact(self) -> f64;
}

impl PowiExact for f64 {
    fn powi_exact(self) -> f64 {
        self * self * self
    }
}

/// R3: the tanh form of GELU overflows where it is written with exponentials of the argument itself.
#[test]
fn r3_gelu_of_large_gates_is_a_number() {
    for x in [30.0f32, 100.0, 1e4, 1e10] {
        assert_eq!(math::gelu_tanh(x), x);
        assert_eq!(math::gelu_tanh(-x).abs(), 0.0);
    }
}

/// R17: conversion to half floats rounds ties to even and keeps NaN; `half` is the outside judge of each value's neighbours.
#[test]
fn r17_halves_round_to_even() {
    for (x, bits) in [
        (1.0f32, 0x3c00u16),
        (1.0 + 1.0 / 2048.0, 0x3c00),
        (1.0 + 3.0 / 2048.0, 0x3c02),
        (65520.0, 0x7c00),
        (65519.0, 0x7bff),
        (2.980_232_2e-8, 0),
        (6e-8, 1),
    ] {
        assert_eq!(math::f32_to_f16(x), bits, "{x}");
    }
    assert!(math::f16_to_f32(math::f32_to_f16(f32::NAN)).is_nan());
    for bits in 0..=u16::MAX {
        let x = math::f16_to_f32(bits);
        assert!(x.is_nan() || math::f32_to_f16(x) == bits);
    }
}

#[test]
fn subnormals_are_not_flushed() {
    // e^-100 is 26.547 times 2^-149.
    assert_eq!(math::exp(-100.0).to_bits(), 27);
    let pool = Pool::new(2);
    let mut out = vec![0.0; 32];
    for level in Level::available() {
        act_mul(&pool, level, Activation::Silu, &mut out, &[1.0; 32], &[1e-44; 32]);
        assert!(out.iter().all(|x| *x > 0.0), "{}", level.name());
    }
}

fn ramp(n: usize, scale: f32) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 1009) as f32 / 504.5 - 1.0) * scale).collect()
}

#[test]
fn norms_follow_rule_3() {
    let pool = Pool::new(3);
    for n in [1, 15, 16, 17, 72, 576, 640] {
        let rows = 5;
        let (x, weight) = (ramp(rows * n, 3.0), ramp(n, 1.5));
        for level in Level::available() {
            let mut out = vec![0.0; x.len()];
            rms_norm(&pool, level, &mut out, &x, &weight, 1e-5);
            for (x, out) in x.chunks(n).zip(out.chunks(n)) {
                let mut partials = [0.0f32; 16];
                x.iter().enumerate().for_each(|(i, x)| partials[i % 16] = x.mul_add(*x, partials[i % 16]));
                let p = partials;
                // Rule 3's tree, as the page writes it.
                let half = |i: usize| {
                    ((p[i] + p[i + 8]) + (p[i + 4] + p[i + 12]))
                        + ((p[i + 2] + p[i + 10]) + (p[i + 6] + p[i + 14]))
                };
                let ss = half(0) + half(1);
                let r = 1.0 / (ss / n as f32 + 1e-5).sqrt();
                let exact: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / n as f64;
                for ((x, w), out) in x.iter().zip(&weight).zip(out) {
                    assert_eq!(out.to_bits(), ((x * r) * w).to_bits(), "{n} on {}", level.name());
                    let expected = f64::from(*x) / libm::sqrt(exact + 1e-5) * f64::from(*w);
                    assert!((f64::from(*out) - expected).abs() <= 1e-6 * expected.abs().max(1e-3));
                }
            }
        }
    }
}

#[test]
fn rope_turns_pairs() {
    let pool = Pool::new(2);
    for (pairs, dims) in [(RopePairs::Adjacent, 20), (RopePairs::Halves, 20), (RopePairs::Halves, 12)] {
        let shape = RopeShape { n_heads: 3, head_dim: 20, dims, pairs };
        let rows = 4;
        let (x, angles) = (ramp(rows * 60, 1.0), ramp(rows * dims / 2, 3.0));
        let table: Vec<f32> = angles
            .chunks(dims / 2)
            .flat_map(|a| {
                a.iter().map(|a| libm::cosf(*a)).chain(a.iter().map(|a| libm::sinf(*a))).collect::<Vec<_>>()
            })
            .collect();
        for level in Level::available() {
            let mut turned = x.clone();
            rope(&pool, level, &mut turned, &table, shape);
            for (h, (x, turned)) in x.chunks(20).zip(turned.chunks(20)).enumerate() {
                for i in 0..dims / 2 {
                    let (a, b) = match pairs {
                        RopePairs::Adjacent => (2 * i, 2 * i + 1),
                        RopePairs::Halves => (i, i + dims / 2),
                    };
                    let (c, s) = (table[h / 3 * dims + i], table[h / 3 * dims + dims / 2 + i]);
                    assert_eq!(turned[a].to_bits(), x[a].mul_add(c, -(x[b] * s)).to_bits());
                    assert_eq!(turned[b].to_bits(), x[a].mul_add(s, x[b] * c).to_bits());
                }
                assert_eq!(x[dims..], turned[dims..]);
            }
        }
    }
}

#[test]
fn gates_and_caps_equal_their_scalar_form() {
    let pool = Pool::new(3);
    let (gate, up) = (ramp(40_003, 20.0), ramp(40_003, 2.0));
    for level in Level::available() {
        for (activation, scalar) in [
            (Activation::Silu, math::silu as Scalar),
            (Activation::GeluTanh, math::gelu_tanh),
            (Activation::Sigmoid, math::sigmoid),
        ] {
            let mut out = vec![0.0; gate.len()];
            act_mul(&pool, level, activation, &mut out, &gate, &up);
            assert!(out.iter().zip(gate.iter().zip(&up)).all(|(o, (g, u))| same(*o, scalar(*g) * u)));
        }
        let mut capped = gate.clone();
        softcap(&pool, level, &mut capped, 5.0);
        assert!(capped.iter().zip(&gate).all(|(c, g)| same(*c, 5.0 * math::tanh(g / 5.0))));
    }
}
