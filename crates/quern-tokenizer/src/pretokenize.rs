//! Cutting text into the words that merging never reaches across.
//!
//! A pre-tokenizer is a list of patterns. Each cuts the pieces left by the one before: every match is a piece, and so is
//! every stretch between two matches.
//!
//! Patterns run on the `regex` crate, whose alternatives have the priority that the published patterns rely on and whose
//! searches take linear time, but which has no look-ahead. Of the look-aheads in use, two kinds are done by hand:
//!
//! - `\s+(?!\S)` (white space, but not the last of it before a word), always the last alternative but for a plain `\s+`.
//!   The search runs with `\s+`, and a match of it that is followed by something gives its last character back, unless
//!   it has only one. Other alternatives are unaffected: those for line breaks come first and end in a line break, the
//!   rest hold something that is not white space.
//! - digits in groups of three counted from the right.

use regex::Regex;

use crate::pretokenizers::{DIGITS_FROM_RIGHT, DIGITS_FROM_RIGHT_OF_WORD, NUMBERS_FROM_RIGHT};

/// One pattern, compiled.
#[derive(Debug)]
pub(crate) struct Step {
    regex: Regex,
    cut: Cut,
}

/// What becomes of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// It is a piece.
    Whole,
    /// It is a piece, but white space before a word gives its last character back; line breaks at the end do not if
    /// `line_breaks` says that they have an alternative of their own.
    GiveBack { line_breaks: bool },
    /// It is cut after every third character, counted from the right.
    Threes,
}

impl Step {
    /// Compiles a pattern as it is published.
    pub(crate) fn new(pattern: &str) -> Result<Step, regex::Error> {
        let runs = match pattern {
            DIGITS_FROM_RIGHT => Some(r"\d+"),
            DIGITS_FROM_RIGHT_OF_WORD => Some(r"\d+\b"),
            NUMBERS_FROM_RIGHT => Some(r"\p{N}+"),
            _ => None,
        };
        if let Some(runs) = runs {
            return Ok(Step { regex: Regex::new(runs)?, cut: Cut::Threes });
        }
        let body = pattern.strip_suffix(r"|\s+").unwrap_or(pattern);
        match body.strip_suffix(r"|\s+(?!\S)") {
            Some(rest) => Ok(Step {
                regex: Regex::new(&format!(r"{rest}|\s+"))?,
                cut: Cut::GiveBack { line_breaks: rest.contains(r"\s*[\r\n]") },
            }),
            None => Ok(Step { regex: Regex::new(pattern)?, cut: Cut::Whole }),
        }
    }

    fn pieces<'t>(&self, text: &'t str, emit: &mut dyn FnMut(&'t str)) {
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = self.regex.find_at(text, at) {
            if found.is_empty() {
                // None of the patterns in the table can match nothing.
                break;
            }
            if found.start() > done {
                emit(&text[done..found.start()]);
            }
            done = match self.cut {
                Cut::Whole => found.end(),
                Cut::GiveBack { line_breaks } => given_back(text, found, line_breaks),
                Cut::Threes => {
                    threes(found.as_str(), emit);
                    found.end()
                }
            };
            if self.cut != Cut::Threes {
                emit(&text[found.start()..done]);
            }
            at = done;
        }
        if done < text.len() {
            emit(&text[done..]);
        }
    }
}

/// Where a match ends after giving back what `\s+(?!\S)` would not have taken.
fn given_back(text: &str, found: regex::Match<'_>, line_breaks: bool) -> usize {
    let white = found.as_str();
    let last = white.chars().next_back();
    let keeps = found.end() == text.len()
        || !white.trim_start().is_empty()
        || (line_breaks && last.is_some_and(|c| c == '\r' || c == '\n'));
    let shorter = found.end() - last.map_or(0, char::len_utf8);
    if keeps || shorter == found.start() { found.end() } else { shorter }
}

fn threes<'t>(run: &'t str, emit: &mut dyn FnMut(&'t str)) {
    let mut left = run.chars().count();
    let mut start = 0;
    for (at, _) in run.char_indices() {
        if at > start && left.is_multiple_of(3) {
            emit(&run[start..at]);
            start = at;
        }
        left -= 1;
    }
    emit(&run[start..]);
}

/// Cuts `text` by all `steps`, in order.
pub(crate) fn split<'t>(steps: &[Step], text: &'t str, emit: &mut dyn FnMut(&'t str)) {
    match steps.split_first() {
        None => emit(text),
        Some((first, rest)) => first.pieces(text, &mut |piece| split(rest, piece, emit)),
    }
}
