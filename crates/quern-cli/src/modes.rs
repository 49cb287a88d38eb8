//! What is in force, as reports print it.

use quern::{Contract, Facts, SamplingChoice, Setting, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
        "rope": facts.rope.settings().collect::<BTreeMap<_, _>>(),
        "weight_bytes": facts.weight_bytes,
        "numerics": numerics,
    })
}

/// The same in one line.
pub(crate) fn line(facts: &Facts) -> String {
    let rope = facts.rope.settings().map(|(name, value)| format!(", {name} {value}"));
    format!(
        "{}; activations {}, kv {}, context {}{}, weights {}",
        facts.backend,
        facts.activations.name(),
        facts.kv.name(),
        facts.context,
        rope.collect::<String>(),
        bytes(facts.weight_bytes as u64)
    )
}

/// Settings that reports name whether or not somebody chose them.
const ALWAYS_SHOWN: [&str; 5] = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty"];

/// The sampling settings that every model has, and every other one that somebody chose.
pub(crate) fn chosen(choice: &SamplingChoice) -> impl Iterator<Item = Setting> {
    let settings = choice.resolved.settings().into_iter();
    settings.filter(|setting| ALWAYS_SHOWN.contains(&setting.name) || setting.source != Source::Default)
}

/// The same in one line, each with who chose it.
pub(crate) fn sampling(choice: &SamplingChoice) -> String {
    let settings = chosen(choice);
    let mut words: Vec<_> = settings
        .map(|Setting { name, value, source }| format!("{name} {value} ({})", source.name()))
        .collect();
    words.extend(choice.preset.map(|preset| format!("preset {preset}")));
    words.join(", ")
}

/// A size for people.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let unit = UNITS.iter().find(|(_, size)| n >= *size);
    unit.map_or_else(|| format!("{n} bytes"), |(name, size)| format!("{:.1} {name}", n as f64 / *size as f64))
}
