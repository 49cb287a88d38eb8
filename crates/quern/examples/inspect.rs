//! Looks into a model file: what it is made of, and whether it can be run.
//!
//! cargo run --release --example inspect -- demo

use quern::ModelFile;

fn main() -> anyhow::Result<()> {
    let Some(model) = std::env::args().nth(1) else { anyhow::bail!("usage: inspect MODEL") };
    let file = ModelFile::open(&model, &mut ())?;
    println!("{}: {} bytes", file.path().display(), file.gguf().file_len());
    for key in ["general.name", "general.architecture", "general.license"] {
        println!("{key} = {}", file.metadata().opt_str(key)?.unwrap_or("-"));
    }
    match file.spec() {
        Ok(spec) => println!("{} layers, context {}", spec.layers.len(), spec.context_length),
        Err(error) => println!("cannot be run: {error}"),
    }
    Ok(())
}
