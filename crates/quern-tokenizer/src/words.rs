//! Where text with escaped spaces can be cut without changing its tokens: between two characters of which the second is
//! a space and the pair is inside no token. Short words keep what works on them small and in the cache.

use crate::model::SPACE;

/// The borders of words.
#[derive(Debug)]
pub(crate) struct Words {
    /// Last bytes of the characters that stand before a space inside some token.
    before_space: [bool; 256],
}

impl Words {
    /// For a vocabulary of these spellings.
    pub(crate) fn new<'a>(spellings: impl Iterator<Item = &'a [u8]>) -> Words {
        let mut before_space = [false; 256];
        for spelling in spellings {
            let spaces = spelling.windows(SPACE.len()).enumerate().filter(|(_, w)| *w == SPACE.as_bytes());
            for (at, _) in spaces.filter(|&(at, _)| at > 0) {
                before_space[usize::from(spelling[at - 1])] = true;
            }
        }
        Words { before_space }
    }

    /// Emits the words of a text.
    pub(crate) fn split<'t>(&self, text: &'t str, mut emit: impl FnMut(&'t str)) {
        let mut start = 0;
        for (at, _) in text.match_indices(SPACE) {
            if at > start && !self.before_space[usize::from(text.as_bytes()[at - 1])] {
                emit(&text[start..at]);
                start = at;
            }
        }
        if start < text.len() {
            emit(&text[start..]);
        }
    }
}
