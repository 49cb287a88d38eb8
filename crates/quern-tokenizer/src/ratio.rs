//! Whether time grows with the input as it should: for tests, here and under `tests/`.

use std::time::Duration;

use cpu_time::ThreadTime;

/// Rounds before a ratio is believed.
const ROUNDS: usize = 3;
/// Rounds after which it is believed whatever it is: a busy machine empties caches now and then.
const MOST_ROUNDS: usize = 30;
/// Sizes that are tried, each twice the last. A step, where memory outgrows a cache or the allocator turns to the system,
/// shows at one of them; work that grows too fast does so at all.
const SIZES: usize = 4;

/// Runs `work` on `piece` repeated to `n` and to `2 n` bytes; the longer's best time on a CPU must be under 2.5 times that
/// of the shorter, at `n` or one of the next sizes. (Quadratic work takes 4 times as long at any.)
pub(crate) fn is_linear(what: &str, piece: &str, n: usize, mut work: impl FnMut(&str)) {
    let ratios: Vec<f64> = (0..SIZES)
        .map_while(|size| Some(ratio(piece, n << size, &mut work)).filter(|&ratio| ratio >= 2.5))
        .collect();
    assert!(ratios.len() < SIZES, "{what}: twice the text takes {ratios:.2?} times as long");
}

fn ratio(piece: &str, n: usize, work: &mut impl FnMut(&str)) -> f64 {
    let texts = [n, 2 * n].map(|n| piece.repeat(n / piece.len()));
    let mut best = [Duration::MAX; 2];
    let mut ratio = f64::INFINITY;
    for round in 0..MOST_ROUNDS {
        for (text, best) in texts.iter().zip(&mut best) {
            let start = ThreadTime::now();
            work(text);
            *best = start.elapsed().min(*best);
        }
        ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        if round + 1 >= ROUNDS && ratio < 2.5 {
            break;
        }
    }
    ratio
}
