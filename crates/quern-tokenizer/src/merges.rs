//! Merges by rank.

use crate::error::{TokenizerError, quote};
use crate::merge::{Join, Joins};
use crate::strings::PairMap;
use crate::vocab::Tokens;

/// What two tokens join to, and in which order.
#[derive(Debug)]
pub(crate) struct Merges(PairMap);

/// A merge whose parts are still to be found.
struct Spelled<'a> {
    rank: u32,
    id: u32,
    left: &'a [u8],
    right: &'a [u8],
}

impl Merges {
    /// Merges that lead from or to a token that is not ordinary text are checked but left out.
    pub(crate) fn new(
        merges: &[&[u8]],
        tokens: &Tokens,
        is_text: impl Fn(u32) -> bool,
    ) -> Result<Merges, TokenizerError> {
        let refused = |rank: usize| TokenizerError::BadMerge { index: rank, merge: quote(merges[rank]) };
        let mut map = PairMap::with_capacity(merges.len());
        let mut last = 0;
        let ranks: Vec<usize> = (0..merges.len()).collect();
        // Each step runs over a whole batch: its accesses to memory, scattered over large tables, then overlap. That
        // halves the time for the largest vocabularies.
        for batch in ranks.chunks(BATCH) {
            let mut spelled = Vec::with_capacity(BATCH);
            for &rank in batch {
                let merge =
                    Spelled::new(merges[rank], rank as u32, last, tokens).ok_or_else(|| refused(rank))?;
                last = merge.id;
                spelled.push(merge);
            }
            let lefts: Vec<Option<u32>> = spelled.iter().map(|merge| tokens.find(merge.left)).collect();
            let rights: Vec<Option<u32>> = spelled.iter().map(|merge| tokens.find(merge.right)).collect();
            for ((merge, left), right) in spelled.iter().zip(lefts).zip(rights) {
                let (Some(left), Some(right)) = (left, right) else {
                    return Err(refused(merge.rank as usize));
                };
                if is_text(left) && is_text(right) && is_text(merge.id) {
                    map.insert(left, right, (merge.rank, merge.id));
                }
            }
        }
        Ok(Merges(map))
    }
}

const BATCH: usize = 64;

impl<'a> Spelled<'a> {
    /// Takes a merge apart and finds its result, which probably is at `last` or next to it: vocabularies are made in the
    /// order of their merges.
    fn new(merge: &'a [u8], rank: u32, last: u32, tokens: &Tokens) -> Option<Spelled<'a>> {
        // The first character may itself be a space.
        let space = merge.iter().skip(1).position(|&byte| byte == b' ')? + 1;
        let (left, right) = (&merge[..space], &merge[space + 1..]);
        let is_result = |id: &u32| {
            tokens.spellings.get(*id).and_then(|spelling| spelling.strip_prefix(left)) == Some(right)
        };
        let id = (last..=last + 1).find(is_result).or_else(|| tokens.find(&[left, right].concat()))?;
        Some(Spelled { rank, id, left, right })
    }
}

impl Joins for Merges {
    fn join(&self, left: u32, right: u32, _: &[u8]) -> Option<Join> {
        // No pair in the map has a part that is no token.
        self.0.get(left, right).map(|(priority, id)| Join { priority, id })
    }
}
