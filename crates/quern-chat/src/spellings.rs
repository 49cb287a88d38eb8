//! The spellings of a model's control tokens, and where they or pieces of them stand in a text.

use std::collections::HashSet;
use std::ops::Range;

/// Control-token spellings, prepared for search. Spellings of white space alone are left out: no text could be kept
/// apart from them without changing what a template sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spellings {
    set: HashSet<String>,
    /// Distinct lengths in bytes, longest first.
    lengths: Vec<usize>,
    /// In byte order, to find what starts with a given text.
    sorted: Vec<String>,
    /// Each spelling backwards, in byte order, to find what ends with a given text.
    reversed: Vec<String>,
    /// All of them, joined with a separator no needle may hold.
    joined: String,
}

const SEPARATOR: char = '\0';

/// How far from a border an unfinished spelling is looked for, in bytes. Real spellings stay well under it; a hostile
/// vocabulary may not, and the search is quadratic in this.
const MAX_BORDER: usize = 256;

impl Spellings {
    pub(crate) fn new(spellings: impl IntoIterator<Item = String>) -> Spellings {
        let set: HashSet<String> = spellings.into_iter().filter(|s| !s.trim().is_empty()).collect();
        let mut lengths: Vec<usize> = set.iter().map(String::len).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let mut sorted: Vec<String> = set.iter().cloned().collect();
        sorted.sort_unstable();
        let mut reversed: Vec<String> = set.iter().map(|s| reverse(s)).collect();
        reversed.sort_unstable();
        let joined = sorted.join("\0");
        Spellings { set, lengths, sorted, reversed, joined }
    }

    pub(crate) fn contains(&self, spelling: &str) -> bool {
        self.set.contains(spelling)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.sorted.iter().map(String::as_str)
    }

    /// The longest spelling that `text` starts with.
    pub(crate) fn longest_at_start(&self, text: &str) -> Option<usize> {
        self.lengths.iter().copied().find(|&n| text.get(..n).is_some_and(|head| self.contains(head)))
    }

    /// The longest spelling that `text` ends with.
    pub(crate) fn longest_at_end(&self, text: &str) -> Option<usize> {
        let tail = |n: usize| text.len().checked_sub(n).and_then(|start| text.get(start..));
        self.lengths.iter().copied().find(|&n| tail(n).is_some_and(|t| self.contains(t)))
    }

    /// Every place where a whole spelling stands; ranges may overlap.
    pub(crate) fn find_all(&self, text: &str) -> Vec<Range<usize>> {
        if self.set.is_empty() {
            return Vec::new();
        }
        text.char_indices()
            .filter_map(|(at, _)| self.longest_at_start(&text[at..]).map(|n| at..at + n))
            .collect()
    }

    /// The longest end of `text` that begins some longer spelling: `a <|im_` could go on to become `<|im_end|>`.
    pub(crate) fn unfinished_end(&self, text: &str) -> Option<Range<usize>> {
        let longest = self.border()?;
        let candidates = text.char_indices().rev().take_while(|(at, _)| text.len() - at < longest);
        candidates
            .filter(|&(at, _)| begins_one(&self.sorted, &text[at..]))
            .last()
            .map(|(at, _)| at..text.len())
    }

    /// The longest start of `text` that ends some longer spelling.
    pub(crate) fn unstarted_begin(&self, text: &str) -> Option<Range<usize>> {
        let longest = self.border()?;
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end < longest);
        ends.filter(|&end| begins_one(&self.reversed, &reverse(&text[..end]))).last().map(|end| 0..end)
    }

    /// A border's piece is shorter than the longest spelling.
    fn border(&self) -> Option<usize> {
        self.lengths.first().map(|&longest| longest.min(MAX_BORDER))
    }

    /// Whether all of `text` is a piece from inside some spelling, as `im_end` is of `<|im_end|>`.
    pub(crate) fn is_piece(&self, text: &str) -> bool {
        let fits = self.lengths.first().is_some_and(|&longest| text.len() < longest);
        fits && !text.is_empty() && !text.contains(SEPARATOR) && self.joined.contains(text)
    }
}

fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

/// Whether a member of `sorted` starts with `text` and is longer.
fn begins_one(sorted: &[String], text: &str) -> bool {
    let at = sorted.partition_point(|s| s.as_str() <= text);
    sorted.get(at).is_some_and(|s| s.starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chatml() -> Spellings {
        Spellings::new(["<|im_start|>", "<|im_end|>", "</s>", " \n"].map(String::from))
    }

    #[test]
    fn whole_spellings_are_found_even_when_they_overlap() {
        assert_eq!(chatml().find_all("é<|im_end|></s>"), [2..12, 12..16]);
        let overlapping = Spellings::new(["ab>".to_string(), ">a".to_string()]);
        assert_eq!(overlapping.find_all("ab>a"), [0..3, 2..4]);
        assert!(chatml().find_all("plain < text |> \n").is_empty(), "white space alone is no spelling");
    }

    #[test]
    fn pieces_at_the_borders_are_found() {
        let s = chatml();
        assert_eq!(s.unfinished_end("a <|im_"), Some(2..7));
        assert_eq!(s.unfinished_end("<<"), Some(1..2));
        assert_eq!(s.unfinished_end("<|im_end|>"), None, "a whole one is not unfinished");
        assert_eq!(s.unfinished_end("abc"), None);
        assert_eq!(s.unstarted_begin("end|> x"), Some(0..5));
        assert_eq!(s.unstarted_begin("> y"), Some(0..1));
        assert_eq!(s.unstarted_begin("x>"), None);
        assert!(s.is_piece("|im_end|") && s.is_piece("s") && !s.is_piece("user") && !s.is_piece(""));
    }
}
