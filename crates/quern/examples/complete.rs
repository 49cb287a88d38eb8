//! Continues a text, twice with one seed: the same seed gives the same answer, to the last bit.
//!
//! cargo run --release --example complete -- demo "Once upon a time"

use quern::{LoadOptions, Overrides, Quern, RequestOptions};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(text)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: complete MODEL TEXT")
    };
    let model = Quern::load(&model, LoadOptions::default(), &mut ())?;
    let options = RequestOptions {
        sampling: Overrides { temperature: Some(1.0), seed: Some(42), ..Overrides::default() },
        max_tokens: Some(24),
        ..RequestOptions::default()
    };
    let first = model.complete(&text, &options)?.output()?;
    let second = model.complete(&text, &options)?.output()?;
    println!("{text}{}", first.text);
    println!("[seed {}, repeated: {}]", first.finish.seed, first.tokens == second.tokens);
    Ok(())
}
