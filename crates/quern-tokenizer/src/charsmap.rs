//! SentencePiece's precompiled normalisation rules: strings and what they are replaced by.
//!
//! A charsmap is a length in bytes (32 bits, little-endian), a double array of that length that holds the strings, and
//! the replacements, each ended by a zero byte. An entry of the double array packs, as in the Darts-clone library: the
//! byte that leads to it (bits 0-7), whether a string ends there (bit 8), and the offset to its children (bits 10-30,
//! times 256 if bit 9 is set). The child at byte 0 of an entry where a string ends holds the offset of its replacement.

use crate::error::TokenizerError;

/// Bytes of the longest replacement that is accepted; Unicode's longest compatibility form has 33.
const LONGEST: usize = 128;

/// Bytes of the longest string that is looked for, so that an array that leads in circles takes no longer. The longest
/// in use have fewer than twenty.
const LONGEST_KEY: usize = 64;

/// The rules, ready for use. Whatever the array holds, a look-up ends within the text and the array.
#[derive(Debug)]
pub(crate) struct Charsmap {
    array: Vec<u32>,
    replacements: String,
}

impl Charsmap {
    pub(crate) fn new(blob: &[u8]) -> Result<Charsmap, TokenizerError> {
        let bad = |why| TokenizerError::BadCharsmap { why };
        let (length, rest) = blob.split_first_chunk::<4>().ok_or(bad("is shorter than its header"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (array, replacements) = rest.split_at_checked(length).ok_or(bad("is shorter than its array"))?;
        let (array, []) = array.as_chunks::<4>() else {
            return Err(bad("has an array of incomplete entries"));
        };
        let replacements =
            std::str::from_utf8(replacements).map_err(|_| bad("holds text that is not UTF-8"))?;
        if replacements.split('\0').any(|replacement| replacement.len() > LONGEST) {
            return Err(bad("has a replacement of more than 128 bytes"));
        }
        if !replacements.is_empty() && !replacements.ends_with('\0') {
            return Err(bad("has a last replacement without an end"));
        }
        Ok(Charsmap {
            array: array.iter().map(|entry| u32::from_le_bytes(*entry)).collect(),
            replacements: replacements.to_owned(),
        })
    }

    /// How many times as long as its string the longest replacement may be.
    pub(crate) fn growth(&self) -> usize {
        self.replacements.split('\0').map(str::len).max().unwrap_or(0)
    }

    /// The strings that `text` begins with, shortest first: length and replacement.
    pub(crate) fn prefixes<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> + 'a {
        let mut node = self.array.first().map(|&root| offset(root));
        let nodes = text.bytes().take(LONGEST_KEY).map_while(move |byte| {
            let at = node? ^ u32::from(byte);
            let entry = *self.array.get(at as usize)?;
            let is_child = byte != 0 && entry & (1 << 31 | 0xFF) == u32::from(byte);
            let children = at ^ offset(entry);
            node = is_child.then_some(children);
            is_child.then_some((entry >> 8 & 1 == 1).then_some(children))
        });
        nodes.enumerate().filter_map(|(at, end)| {
            let value = self.array.get(end? as usize)? & !(1 << 31);
            let replacement = self.replacements.get(value as usize..)?;
            text.is_char_boundary(at + 1).then_some(())?;
            Some((at + 1, &replacement[..replacement.find('\0')?]))
        })
    }

    /// Appends `text`, at each place the longest string replaced, as SentencePiece does.
    pub(crate) fn replace_longest(&self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let len = match self.prefixes(rest).last() {
                Some((len, replacement)) => {
                    out.push_str(replacement);
                    len
                }
                None => {
                    out.push(c);
                    c.len_utf8()
                }
            };
            rest = &rest[len..];
        }
    }
}

/// The distance to an entry's children.
fn offset(entry: u32) -> u32 {
    entry >> 10 << ((entry & 1 << 9) >> 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules `a` to `xy`, and `é` to nothing, laid out by hand.
    pub(crate) fn blob() -> Vec<u8> {
        let mut array = vec![0u32; 1024];
        let leaf = 1 << 8;
        let to = |from: u32, children: u32| (from ^ children) << 10;
        // The root's children begin at 256.
        array[0] = to(0, 256);
        let a = 256 ^ u32::from(b'a');
        array[a as usize] = u32::from(b'a') | leaf | to(a, 512);
        array[512] = 1 << 31;
        let [first, second] = [0xC3u32, 0xA9];
        let c3 = 256 ^ first;
        array[c3 as usize] = first | to(c3, 768);
        let a9 = 768 ^ second;
        array[a9 as usize] = second | leaf | to(a9, 600);
        array[600] = 1 << 31 | 3;
        let mut blob = (array.len() as u32 * 4).to_le_bytes().to_vec();
        blob.extend(array.iter().flat_map(|entry| entry.to_le_bytes()));
        blob.extend_from_slice(b"xy\0\0");
        blob
    }

    #[test]
    fn strings_are_replaced() {
        let map = Charsmap::new(&blob()).expect("well-formed");
        let mut out = String::new();
        map.replace_longest("bañé \0a日", &mut out);
        assert_eq!(out, "bxyñ \0xy日");
    }

    #[test]
    fn what_is_cut_short_is_refused_and_nonsense_ends() {
        let whole = blob();
        for len in [0, 3, 4, 100, whole.len() - 2] {
            assert!(Charsmap::new(&whole[..len]).is_err(), "{len}");
        }
        for seed in 0..64u32 {
            let mut odd = whole.clone();
            let end = odd.len() - 4;
            for (at, byte) in odd[4..end].iter_mut().enumerate() {
                *byte = (at as u32)
                    .wrapping_mul(2_654_435_761)
                    .wrapping_add(seed.wrapping_mul(40_503))
                    .to_le_bytes()[2];
            }
            if let Ok(map) = Charsmap::new(&odd) {
                map.replace_longest("any text, é, 日本", &mut String::new());
            }
        }
    }
}
