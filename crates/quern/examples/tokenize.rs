//! Text to ids and back. The weights stay on disk.
//!
//! cargo run --release --example tokenize -- demo "Hello, world"

use quern::{EncodeOptions, ModelFile, Segment};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(text)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: tokenize MODEL TEXT")
    };
    let tokenizer = ModelFile::open(&model, &mut ())?.tokenizer()?;
    // Plain: nothing in the text can become a control token.
    let ids = tokenizer.encode(&[Segment::Plain(&text)], EncodeOptions::default());
    for id in &ids {
        println!("{id:>8}  {:?}", tokenizer.token_text(*id));
    }
    let mut decoder = tokenizer.decoder();
    let mut back: String = ids.iter().map(|id| decoder.push(*id).to_owned()).collect();
    back.push_str(decoder.finish());
    println!("{back}");
    Ok(())
}
