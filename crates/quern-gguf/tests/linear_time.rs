//! Twice as many tensors, keys or strings take about twice as long, however they are named: no trap for a hostile
//! file to spring. The only tests of this crate that look at a clock, and only at ratios.

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{ARRAY, Builder, F32, STRING, U32, array, rewriter, string};
use cpu_time::ThreadTime;
use quern_gguf::{Gguf, Safetensors};

/// What t(2n)/t(n) must stay below: twice the work, and room for a machine that is busy.
const MOST: f64 = 3.0;
/// Rounds before a ratio is believed.
const ROUNDS: usize = 3;
/// Rounds after which it is believed whatever it is: a busy machine empties caches now and then.
const MOST_ROUNDS: usize = 30;
/// Sizes that are tried, each twice the last. A step, where memory outgrows a cache, shows at one of them; work that grows
/// too fast does so at all.
const SIZES: usize = 3;

/// Measures the work at sizes n and 2n on a CPU, by turns so that a slow moment meets both; of each the best time counts.
fn ratio<T>(make: &impl Fn(usize) -> T, work: &impl Fn(&T), n: usize) -> f64 {
    let inputs = [make(n), make(2 * n)];
    let mut best = [Duration::MAX; 2];
    let mut ratio = f64::INFINITY;
    for round in 0..MOST_ROUNDS {
        for (input, best) in inputs.iter().zip(&mut best) {
            let start = ThreadTime::now();
            work(input);
            *best = start.elapsed().min(*best);
        }
        ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        if round + 1 >= ROUNDS && ratio < MOST {
            break;
        }
    }
    ratio
}

#[track_caller]
fn linear<T>(n: usize, make: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let ratios: Vec<f64> =
        (0..SIZES).map(|size| ratio(&make, &work, n << size)).take_while(|ratio| *ratio >= MOST).collect();
    assert!(ratios.len() < SIZES, "twice the size took {ratios:.2?} times as long");
}

fn open(file: &[u8]) {
    black_box(Gguf::from_bytes(file.to_vec())).expect("opens");
}

/// Names with a long common start, not quite in order. Order enough for caches, whose end would else be seen as a
/// ratio of its own.
fn name(i: usize) -> String {
    format!("{}.{:08}", "x".repeat(40), i ^ 1)
}

fn many_tensors(n: usize) -> Vec<u8> {
    let entries = (0..n)
        .fold(Builder { alignment: 1, ..Builder::new() }.u32("general.alignment", 1), |file, i| {
            file.entry(name(i), &[1], F32, 4 * (i ^ 1) as u64)
        });
    entries.data(&vec![0; 4 * n]).build()
}

fn many_keys(n: usize) -> Vec<u8> {
    (0..n).fold(Builder::new(), |file, i| file.key(name(i), U32, &[0; 4])).build()
}

fn many_strings(n: usize) -> Vec<u8> {
    Builder::new().key("x", ARRAY, &array(STRING, n as u64, &string("token").repeat(n))).build()
}

fn many_arrays(n: usize) -> Vec<u8> {
    Builder::new().key("x", ARRAY, &array(ARRAY, n as u64, &array(U32, 1, &[0; 4]).repeat(n))).build()
}

fn one_string(n: usize) -> Vec<u8> {
    Builder::new().key("x", STRING, &string("ß".repeat(n / 2))).build()
}

#[test]
fn opening_takes_time_by_the_number_of_tensors() {
    linear(40_000, many_tensors, |file| open(file));
}

#[test]
fn opening_takes_time_by_the_number_of_keys() {
    linear(30_000, many_keys, |file| open(file));
}

#[test]
fn opening_takes_time_by_the_number_of_strings() {
    linear(1_000_000, many_strings, |file| open(file));
}

#[test]
fn opening_takes_time_by_the_number_of_nested_arrays() {
    linear(32_000, many_arrays, |file| open(file));
}

#[test]
fn opening_takes_time_by_the_length_of_a_string() {
    linear(8_000_000, one_string, |file| open(file));
}

#[test]
fn refusing_takes_time_by_the_number_of_tensors() {
    let twice = |n: usize| {
        let mut file = many_tensors(n);
        // The last name becomes the first.
        let (first, last) = (name(0), name(n - 1));
        let at = file.windows(last.len()).position(|w| w == last.as_bytes()).expect("is there");
        file[at..at + first.len()].copy_from_slice(first.as_bytes());
        file
    };
    linear(40_000, twice, |file| {
        let said = Gguf::from_bytes(file.clone()).expect_err("is refused").to_string();
        assert!(said.contains("occurs twice"), "{said}");
    });
}

#[test]
fn writing_takes_time_by_the_number_of_tensors() {
    let file = |n| Gguf::from_bytes(many_tensors(n)).expect("opens");
    linear(40_000, file, |file| {
        black_box(rewriter(file).write(&mut std::io::sink())).expect("is written");
    });
}

/// A file of a header and zeros.
fn safetensors(header: &str, n_bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; n_bytes]].concat()
}

#[test]
fn opening_safetensors_takes_time_by_the_number_of_tensors() {
    let file = |n: usize| {
        let entry = |i: usize| {
            let at = i ^ 1;
            format!("\"{}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{at},{}]}}", name(i), at + 1)
        };
        safetensors(&format!("{{{}}}", (0..n).map(entry).collect::<Vec<_>>().join(",")), n)
    };
    linear(30_000, file, |file: &Vec<u8>| {
        drop(black_box(Safetensors::from_bytes(file.clone()).expect("opens")))
    });
}

#[test]
fn opening_safetensors_takes_time_by_the_length_of_the_text() {
    let file = |n: usize| {
        let pair = |i: usize| format!("\"{}\":\"\\u00df\\n{}\"", name(i), "[".repeat(20));
        let pairs = (0..n).map(pair).collect::<Vec<_>>().join(",");
        safetensors(&format!("{{\"__metadata__\":{{{pairs}}}}}"), 0)
    };
    linear(50_000, file, |file: &Vec<u8>| {
        drop(black_box(Safetensors::from_bytes(file.clone()).expect("opens")))
    });
}

#[test]
fn opening_a_split_set_takes_time_by_the_number_of_parts() {
    let set = |n: usize| {
        let folder = tempfile::tempdir().expect("a folder");
        for i in 0..n {
            let file = Builder::new()
                .key("split.no", 2, &(i as u16).to_le_bytes())
                .key("split.count", 2, &(n as u16).to_le_bytes())
                .u32("split.tensors.count", n as u32)
                .tensor(name(i), &[1], F32, &[0; 4]);
            let path = folder.path().join(format!("m-{:05}-of-{n:05}.gguf", i + 1));
            std::fs::write(path, file.build()).expect("is written");
        }
        (folder, n)
    };
    linear(500, set, |(folder, n)| {
        let last = folder.path().join(format!("m-{n:05}-of-{n:05}.gguf"));
        assert_eq!(black_box(Gguf::open(last)).expect("opens").tensors().len(), *n);
    });
}
