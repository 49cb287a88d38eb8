//! What is in force, as reports print it.

use quern::{Contract, Facts, SamplingChoice, Source};
use serde_json::{Value, json};

/// The modes a result depends on, or its speed.
pub(crate) fn json(facts: &Facts) -> Value {
    let numerics = match &facts.contract {
        Contract::Exact { numerics } => Some(numerics),
        Contract::Tolerance { .. } => None,
    };
    json!({
        "backend": facts.backend,
        "isa": facts.isa,
        "threads": facts.threads,
        "activations": facts.activations.name(),
        "kv": facts.kv.name(),
        "context": facts.context,
        "weight_bytes": facts.weight_bytes,
        "numerics": numerics,
    })
}

/// The same in one line.
pub(crate) fn line(facts: &Facts) -> String {
    format!(
        "{}; activations {}, kv {}, context {}, weights {}",
        facts.backend,
        facts.activations.name(),
        facts.kv.name(),
        facts.context,
        bytes(facts.weight_bytes as u64)
    )
}

/// The sampling settings of the command line, and every other one that somebody chose; each with who chose it.
pub(crate) fn sampling(choice: &SamplingChoice) -> String {
    let params = &choice.resolved.params;
    let shown = [
        ("temperature", params.temperature),
        ("top_k", params.top_k as f32),
        ("top_p", params.top_p),
        ("min_p", params.min_p),
        ("repeat_penalty", params.repeat_penalty),
    ];
    let mut words = Vec::new();
    for (name, source) in choice.resolved.sources() {
        match shown.iter().find(|(setting, _)| setting == name) {
            Some((_, value)) => words.push(format!("{name} {value} ({})", source.name())),
            None if *source != Source::Default => words.push(format!("{name} ({})", source.name())),
            None => {}
        }
    }
    words.extend(choice.preset.map(|preset| format!("preset {preset}")));
    words.join(", ")
}

/// A size for people.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let unit = UNITS.iter().find(|(_, size)| n >= *size);
    unit.map_or_else(|| format!("{n} bytes"), |(name, size)| format!("{:.1} {name}", n as f64 / *size as f64))
}
