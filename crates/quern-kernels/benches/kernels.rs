//! Kernels beside the limits of the machine at hand.
//!
//! Every bench counts its multiply-adds and the bytes of weights it reads. After criterion's own figures a line says what
//! share that is of a limit which a probe has just measured: streaming reads of memory, chains of fma, and pairs of byte
//! multiply-adds. One thread throughout; `cargo bench -p quern-kernels -- FILTER`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quern_kernels::activations::Activations;
use quern_kernels::formats::FORMATS;
use quern_kernels::isa::Level;
use quern_kernels::linear::{PackedMatrix, Product, linear};
use quern_kernels::pool::Pool;
use std::hint::black_box;
use std::time::{Duration, Instant};

mod probes;

/// The best time of one round.
fn best(time: &mut Duration, iterations: u64, mut round: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        let one = Instant::now();
        round();
        *time = (*time).min(one.elapsed());
    }
    start.elapsed()
}

/// One linear layer of a model with a hidden width of 1,536: 1,536 columns, `n_rows` outputs.
fn linears(c: &mut Criterion, name: &str, n_rows: usize, tokens: usize, int8: bool) {
    const COLS: usize = 1536;
    let (pool, Ok(level)) = (Pool::new(1), Level::detect()) else { return };
    let limits = probes::Limits::get();
    let mut group = c.benchmark_group(name);
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for format in FORMATS {
        // Bytes that make finite scales in every format.
        let raw: Vec<u8> = vec![0x31; n_rows * format.row_bytes(COLS)];
        let Ok(matrix) = PackedMatrix::pack(&pool, format.ty, n_rows, COLS, &raw) else { continue };
        let x: Vec<f32> = (0..tokens * COLS).map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0).collect();
        let mut activations = Activations::default();
        let forms = matrix.form(tokens, int8);
        if activations.prepare(&pool, level, &x, COLS, forms).is_err() {
            continue;
        }
        let mut out = vec![0.0; tokens * n_rows];
        let macs = (tokens * n_rows * COLS) as f64;
        let mut time = Duration::MAX;
        group.throughput(Throughput::Elements(macs as u64));
        group.bench_function(BenchmarkId::from_parameter(format.ty.name()), |b| {
            b.iter_custom(|iterations| {
                best(&mut time, iterations, || {
                    let products = &mut [Product { weight: &matrix, scale: None, bias: None, out: &mut out }];
                    linear(&pool, level, &activations, int8, products);
                    black_box(&out);
                })
            });
        });
        if time == Duration::MAX {
            continue;
        }
        let (rate, seconds) = (macs / time.as_secs_f64(), time.as_secs_f64());
        if tokens == 1 {
            let bytes = matrix.n_bytes() as f64 / seconds;
            println!(
                "    {} {:.1} GB/s of weights: {:.0}% of streaming reads\n",
                format.ty.name(),
                bytes / 1e9,
                100.0 * bytes / limits.read
            );
        } else {
            let (limit, of) =
                if forms.float { (limits.fma, "fma") } else { (limits.byte_macs, "byte multiply-adds") };
            println!(
                "    {} {:.1} G/s: {:.0}% of {of}\n",
                format.ty.name(),
                rate / 1e9,
                100.0 * rate / limit
            );
        }
    }
    group.finish();
}

/// A prompt: 256 tokens; the weights fit a cache.
fn prompt(c: &mut Criterion) {
    linears(c, "prompt", 1536, 256, true);
}

/// A prompt with f32 activations.
fn prompt_f32(c: &mut Criterion) {
    linears(c, "prompt-f32", 512, 240, false);
}

/// One token; the weights do not fit a cache.
fn generate(c: &mut Criterion) {
    linears(c, "generate", 65536, 1, true);
}

criterion_group!(benches, prompt, prompt_f32, generate);
criterion_main!(benches);
