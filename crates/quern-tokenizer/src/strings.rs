//! Many short strings in little memory, and finding one among them.
//!
//! A vocabulary has up to millions of strings: they lie in one blob, and the index holds eight bytes a slot. Hashes are
//! seeded per process, because the file chooses the strings and could otherwise make every one of them collide.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Byte strings, addressed by position.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    blob: Vec<u8>,
    ends: Vec<u32>,
}

impl Strings {
    pub(crate) fn with_capacity(n: usize, bytes: usize) -> Strings {
        Strings { blob: Vec::with_capacity(bytes), ends: Vec::with_capacity(n) }
    }

    /// Appends a string. The caller keeps the sum of all lengths within 32 bits.
    pub(crate) fn push(&mut self, string: &[u8]) {
        self.blob.extend_from_slice(string);
        self.end();
    }

    /// Ends the string whose bytes were pushed to [`Strings::tail`].
    pub(crate) fn end(&mut self) {
        self.ends.push(self.blob.len() as u32);
    }

    /// Where the bytes of the next string go.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.blob
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, i: u32) -> Option<&[u8]> {
        let i = i as usize;
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.blob[start..end])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..self.len() as u32).map(|i| (i, self.get(i).unwrap_or_default()))
    }
}

/// Finds strings of a [`Strings`] by content: open addressing, linear probing.
#[derive(Debug)]
pub(crate) struct StringIndex {
    /// High half of the hash, and position + 1; 0 marks an empty slot.
    slots: Vec<(u32, u32)>,
    seed: u64,
}

impl StringIndex {
    /// Indexes all strings but the empty ones; `Err` holds two positions of one string.
    pub(crate) fn new(strings: &Strings) -> Result<StringIndex, (u32, u32)> {
        let capacity = (strings.len() * 2).next_power_of_two().max(2);
        let mut index = StringIndex { slots: vec![(0, 0); capacity], seed: random_seed() };
        for (i, string) in strings.iter().filter(|(_, string)| !string.is_empty()) {
            let hash = hash_bytes(index.seed, string);
            match index.probe(strings, string, hash) {
                Ok(first) => return Err((first, i)),
                Err(slot) => index.slots[slot] = ((hash >> 32) as u32, i + 1),
            }
        }
        Ok(index)
    }

    pub(crate) fn find(&self, strings: &Strings, string: &[u8]) -> Option<u32> {
        self.probe(strings, string, hash_bytes(self.seed, string)).ok()
    }

    /// The string's position, or the slot that it would take.
    fn probe(&self, strings: &Strings, string: &[u8], hash: u64) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let tag = (hash >> 32) as u32;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                (_, 0) => return Err(slot),
                (t, i) if t == tag && strings.get(i - 1) == Some(string) => return Ok(i - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

/// Builds hashers for keys that are one `u64`.
#[derive(Debug, Clone)]
pub(crate) struct SeededU64 {
    seed: u64,
}

impl Default for SeededU64 {
    fn default() -> Self {
        SeededU64 { seed: random_seed() }
    }
}

impl BuildHasher for SeededU64 {
    type Hasher = U64Hasher;

    fn build_hasher(&self) -> U64Hasher {
        U64Hasher(self.seed)
    }
}

/// See [`SeededU64`].
#[derive(Debug)]
pub(crate) struct U64Hasher(u64);

impl Hasher for U64Hasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = fold(key ^ self.0, MULTIPLIER ^ self.0);
    }
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(0u64)
}

/// An odd constant without structure: the golden ratio's fraction, as is usual.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The two halves of the full product, folded: every input bit reaches every output bit.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash =
        words.iter().fold(seed, |hash, word| fold(u64::from_le_bytes(*word) ^ hash, MULTIPLIER ^ seed));
    fold(u64::from_le_bytes(last) ^ hash, MULTIPLIER ^ seed ^ bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(all: &[&str]) -> Strings {
        let mut strings = Strings::default();
        all.iter().for_each(|s| strings.push(s.as_bytes()));
        strings
    }

    #[test]
    fn strings_are_found_and_others_are_not() {
        let all: Vec<String> = (0..10_000).map(|i| format!("token {i}")).collect();
        let strings = strings(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let index = StringIndex::new(&strings).expect("all distinct");
        for (i, s) in all.iter().enumerate() {
            assert_eq!(index.find(&strings, s.as_bytes()), Some(i as u32));
        }
        assert_eq!(index.find(&strings, b"token 10000"), None);
        assert_eq!(index.find(&strings, b""), None);
    }

    #[test]
    fn a_repeated_string_is_reported_and_empty_ones_may_repeat() {
        assert_eq!(StringIndex::new(&strings(&["a", "b", "a"])).err(), Some((0, 2)));
        assert!(StringIndex::new(&strings(&["", "a", ""])).is_ok());
    }
}
