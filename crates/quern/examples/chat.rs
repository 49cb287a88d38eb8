//! Streams the answer to a question.
//!
//! cargo run --release --example chat -- demo "What is the capital of France?"

use quern::{Event, LoadOptions, Message, Overrides, Quern, RequestOptions};
use std::io::Write;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(question)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: chat MODEL QUESTION")
    };
    let model = Quern::load(&model, LoadOptions::default(), &mut ())?;
    let messages = [Message::system("Answer in one sentence."), Message::user(question)];
    let sampling = Overrides { temperature: Some(0.0), ..Overrides::default() };
    for event in model.chat(&messages, &RequestOptions { sampling, ..RequestOptions::default() })? {
        match event? {
            Event::Text(piece) => {
                print!("{piece}");
                std::io::stdout().flush()?;
            }
            Event::Finish(finish) => println!("\n[{}]", finish.reason.name()),
            Event::Prefill { .. } | Event::Token(_) => {}
        }
    }
    Ok(())
}
