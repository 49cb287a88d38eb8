//! Stop strings on streamed text.
//!
//! The rule, stated on the whole text: it ends before the first place where any stop string begins. What the client gets
//! is the text up to there, however the text was cut into pieces on the way. If a stop string is complete while a longer
//! one that began earlier could still follow, the matcher waits for the text that decides (at most the length of the
//! longest stop string). Text that may be the beginning of a stop string is held back until it is known to be none.
//!
//! This is an Aho-Corasick automaton over bytes: linear in the text, however the strings overlap. The longest suffix of
//! the text that begins a stop string is exactly what has to be held back; stop strings being UTF-8, it never begins
//! inside a character.

use std::collections::VecDeque;

/// Most stop strings of one request.
pub const MAX_STOPS: usize = 64;
/// Most bytes of one stop string: the text held back at a time has no more.
pub const MAX_STOP_BYTES: usize = 1024;

/// A refused list of stop strings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// An empty string is contained in every text.
    #[error("stop string {index} is empty and would end every reply before its first character")]
    Empty {
        /// Its place in the list, from 0.
        index: usize,
    },
    /// Longer than [`MAX_STOP_BYTES`].
    #[error("stop string {index} is {len} bytes long, but at most {MAX_STOP_BYTES} are taken")]
    TooLong {
        /// Its place in the list, from 0.
        index: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// More than [`MAX_STOPS`].
    #[error("{n} stop strings were given, but at most {MAX_STOPS} are taken")]
    TooMany {
        /// How many there are.
        n: usize,
    },
}

/// What a piece of text led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Text that is certain to be part of the reply.
    pub emit: String,
    /// The index of the stop string that ended the text, once one has.
    pub stopped: Option<usize>,
}

/// A stop string that ends at a node of the automaton.
#[derive(Debug, Clone, Copy)]
struct Match {
    index: usize,
    len: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    children: Vec<(u8, u32)>,
    /// The node of the longest proper suffix.
    suffix: u32,
    /// How many bytes of a stop string this node stands for.
    depth: usize,
    /// The longest stop string that ends here.
    ends: Option<Match>,
}

impl Node {
    fn child(&self, byte: u8) -> Option<u32> {
        self.children.iter().find(|(b, _)| *b == byte).map(|(_, node)| *node)
    }
}

/// Finds stop strings in a stream. See the module's head for the rule.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    nodes: Vec<Node>,
    state: u32,
    /// Text not yet emitted.
    held: String,
    /// A complete stop string in `held`: where it begins, and which it is.
    found: Option<(usize, usize)>,
    stopped: Option<usize>,
}

const ROOT: u32 = 0;

impl StopMatcher {
    /// Prepares the stop strings of a request; none is fine.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<StopMatcher, StopError> {
        if stops.len() > MAX_STOPS {
            return Err(StopError::TooMany { n: stops.len() });
        }
        let mut nodes = vec![Node::default()];
        for (index, stop) in stops.iter().map(AsRef::as_ref).enumerate() {
            match stop.len() {
                0 => return Err(StopError::Empty { index }),
                len @ ..=MAX_STOP_BYTES => insert(&mut nodes, stop.as_bytes(), Match { index, len }),
                len => return Err(StopError::TooLong { index, len }),
            }
        }
        link_suffixes(&mut nodes);
        Ok(StopMatcher { nodes, state: ROOT, held: String::new(), found: None, stopped: None })
    }

    /// Takes the next piece of text. After a stop, further text is ignored.
    pub fn push(&mut self, text: &str) -> Step {
        if self.stopped.is_some() {
            return Step { emit: String::new(), stopped: self.stopped };
        }
        let start = self.held.len();
        self.held.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            let end = start + at + 1;
            self.advance(byte);
            let node = &self.nodes[self.state as usize];
            if let Some(Match { index, len }) = node.ends
                && self.found.is_none_or(|(found, _)| end - len < found)
            {
                self.found = Some((end - len, index));
            }
            if self.found.is_some_and(|(found, _)| end - node.depth >= found) {
                return self.stop();
            }
        }
        let open = self.nodes[self.state as usize].depth;
        let emit = self.take(self.held.len() - open);
        Step { emit, stopped: None }
    }

    /// Ends the text: what was held back is decided now.
    pub fn finish(&mut self) -> Step {
        if self.found.is_some() && self.stopped.is_none() {
            return self.stop();
        }
        Step { emit: self.take(self.held.len()), stopped: self.stopped }
    }

    fn advance(&mut self, byte: u8) {
        loop {
            let node = &self.nodes[self.state as usize];
            if let Some(child) = node.child(byte) {
                self.state = child;
                return;
            }
            if self.state == ROOT {
                return;
            }
            self.state = node.suffix;
        }
    }

    fn stop(&mut self) -> Step {
        let emit = self.found.map_or_else(String::new, |(start, _)| self.take(start));
        self.stopped = self.found.map(|(_, index)| index);
        self.held.clear();
        Step { emit, stopped: self.stopped }
    }

    /// Takes the first bytes of the held text.
    fn take(&mut self, n_bytes: usize) -> String {
        let rest = self.held.split_off(n_bytes);
        self.found = self.found.map(|(start, index)| (start - n_bytes, index));
        std::mem::replace(&mut self.held, rest)
    }
}

fn insert(nodes: &mut Vec<Node>, stop: &[u8], ends: Match) {
    let mut at = ROOT;
    for (depth, &byte) in (1..).zip(stop) {
        at = nodes[at as usize].child(byte).unwrap_or_else(|| {
            let new = nodes.len() as u32;
            nodes.push(Node { depth, ..Node::default() });
            nodes[at as usize].children.push((byte, new));
            new
        });
    }
    // The first of two equal strings is the one reported.
    nodes[at as usize].ends.get_or_insert(ends);
}

/// Breadth first, so that a node's suffix, which is shorter, is complete before the node.
fn link_suffixes(nodes: &mut [Node]) {
    let mut queue = VecDeque::from([ROOT]);
    while let Some(parent) = queue.pop_front() {
        for i in 0..nodes[parent as usize].children.len() {
            let (byte, node) = nodes[parent as usize].children[i];
            let mut at = parent;
            let suffix = loop {
                if at == ROOT {
                    break ROOT;
                }
                at = nodes[at as usize].suffix;
                if let Some(child) = nodes[at as usize].child(byte) {
                    break child;
                }
            };
            let inherited = nodes[suffix as usize].ends;
            let this = &mut nodes[node as usize];
            this.suffix = suffix;
            this.ends = this.ends.or(inherited);
            queue.push_back(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule on the whole text: cut where the first stop string begins.
    fn cut<'t>(text: &'t str, stops: &[String]) -> (&'t str, bool) {
        let first = stops.iter().filter_map(|stop| text.find(stop.as_str())).min();
        first.map_or((text, false), |at| (&text[..at], true))
    }

    fn stream<S: AsRef<str>>(stops: &[S], pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopMatcher::new(stops).unwrap();
        let mut text = String::new();
        for piece in pieces {
            let step = matcher.push(piece);
            text.push_str(&step.emit);
            if step.stopped.is_some() {
                break;
            }
        }
        let last = matcher.finish();
        text.push_str(&last.emit);
        (text, last.stopped)
    }

    fn stopped(text: &str, index: usize) -> (String, Option<usize>) {
        (text.to_owned(), Some(index))
    }

    #[test]
    fn across_piece_borders() {
        assert_eq!(stream(&["</s>"], &["Hello<", "/", "s", "> more"]), stopped("Hello", 0));
        assert_eq!(stream(&["</s>"], &["a<", "/b", "<"]), ("a</b<".to_owned(), None));
        assert_eq!(stream(&["\n\n"], &["a\n", "b\n", "\nc"]), stopped("a\nb", 0));
    }

    #[test]
    fn holds_back_only_what_may_begin_a_stop_string() {
        let mut matcher = StopMatcher::new(&["abc", "cd"]).unwrap();
        let mut emitted = |piece| matcher.push(piece).emit;
        assert_eq!(
            [emitted("xa"), emitted("b"), emitted("x"), emitted("c"), emitted("c")],
            ["x", "", "abx", "", "c"]
        );
        assert_eq!(matcher.finish(), Step { emit: "c".to_owned(), stopped: None });
        assert_eq!(StopMatcher::new::<&str>(&[]).unwrap().push("all of it").emit, "all of it");
    }

    #[test]
    fn overlapping_stop_strings() {
        assert_eq!(stream(&["abc", "ab"], &["xabc"]), stopped("x", 1));
        assert_eq!(stream(&["ab", "ab"], &["ab"]), stopped("", 0));
        // "c" is complete first, but "abcd" began earlier: the text decides.
        assert_eq!(stream(&["abcd", "c"], &["xab", "c", "d"]), stopped("x", 0));
        assert_eq!(stream(&["abcd", "c"], &["xab", "c", "e"]), stopped("xab", 1));
        assert_eq!(stream(&["abcd", "c"], &["xab", "c"]), stopped("xab", 1));
        assert_eq!(stream(&["abcd", "bce", "c"], &["xabce"]), stopped("xa", 1));
    }

    #[test]
    fn inside_multi_byte_text() {
        // é is C3 A9 and ã C3 A3: a shared first byte holds nothing back that is not a whole character.
        assert_eq!(stream(&["é!"], &["cafã", "é", "?é", "!"]), stopped("cafãé?", 0));
        let mut matcher = StopMatcher::new(&["ã"]).unwrap();
        assert_eq!(matcher.push("é"), Step { emit: "é".to_owned(), stopped: None });
        assert_eq!(stream(&["世界"], &["你好世", "人世", "界"]), stopped("你好世人", 0));
    }

    #[test]
    fn after_a_stop_nothing_more() {
        let mut matcher = StopMatcher::new(&["."]).unwrap();
        assert_eq!(matcher.push("One. Two."), Step { emit: "One".to_owned(), stopped: Some(0) });
        let silent = Step { emit: String::new(), stopped: Some(0) };
        assert_eq!(
            [matcher.push("x"), matcher.finish(), matcher.finish()],
            [silent.clone(), silent.clone(), silent]
        );
    }

    #[test]
    fn lists_out_of_bounds_are_refused_by_name() {
        let error = |stops: &[String]| StopMatcher::new(stops).unwrap_err().to_string();
        let ok = "x".to_owned();
        assert_eq!(
            error(&[ok.clone(), String::new()]),
            "stop string 1 is empty and would end every reply before its first character"
        );
        assert_eq!(
            error(&["x".repeat(1025)]),
            "stop string 0 is 1025 bytes long, but at most 1024 are taken"
        );
        assert_eq!(error(&vec![ok; 65]), "65 stop strings were given, but at most 64 are taken");
        assert!(StopMatcher::new(&["x".repeat(1024)]).is_ok());
    }

    proptest! {
        /// Over a small alphabet with one-, two- and three-byte characters, however the text is cut into pieces.
        #[test]
        fn equals_the_rule_on_the_whole_text(
            stops in proptest::collection::vec("[abéã世]{1,5}", 0..5),
            pieces in proptest::collection::vec("[abéã世]{0,6}", 0..20),
        ) {
            let text = pieces.concat();
            let (expected, was_cut) = cut(&text, &stops);
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let by_char: Vec<String> = text.chars().map(String::from).collect();
            let by_char: Vec<&str> = by_char.iter().map(String::as_str).collect();
            for pieces in [&pieces[..], &by_char, &[text.as_str()]] {
                let (emitted, stopped) = stream(&stops, pieces);
                prop_assert_eq!(emitted.as_str(), expected);
                prop_assert_eq!(stopped.is_some(), was_cut);
                if let Some(index) = stopped {
                    prop_assert!(text[expected.len()..].starts_with(&stops[index]));
                }
            }
        }

        /// Never more held back than the longest stop string, never a character that no stop string needs.
        #[test]
        fn holds_back_little(text in "[ab世]{0,60}", stops in proptest::collection::vec("[ab世]{1,4}", 1..4)) {
            let mut matcher = StopMatcher::new(&stops).unwrap();
            let longest = stops.iter().map(String::len).max().unwrap_or(0);
            for c in text.chars() {
                matcher.push(&c.to_string());
                prop_assert!(matcher.held.len() <= longest);
            }
        }
    }
}
