//! Says how probable a model finds a text, and which word surprised it most.
//!
//! cargo run --release --example score -- demo "The capital of France is Paris."

use quern::{LoadOptions, Quern};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(text)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: score MODEL TEXT")
    };
    let model = Quern::load(&model, LoadOptions::default(), &mut ())?;
    let scores = model.score_text(&text)?;
    let worst = scores.ids.iter().zip(&scores.logprobs).filter_map(|(id, p)| Some((*id, (*p)?)));
    let worst = worst.min_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some(perplexity), Some((id, logprob)), Some(tokenizer)) =
        (scores.perplexity(), worst, model.tokenizer())
    {
        println!("perplexity {perplexity:.3}");
        println!("most surprising: {:?} at {logprob:.3}", tokenizer.token_text(id));
    }
    Ok(())
}
