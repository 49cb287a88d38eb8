//! Patterns of a `tokenizer.json`: written for Oniguruma, run on the linear-time `regex` crate.
//!
//! The published patterns that look ahead are those of the table of pre-tokenizers, or end as those do, and are run by
//! the same code. `^` and `$` are the ends of lines, as in Oniguruma. What the crate cannot express (other look-around,
//! back references), what it would read otherwise (possessive repetition) and what can match nothing is refused.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{bad, text};
use crate::error::{TokenizerError, quote};
use crate::pretokenize::Step;

/// Bytes of the longest pattern that is accepted; the longest in use have some thousand.
const LONGEST: usize = 1 << 14;

/// A pattern to cut at.
pub(super) fn step(pattern: &str) -> Result<Step, TokenizerError> {
    within(pattern)?;
    Step::foreign(pattern, |pattern| compile(pattern).map(|compiled| compiled.0))
}

/// A pattern to replace, which may be given as text; and the bytes of the shortest text that it matches.
pub(super) fn literal_or_regex(pattern: Option<&Value>) -> Result<(Regex, usize), TokenizerError> {
    let pattern = pattern.and_then(Value::as_object).ok_or_else(|| bad("has a Replace without a pattern"))?;
    match (text(pattern, "String")?, text(pattern, "Regex")?) {
        (Some(literal), _) => within(literal).and_then(|()| compile(&regex::escape(literal))),
        (None, Some(pattern)) => within(pattern).and_then(|()| compile(pattern)),
        (None, None) => Err(bad("has a Replace without a pattern")),
    }
}

fn within(pattern: &str) -> Result<(), TokenizerError> {
    match pattern.len() > LONGEST {
        true => Err(bad(format!("has a pattern of more than {LONGEST} bytes"))),
        false => Ok(()),
    }
}

fn compile(pattern: &str) -> Result<(Regex, usize), TokenizerError> {
    let refused = |why: &str| bad(format!("has the pattern {}, which {why}", quote(pattern.as_bytes())));
    if is_possessive(pattern) {
        return Err(refused("repeats possessively, as this build cannot"));
    }
    let mut parser = regex_syntax::ParserBuilder::new().multi_line(true).nest_limit(64).build();
    let parsed = parser.parse(pattern).map_err(|_| refused("cannot be run in linear time"))?;
    let shortest = parsed.properties().minimum_len().unwrap_or(0);
    if shortest == 0 {
        return Err(refused("can match nothing"));
    }
    let regex = RegexBuilder::new(pattern).multi_line(true).nest_limit(64).size_limit(1 << 23).build();
    Ok((regex.map_err(|_| refused("is too large"))?, shortest))
}

/// Whether a `+` makes a repetition before it possessive. (After `}` it repeats the repetition, here as there.)
fn is_possessive(pattern: &str) -> bool {
    let mut depth = 0usize;
    let mut repeats = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let before = std::mem::replace(&mut repeats, false);
        match c {
            '\\' => {
                chars.next();
            }
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '+' if depth == 0 && before => return true,
            '+' | '*' | '?' if depth == 0 => repeats = true,
            '(' if depth == 0 && chars.as_str().starts_with('?') => {
                chars.next();
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        for (pattern, why) in [
            (r"a(?=b)", "linear time"),
            (r"(a)\1", "linear time"),
            (r"\p{N}{1,3}+|a++", "possessively"),
            (r"a*", "match nothing"),
            (r"\p{N}{1000}{1000}", "too large"),
        ] {
            let said = step(pattern).expect_err(pattern).to_string();
            assert!(said.contains(why) && said.contains("has the pattern"), "{said}");
        }
        assert!(step(&"a".repeat(1 << 15)).is_err());
        for pattern in [r"[+*?]+", r"\++", r"(?:a+)?b", r"a+?b"] {
            assert!(step(pattern).is_ok(), "{pattern}");
        }
    }
}
