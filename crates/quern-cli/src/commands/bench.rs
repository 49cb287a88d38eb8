//! `quern bench`: how fast the model reads and writes here.

use crate::args::{ModelArg, RunningArgs, count};
use crate::exit::{Exit, refuse};
use crate::modes;
use crate::progress::Bars;
use crate::text::{print_json, write_stdout};
use crate::settings::{GlobalArgs, Settings};
use quern::{Finish, Overrides, Prompt, Quern, RequestOptions};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Measure how fast the model reads a prompt and writes an answer
///
/// Each figure is the median of -r runs after one that does not count. The prompt is made of fixed pseudo-random tokens.
/// Writing is greedy, starts after 64 tokens, and includes the choice of each token. The logits hash stands for the
/// logits after the prompt: the same file, prompt length and modes give the same hash on every machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern bench demo
  quern bench demo -p 2048 -n 64 -r 3 --threads 4 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Tokens of the prompt
    #[arg(short, long = "prompt", value_name = "N", default_value = "512", value_parser = count)]
    prompt: usize,
    /// Tokens to write; at least 2, since the first comes out of the prompt
    #[arg(short = 'n', long = "max-tokens", value_name = "N", default_value = "128", value_parser = count)]
    generate: usize,
    /// Runs that count
    #[arg(short, long = "repetitions", value_name = "N", default_value = "5", value_parser = count)]
    repetitions: usize,
    /// Print one JSON object: prompt_tok_s, generate_tok_s, modes, logits_hash
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    running: RunningArgs,
}

/// Tokens that an answer is written after: about those of a short question in its template.
const TOKENS_BEFORE: usize = 64;

/// Hexadecimal digits of the logits hash.
const HASH_DIGITS: usize = 16;

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    if args.generate < 2 {
        return refuse("-n must be at least 2: the first token comes out of the prompt's own logits");
    }
    let mut bars = Bars::new();
    let model = settings.model(&args.model, &args.running, true, &mut bars)?;
    let context = model.facts().context;
    let longest = args.prompt.max(TOKENS_BEFORE + args.generate - 1) + 1;
    if longest > context {
        return refuse(format!("these lengths need {longest} positions, and the context has {context}"));
    }
    let prompt = prompt_of(&model, args.prompt);
    let start = prompt_of(&model, TOKENS_BEFORE);
    let mut done = 0;
    let total = 2 * (args.repetitions as u64 + 1);
    let mut measure = |ids: &[u32], max_tokens, rate: fn(&Finish) -> f64| {
        let mut rates = Vec::with_capacity(args.repetitions);
        for repetition in 0..=args.repetitions {
            let finish = generate(&model, ids, max_tokens)?;
            // The first run warms caches and is not counted.
            if repetition > 0 {
                rates.push(rate(&finish));
            }
            done += 1;
            bars.set("measuring", done, total);
        }
        Ok::<_, quern::Error>(Spread::of(rates))
    };
    let prompt_tok_s = measure(&prompt, 1, |f| f.timings.prompt_tok_s(&f.usage))?;
    let generate_tok_s = measure(&start, args.generate, |f| f.timings.generate_tok_s(&f.usage))?;
    let hash = logits_hash(&model, &prompt)?;

    if args.json {
        print_json(&json!({
            "model": model.facts().model,
            "prompt_tokens": args.prompt,
            "generate_tokens": args.generate,
            "repetitions": args.repetitions,
            "prompt_tok_s": prompt_tok_s.json(),
            "generate_tok_s": generate_tok_s.json(),
            "modes": modes::json(model.facts()),
            "logits_hash": hash,
        }))?;
    } else {
        write_stdout(table(args, &model, [prompt_tok_s, generate_tok_s], &hash).as_bytes())?;
    }
    Ok(Exit::Done)
}

fn generate(model: &Quern, ids: &[u32], max_tokens: usize) -> Result<Finish, quern::Error> {
    let options = RequestOptions {
        sampling: Overrides { temperature: Some(0.0), ..Overrides::default() },
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        ..RequestOptions::default()
    };
    Ok(model.generate(Prompt::Ids(ids.to_vec()), &options)?.output()?.finish)
}

/// Fixed ids, spread over the vocabulary, none of them a control token.
fn prompt_of(model: &Quern, n: usize) -> Vec<u32> {
    let n_vocab = model.spec().n_vocab as u64;
    let is_text = |id: &u32| model.tokenizer().is_none_or(|tokenizer| !tokenizer.is_control(*id));
    // Bounded, since a vocabulary of control tokens alone would end no search.
    let candidates = (0..).map(|i| (splitmix64(i) % n_vocab) as u32);
    let mut ids: Vec<u32> = candidates.take(64 * n).filter(is_text).take(n).collect();
    ids.resize(n, 0);
    ids
}

/// Sebastiano Vigna's SplitMix64, as a function of its counter.
fn splitmix64(i: u64) -> u64 {
    let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The first digits of the sha256 of the last position's logits, as little-endian f32.
fn logits_hash(model: &Quern, ids: &[u32]) -> Result<String, quern::Error> {
    let mut last = Vec::new();
    model.score_rows(ids, &mut |logits| {
        last.clear();
        last.extend_from_slice(logits);
        true
    })?;
    let mut hasher = Sha256::new();
    last.iter().for_each(|logit| hasher.update(logit.to_le_bytes()));
    let digits: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits[..HASH_DIGITS].to_owned())
}

/// What a few runs measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let (n, last) = (values.len(), values.len() - 1);
        Spread { median: (values[last / 2] + values[n / 2]) / 2.0, min: values[0], max: values[last] }
    }

    fn json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }
}

fn table(args: &Args, model: &Quern, [prompt, generate]: [Spread; 2], hash: &str) -> String {
    let row = |name: String, s: Spread| {
        format!("{name:<16}{:>12.2}{:>12.2}{:>12.2}\n", s.median, s.min, s.max)
    };
    format!(
        "{}: {}\n{:<16}{:>12}{:>12}{:>12}\n{}{}logits hash {hash}\n",
        model.facts().model,
        modes::line(model.facts()),
        "tokens/s",
        "median",
        "min",
        "max",
        row(format!("prompt {}", args.prompt), prompt),
        row(format!("generate {}", args.generate), generate),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }

    /// The first outputs of the published generator for seed 0.
    #[test]
    fn splitmix64_is_the_published_one() {
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(1), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(splitmix64(2), 0x06c4_5d18_8009_454f);
    }
}
