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

use std::ops::Range;

use regex::Regex;

use crate::pretokenizers::{DIGITS_FROM_RIGHT, DIGITS_FROM_RIGHT_OF_WORD, GPT2, NUMBERS_FROM_RIGHT};

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
    /// It is a piece, but white space before a word gives its last character back where it is the pattern's one group.
    GiveBackGroup,
    /// It is cut after every third character, counted from the right.
    Threes,
}

impl Step {
    /// Compiles a pattern as it is published.
    pub(crate) fn new(pattern: &str) -> Result<Step, regex::Error> {
        if let Some(runs) = runs_of_threes(pattern) {
            return Ok(Step { regex: Regex::new(runs)?, cut: Cut::Threes });
        }
        match before_white(pattern) {
            Some(rest) => Ok(Step {
                regex: Regex::new(&format!(r"{rest}|\s+"))?,
                cut: Cut::GiveBack { line_breaks: rest.contains(r"\s*[\r\n]") },
            }),
            None => Ok(Step { regex: Regex::new(pattern)?, cut: Cut::Whole }),
        }
    }

    /// Compiles a pattern that is not from the table, with look-aheads of the same kinds. Its other alternatives may be
    /// anything, so the one for white space is a group and asked for. The pattern as it is run must not match nothing.
    pub(crate) fn foreign<E>(pattern: &str, compile: impl Fn(&str) -> Result<Regex, E>) -> Result<Step, E> {
        if let Some(runs) = runs_of_threes(pattern) {
            return Ok(Step { regex: compile(runs)?, cut: Cut::Threes });
        }
        Ok(match before_white(pattern) {
            Some(rest) => {
                Step { regex: compile(&format!(r"(?:{rest})|(?<white>\s+)"))?, cut: Cut::GiveBackGroup }
            }
            None => Step { regex: compile(pattern)?, cut: Cut::Whole },
        })
    }

    /// GPT-2's pattern.
    pub(crate) fn gpt2() -> Step {
        // A unit test compiles every row of the table, of which this is one.
        Step::new(GPT2).unwrap_or_else(|error| unreachable!("a pattern of the table: {error}"))
    }

    /// Emits all of `text` in order: the matches, and what is between.
    pub(crate) fn find(&self, text: &str, emit: &mut (impl FnMut(Range<usize>, bool) + ?Sized)) {
        let mut done = 0;
        while let Some(found) = self.regex.find_at(text, done) {
            if found.is_empty() {
                // No pattern that gets here can match nothing.
                break;
            }
            if found.start() > done {
                emit(done..found.start(), false);
            }
            done = match self.cut {
                Cut::Whole | Cut::Threes => found.end(),
                Cut::GiveBack { line_breaks } => given_back(text, found, line_breaks),
                Cut::GiveBackGroup => match given_back(text, found, false) {
                    shorter if shorter < found.end() && !self.is_white(text, found.start()) => found.end(),
                    end => end,
                },
            };
            match self.cut {
                Cut::Threes => threes(text, found.range(), emit),
                _ => emit(found.start()..done, true),
            }
        }
        if done < text.len() {
            emit(done..text.len(), false);
        }
    }

    /// Whether the match at `start` is of the alternative for white space.
    fn is_white(&self, text: &str, start: usize) -> bool {
        self.regex.captures_at(text, start).is_some_and(|found| found.name("white").is_some())
    }
}

/// The runs of digits that a pattern cuts in threes.
fn runs_of_threes(pattern: &str) -> Option<&'static str> {
    match pattern {
        DIGITS_FROM_RIGHT => Some(r"\d+"),
        DIGITS_FROM_RIGHT_OF_WORD => Some(r"\d+\b"),
        NUMBERS_FROM_RIGHT => Some(r"\p{N}+"),
        _ => None,
    }
}

/// What comes before `\s+(?!\S)`, if that ends the pattern.
fn before_white(pattern: &str) -> Option<&str> {
    pattern.strip_suffix(r"|\s+").unwrap_or(pattern).strip_suffix(r"|\s+(?!\S)")
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

fn threes(text: &str, run: Range<usize>, emit: &mut (impl FnMut(Range<usize>, bool) + ?Sized)) {
    let digits = &text[run.clone()];
    let mut left = digits.chars().count();
    let mut start = 0;
    for (at, _) in digits.char_indices() {
        if at > start && left.is_multiple_of(3) {
            emit(run.start + start..run.start + at, true);
            start = at;
        }
        left -= 1;
    }
    emit(run.start + start..run.end, true);
}

/// Cuts `text` by all `steps`, in order.
pub(crate) fn split<'t>(steps: &[Step], text: &'t str, emit: &mut dyn FnMut(&'t str)) {
    match steps.split_first() {
        None => emit(text),
        Some((first, rest)) => first.find(text, &mut |piece, _| split(rest, &text[piece], emit)),
    }
}
