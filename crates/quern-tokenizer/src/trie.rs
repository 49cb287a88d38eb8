//! Tokens by prefix: what a text may begin with, found a byte at a time.
//!
//! Nodes are numbered breadth first, so the children of one lie side by side in the order of their bytes: nine bytes a
//! node, no hashing, and nothing that a file's choice of tokens could slow down.

use crate::merge::NO_TOKEN;

/// A tree of byte strings.
#[derive(Debug)]
pub(crate) struct Trie {
    /// The byte that leads to each node.
    labels: Vec<u8>,
    /// Where each node's children begin; one more entry than nodes.
    children: Vec<u32>,
    /// The token that ends at each node, or [`NO_TOKEN`].
    tokens: Vec<u32>,
}

impl Trie {
    /// Where every string begins.
    pub(crate) const ROOT: u32 = 0;

    /// A tree of these strings; of equal ones the last counts. Their lengths add up to less than 4 GiB.
    pub(crate) fn new(mut strings: Vec<(&[u8], u32)>) -> Trie {
        strings.sort_by(|a, b| a.0.cmp(b.0));
        let mut trie = Trie { labels: vec![0], children: Vec::new(), tokens: Vec::new() };
        // The strings below each node that is still to be described, and its depth.
        let mut level: Vec<_> = std::iter::once(0..strings.len()).collect();
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for range in level {
                let ending =
                    strings[range.clone()].iter().take_while(|(string, _)| string.len() == depth).count();
                let last = strings[range.clone()][..ending].last();
                trie.tokens.push(last.map_or(NO_TOKEN, |&(_, token)| token));
                trie.children.push(trie.labels.len() as u32);
                let mut at = range.start + ending;
                for child in strings[at..range.end].chunk_by(|a, b| a.0[depth] == b.0[depth]) {
                    trie.labels.push(child[0].0[depth]);
                    next.push(at..at + child.len());
                    at += child.len();
                }
            }
            level = next;
            depth += 1;
        }
        trie.children.push(trie.labels.len() as u32);
        trie
    }

    /// The node that `byte` leads to.
    pub(crate) fn step(&self, node: u32, byte: u8) -> Option<u32> {
        let (start, end) = (self.children[node as usize], self.children[node as usize + 1]);
        let labels = &self.labels[start as usize..end as usize];
        labels.binary_search(&byte).ok().map(|at| start + at as u32)
    }

    /// The node that `bytes` lead to.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        bytes.iter().try_fold(Trie::ROOT, |node, &byte| self.step(node, byte))
    }

    /// The token that ends at a node.
    pub(crate) fn token(&self, node: u32) -> Option<u32> {
        Some(self.tokens[node as usize]).filter(|&token| token != NO_TOKEN)
    }

    /// The tokens below `node` that `bytes` begin with, shortest first: length and token.
    pub(crate) fn prefixes<'a>(
        &'a self,
        node: u32,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let nodes = bytes.iter().scan(node, |node, &byte| {
            *node = self.step(*node, byte)?;
            Some(*node)
        });
        nodes.enumerate().filter_map(|(at, node)| Some((at + 1, self.token(node)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_shortest_first() {
        let strings = ["a", "abc", "ab\0", "b", "ábc"];
        let trie = Trie::new(strings.iter().zip(0..).map(|(s, id)| (s.as_bytes(), id)).collect());
        let found = |text: &str| trie.prefixes(Trie::ROOT, text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("abcd"), [(1, 0), (3, 1)]);
        assert_eq!(found("ab\0"), [(1, 0), (3, 2)]);
        assert_eq!(found("ábc"), [(4, 4)]);
        assert!(found("c").is_empty() && found("").is_empty());
        assert_eq!(trie.find(b"ab").map(|node| trie.token(node)), Some(None));
    }

    #[test]
    fn an_empty_string_ends_at_the_root() {
        let trie = Trie::new(vec![(b"", 7), (b"x", 8)]);
        assert_eq!((trie.token(Trie::ROOT), trie.find(b"x").and_then(|x| trie.token(x))), (Some(7), Some(8)));
        assert_eq!(Trie::new(Vec::new()).step(Trie::ROOT, 0), None);
    }
}
