//! Finding special tokens in text.
//!
//! All spellings are searched for at once with an Aho-Corasick automaton, leftmost and longest first, so the time does
//! not grow with their number (R45).

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

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
    /// Whether the token swallows the white space after it.
    pub(crate) strips: bool,
}

/// The automata for both kinds of text.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// Marks and added tokens.
    trusted: Automaton,
    /// Added tokens only.
    plain: Automaton,
}

#[derive(Debug)]
struct Automaton {
    /// `None` if there is nothing to find.
    search: Option<AhoCorasick>,
    /// By pattern.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    is_mark: bool,
    strips: bool,
}

struct Found {
    range: Range<usize>,
    entry: Entry,
}

impl Automaton {
    fn new<'s, 'a: 's>(
        spellings: impl Iterator<Item = &'s Spelling<'a>>,
    ) -> Result<Automaton, aho_corasick::BuildError> {
        let (mut texts, mut entries) = (Vec::new(), Vec::new());
        for spelling in spellings {
            texts.push(spelling.text);
            entries.push(Entry {
                id: spelling.id,
                is_mark: spelling.reach == Reach::Mark,
                strips: spelling.strips,
            });
        }
        let search = match texts.is_empty() {
            true => None,
            false => Some(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts)?),
        };
        Ok(Automaton { search, entries })
    }

    /// Matches in `text`, whose first byte lies at `offset`.
    fn find_in<'m>(&'m self, text: &'m str, offset: usize) -> impl Iterator<Item = Found> + 'm {
        self.search.iter().flat_map(move |search| search.find_iter(text)).map(move |found| Found {
            range: found.start() + offset..found.end() + offset,
            entry: self.entries[found.pattern().as_usize()],
        })
    }
}

impl Matcher {
    pub(crate) fn new(spellings: &[Spelling<'_>]) -> Result<Matcher, aho_corasick::BuildError> {
        Ok(Matcher {
            trusted: Automaton::new(spellings.iter())?,
            plain: Automaton::new(spellings.iter().filter(|spelling| spelling.reach == Reach::Added))?,
        })
    }

    /// Cuts `text` at its special tokens. Marks count only where they lie within one of the `trusted` ranges, which are
    /// ascending; added tokens count anywhere.
    pub(crate) fn cut<'t>(
        &self,
        text: &'t str,
        trusted: &[Range<usize>],
        mut emit: impl FnMut(Fragment<'t>),
    ) {
        let mut done = 0;
        let marks = trusted.iter().flat_map(|range| self.trusted.find_in(&text[range.clone()], range.start));
        for mark in marks.filter(|found| found.entry.is_mark) {
            // White space stripped after the last mark may reach over the start of this one only if this one is white
            // space itself.
            let start = mark.range.start.max(done);
            self.cut_plain(&text[done..start], &mut emit);
            emit(Fragment::Token(mark.entry.id));
            done = mark.range.end.max(done);
            if mark.entry.strips {
                let rest = text[done..].trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0B');
                done = text.len() - rest.len();
            }
        }
        self.cut_plain(&text[done..], &mut emit);
    }

    fn cut_plain<'t>(&self, text: &'t str, emit: &mut impl FnMut(Fragment<'t>)) {
        let mut done = 0;
        for found in self.plain.find_in(text, 0) {
            if found.range.start > done {
                emit(Fragment::Text(&text[done..found.range.start]));
            }
            emit(Fragment::Token(found.entry.id));
            done = found.range.end;
        }
        if done < text.len() {
            emit(Fragment::Text(&text[done..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(text: &'t str, trusted: &[Range<usize>]) -> Vec<Fragment<'t>> {
        let spelling = |id, text, reach, strips| Spelling { id, text, reach, strips };
        let matcher = Matcher::new(&[
            spelling(1, "<|a|>", Reach::Mark, false),
            spelling(2, "<|a|>b", Reach::Mark, true),
            spelling(3, "\n\n", Reach::Added, false),
        ])
        .expect("three short spellings");
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
    fn added_tokens_count_across_borders() {
        assert_eq!(cut("x\n\ny", std::slice::from_ref(&(0..2))), [Text("x"), Token(3), Text("y")]);
    }
}
