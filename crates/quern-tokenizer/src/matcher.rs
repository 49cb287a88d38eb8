//! Finding special tokens in text.
//!
//! All spellings are searched for at once with an Aho-Corasick automaton, leftmost and longest first, so the time does
//! not grow with their number (R45).

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::classes::is_word;
use crate::special::Reach;

/// A stretch of text, cut at special tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    /// Ordinary text.
    Text(&'t str),
    /// A special token.
    Token(u32),
}

/// A special token's entry.
#[derive(Debug)]
pub(crate) struct Spelling<'a> {
    pub(crate) id: u32,
    pub(crate) text: &'a str,
    pub(crate) reach: Reach,
    /// White space before the token that belongs to it.
    pub(crate) left: Strip,
    /// White space after the token that belongs to it.
    pub(crate) right: Strip,
    /// Whether the token counts only where no letter or digit is next to it.
    pub(crate) single_word: bool,
}

/// White space that a token swallows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strip {
    /// None.
    Nothing,
    /// ASCII's.
    Ascii,
    /// All.
    White,
}

impl Strip {
    fn takes(self, c: char) -> bool {
        match self {
            Strip::Nothing => false,
            Strip::Ascii => c.is_ascii_whitespace() || c == '\x0B',
            Strip::White => c.is_whitespace(),
        }
    }
}

/// The automata for both kinds of text.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// Marks and added tokens.
    trusted: Option<Automaton>,
    /// Added tokens only.
    plain: Option<Automaton>,
}

/// Finds tokens by their spellings.
#[derive(Debug)]
pub(crate) struct Automaton {
    search: AhoCorasick,
    /// By pattern.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    is_mark: bool,
    left: Strip,
    right: Strip,
    single_word: bool,
}

struct Found {
    range: Range<usize>,
    entry: Entry,
}

impl Automaton {
    /// `None` if there is nothing to find. Empty spellings are left out.
    pub(crate) fn new<'s, 'a: 's>(spellings: impl Iterator<Item = &'s Spelling<'a>>) -> Option<Automaton> {
        let (mut texts, mut entries) = (Vec::new(), Vec::new());
        for spelling in spellings.filter(|spelling| !spelling.text.is_empty()) {
            texts.push(spelling.text);
            let &Spelling { id, reach, left, right, single_word, .. } = spelling;
            entries.push(Entry { id, is_mark: reach == Reach::Mark, left, right, single_word });
        }
        if texts.is_empty() {
            return None;
        }
        // The one failure is more patterns than 31 bits count; the limits of vocabularies are far below.
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let search = search.unwrap_or_else(|error| unreachable!("within the vocabulary's limits: {error}"));
        Some(Automaton { search, entries })
    }

    /// Matches within a range of `text`.
    fn find_in<'m>(&'m self, text: &'m str, range: Range<usize>) -> impl Iterator<Item = Found> + 'm {
        let found = self.search.find_iter(&text[range.clone()]).map(move |found| Found {
            range: found.start() + range.start..found.end() + range.start,
            entry: self.entries[found.pattern().as_usize()],
        });
        found.filter(|found| !found.entry.single_word || stands_alone(text, &found.range))
    }

    /// Cuts a range of `text` at all tokens in it.
    pub(crate) fn cut<'t>(&self, text: &'t str, range: Range<usize>, emit: &mut impl FnMut(Fragment<'t>)) {
        let mut done = range.start;
        for found in self.find_in(text, range.clone()) {
            done = found.emit(text, done, range.end, emit, |text, range, emit| emit_text(text, range, emit));
        }
        emit_text(text, done..range.end, emit);
    }
}

impl Found {
    /// Emits the text since `done`, by `before`, and the token; returns where the text after it begins.
    fn emit<'t, E: FnMut(Fragment<'t>)>(
        &self,
        text: &'t str,
        done: usize,
        end: usize,
        emit: &mut E,
        before: impl FnOnce(&'t str, Range<usize>, &mut E),
    ) -> usize {
        let Entry { id, left, right, .. } = self.entry;
        // White space stripped after the last token may reach over the start of this one only if this one is white
        // space itself.
        let start = self.range.start.max(done);
        let kept = text[done..start].trim_end_matches(|c| left.takes(c));
        before(text, done..done + kept.len(), emit);
        emit(Fragment::Token(id));
        let after = self.range.end.max(done);
        let rest = text[after..end].trim_start_matches(|c| right.takes(c));
        end - rest.len()
    }
}

fn emit_text<'t>(text: &'t str, range: Range<usize>, emit: &mut impl FnMut(Fragment<'t>)) {
    if !range.is_empty() {
        emit(Fragment::Text(&text[range]));
    }
}

/// Whether neither neighbour of a range is part of a word.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

impl Matcher {
    pub(crate) fn new(spellings: &[Spelling<'_>]) -> Matcher {
        Matcher {
            trusted: Automaton::new(spellings.iter()),
            plain: Automaton::new(spellings.iter().filter(|spelling| spelling.reach != Reach::Mark)),
        }
    }

    /// Cuts `text` at its special tokens. Marks count only where they lie within one of the `trusted` ranges, which are
    /// ascending; other tokens count anywhere but in white space that a mark swallows.
    pub(crate) fn cut<'t>(
        &self,
        text: &'t str,
        trusted: &[Range<usize>],
        mut emit: impl FnMut(Fragment<'t>),
    ) {
        let plain = |text: &'t str, range: Range<usize>, emit: &mut _| match &self.plain {
            Some(plain) => plain.cut(text, range, emit),
            None => emit_text(text, range, emit),
        };
        let mut done = 0;
        let ranges =
            trusted.iter().flat_map(|range| self.trusted.iter().map(move |all| (all, range.clone())));
        let marks = ranges.flat_map(|(all, range)| all.find_in(text, range));
        for mark in marks.filter(|found| found.entry.is_mark) {
            done = mark.emit(text, done, text.len(), &mut emit, plain);
        }
        plain(text, done..text.len(), &mut emit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(text: &'t str, trusted: &[Range<usize>]) -> Vec<Fragment<'t>> {
        let spelling = |id, text, reach, left, right, single_word| Spelling {
            id,
            text,
            reach,
            left,
            right,
            single_word,
        };
        let matcher = Matcher::new(&[
            spelling(1, "<|a|>", Reach::Mark, Strip::Nothing, Strip::Nothing, false),
            spelling(2, "<|a|>b", Reach::Mark, Strip::Nothing, Strip::Ascii, false),
            spelling(3, "\n\n", Reach::Added, Strip::Nothing, Strip::Nothing, false),
            spelling(4, "word", Reach::Added, Strip::White, Strip::Nothing, true),
        ]);
        let mut fragments = Vec::new();
        matcher.cut(text, trusted, |fragment| fragments.push(fragment));
        fragments
    }

    use Fragment::{Text, Token};

    #[test]
    fn marks_count_in_trusted_text_only() {
        let text = "x<|a|>y";
        assert_eq!(cut(text, std::slice::from_ref(&(0..text.len()))), [Text("x"), Token(1), Text("y")]);
        assert_eq!(cut(text, &[]), [Text(text)]);
        assert_eq!(cut(text, &[0..4, 5..7]), [Text(text)], "no mark reaches over a border");
    }

    #[test]
    fn the_longest_counts_and_may_strip() {
        let text = "<|a|>b \n\n z";
        assert_eq!(cut(text, std::slice::from_ref(&(0..text.len()))), [Token(2), Text("z")]);
    }

    #[test]
    fn a_token_may_stand_alone_only_and_swallow_what_is_before_it() {
        assert_eq!(cut("a \u{3000}word, words sword", &[]), [Text("a"), Token(4), Text(", words sword")]);
        assert_eq!(cut(" word", &[]), [Token(4)]);
    }

    #[test]
    fn added_tokens_count_across_borders() {
        assert_eq!(cut("x\n\ny", std::slice::from_ref(&(0..2))), [Text("x"), Token(3), Text("y")]);
    }
}
