//! The merge loop: neighbours join, best pair first, until no pair joins.
//!
//! Symbols form a linked list; possible joins wait in a binary heap, ordered by priority and then by position, so that
//! among equals the leftmost goes first (G30). A join leaves stale candidates in the heap, which are recognised when
//! they come up by the length they were made for. Each join adds at most two candidates, so a text of n symbols takes at
//! most 3n of them, and O(n log n) steps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A symbol that is no token (yet).
pub(crate) const NO_TOKEN: u32 = u32::MAX;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// What a vocabulary says about two neighbours.
pub(crate) trait Joins {
    /// How `left` and `right`, which stand side by side as `text`, join; `None` if they do not.
    fn join(&self, left: u32, right: u32, text: &[u8]) -> Option<Join>;
}

/// A possible join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Join {
    /// Lower goes first.
    pub(crate) priority: u32,
    /// The resulting token.
    pub(crate) id: u32,
}

/// A stretch of the text, in order.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: u32,
    /// 0 once joined to the left neighbour.
    len: u32,
    id: u32,
    prev: u32,
    next: u32,
}

/// Ordered by priority, then by the left symbol's position; the rest only makes the order total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: u32,
    left: u32,
    right: u32,
    len: u32,
    id: u32,
}

/// The loop and its memory, which is kept from one text to the next.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Reverse<Candidate>>,
    /// Candidates taken from the heap.
    #[cfg(test)]
    pub(crate) steps: usize,
}

impl Merger {
    /// Starts a new text.
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
        self.heap.clear();
    }

    /// Appends a symbol of the text's next `len` bytes. A text is shorter than 4 GiB.
    pub(crate) fn push(&mut self, len: usize, id: u32) {
        let at = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, |last| last.start + last.len);
        if let Some(last) = self.symbols.last_mut() {
            last.next = at;
        }
        self.symbols.push(Symbol { start, len: len as u32, id, prev: at.wrapping_sub(1), next: NONE });
    }

    /// Joins symbols of `text`, all of which has been pushed, until none join.
    pub(crate) fn merge(&mut self, text: &[u8], joins: &impl Joins) {
        for left in 0..(self.symbols.len() as u32).saturating_sub(1) {
            self.consider(left, left + 1, text, joins);
        }
        while let Some(Reverse(candidate)) = self.heap.pop() {
            #[cfg(test)]
            {
                self.steps += 1;
            }
            let left = self.symbols[candidate.left as usize];
            let right = self.symbols[candidate.right as usize];
            if left.len == 0 || right.len == 0 || left.len + right.len != candidate.len {
                continue;
            }
            let joined = &mut self.symbols[candidate.left as usize];
            joined.len = candidate.len;
            joined.id = candidate.id;
            joined.next = right.next;
            self.symbols[candidate.right as usize].len = 0;
            if right.next != NONE {
                self.symbols[right.next as usize].prev = candidate.left;
                self.consider(candidate.left, right.next, text, joins);
            }
            if left.prev != NONE {
                self.consider(left.prev, candidate.left, text, joins);
            }
        }
    }

    /// The symbols that are left: where each lies in the text, and its token.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u32)> {
        let live = self.symbols.iter().filter(|symbol| symbol.len > 0);
        live.map(|symbol| (symbol.start as usize..(symbol.start + symbol.len) as usize, symbol.id))
    }

    fn consider(&mut self, left: u32, right: u32, text: &[u8], joins: &impl Joins) {
        let (l, r) = (self.symbols[left as usize], self.symbols[right as usize]);
        let len = l.len + r.len;
        if let Some(Join { priority, id }) =
            joins.join(l.id, r.id, &text[l.start as usize..(l.start + len) as usize])
        {
            self.heap.push(Reverse(Candidate { priority, left, right, len, id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins any two symbols whose text is in the list; earlier goes first where priorities are its positions.
    struct List(&'static [(&'static str, u32)]);

    impl Joins for List {
        fn join(&self, _: u32, _: u32, text: &[u8]) -> Option<Join> {
            let at = self.0.iter().position(|(piece, _)| piece.as_bytes() == text)?;
            Some(Join { priority: self.0[at].1, id: at as u32 })
        }
    }

    fn pieces(text: &'static str, list: &List) -> Vec<&'static str> {
        let mut merger = Merger::default();
        text.chars().for_each(|c| merger.push(c.len_utf8(), NO_TOKEN));
        merger.merge(text.as_bytes(), list);
        merger.symbols().map(|(range, _)| &text[range]).collect()
    }

    /// G30: SentencePiece merges the leftmost of equal scores, whatever the ids.
    #[test]
    fn equal_priorities_join_leftmost_first() {
        assert_eq!(pieces("abc", &List(&[("bc", 5), ("ab", 5)])), ["ab", "c"]);
        assert_eq!(pieces("aaaaa", &List(&[("aa", 5)])), ["aa", "aa", "a"]);
    }

    #[test]
    fn the_better_priority_goes_first_wherever_it_stands() {
        assert_eq!(pieces("abc", &List(&[("bc", 1), ("ab", 5)])), ["a", "bc"]);
        assert_eq!(pieces("abcd", &List(&[("ab", 3), ("cd", 2), ("bc", 1), ("bcd", 4)])), ["a", "bcd"]);
    }

    #[test]
    fn nothing_joins_in_an_empty_text() {
        assert!(pieces("", &List(&[])).is_empty());
    }
}
