//! Many short strings in little memory, and finding one among them.
//!
//! A vocabulary has up to millions of strings: they lie in one blob, and the index holds sixteen bytes a slot. Hashes are
//! seeded per process, because the file chooses the strings and could otherwise make every one of them collide.

use std::hash::{BuildHasher, RandomState};

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
    slots: Vec<Slot>,
    seed: u64,
}

/// Holds the start of its string, so that a short one is recognised without a second trip to memory.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The first eight bytes, with zeros after a shorter string.
    head: u64,
    len: u32,
    /// Position + 1; 0 marks an empty slot.
    entry: u32,
}

impl StringIndex {
    /// Indexes all strings but the empty ones; `Err` holds two positions of one string.
    pub(crate) fn new(strings: &Strings) -> Result<StringIndex, (u32, u32)> {
        let capacity = (strings.len() * 2).next_power_of_two().max(2);
        let mut index = StringIndex { slots: vec![Slot::default(); capacity], seed: random_seed() };
        for (i, string) in strings.iter().filter(|(_, string)| !string.is_empty()) {
            match index.probe(strings, string) {
                Ok(first) => return Err((first, i)),
                Err(slot) => {
                    index.slots[slot] = Slot { head: head(string), len: string.len() as u32, entry: i + 1 };
                }
            }
        }
        Ok(index)
    }

    pub(crate) fn find(&self, strings: &Strings, string: &[u8]) -> Option<u32> {
        self.probe(strings, string).ok()
    }

    /// The string's position, or the slot that it would take.
    fn probe(&self, strings: &Strings, string: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let head = head(string);
        let mut at = hash_bytes(self.seed, string) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.entry == 0 {
                return Err(at);
            }
            let alike = slot.head == head && slot.len as usize == string.len();
            if alike && (string.len() <= 8 || strings.get(slot.entry - 1) == Some(string)) {
                return Ok(slot.entry - 1);
            }
            at = (at + 1) & mask;
        }
    }
}

/// The first eight bytes, with zeros after a shorter string.
fn head(string: &[u8]) -> u64 {
    match string.first_chunk::<8>() {
        Some(head) => u64::from_le_bytes(*head),
        None => short(string),
    }
}

/// Up to eight bytes as a number, without a call for so small a copy.
fn short(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Pairs of numbers by pairs of ids, in one access to memory: merging asks for little else.
#[derive(Debug)]
pub(crate) struct PairMap {
    slots: Vec<PairSlot>,
    seed: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct PairSlot {
    /// The left id + 1; 0 marks an empty slot.
    left: u32,
    right: u32,
    value: (u32, u32),
}

impl PairMap {
    /// A map for at most `n` pairs.
    pub(crate) fn with_capacity(n: usize) -> PairMap {
        let capacity = (n * 2).next_power_of_two().max(2);
        PairMap { slots: vec![PairSlot::default(); capacity], seed: random_seed() }
    }

    /// Adds a pair, unless it is there already. Ids are below `u32::MAX`.
    pub(crate) fn insert(&mut self, left: u32, right: u32, value: (u32, u32)) {
        let at = self.probe(left + 1, right);
        if self.slots[at].left == 0 {
            self.slots[at] = PairSlot { left: left + 1, right, value };
        }
    }

    pub(crate) fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let slot = self.slots[self.probe(left.checked_add(1)?, right)];
        (slot.left != 0).then_some(slot.value)
    }

    /// The pair's slot, or the one that it would take. At least half of all slots are empty.
    fn probe(&self, left: u32, right: u32) -> usize {
        let mask = self.slots.len() - 1;
        let key = u64::from(left) << 32 | u64::from(right);
        let mut at = fold(key ^ self.seed, MULTIPLIER ^ self.seed) as usize & mask;
        while self.slots[at].left != 0 && (self.slots[at].left, self.slots[at].right) != (left, right) {
            at = (at + 1) & mask;
        }
        at
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
    let hash =
        words.iter().fold(seed, |hash, word| fold(u64::from_le_bytes(*word) ^ hash, MULTIPLIER ^ seed));
    fold(short(rest) ^ hash, MULTIPLIER ^ seed ^ bytes.len() as u64)
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

    #[test]
    fn pairs_keep_their_first_value() {
        let mut map = PairMap::with_capacity(1000);
        for i in 0..1000 {
            map.insert(i, i / 2, (i, 7));
            map.insert(i, i / 2, (0, 0));
        }
        assert!((0..1000).all(|i| map.get(i, i / 2) == Some((i, 7))));
        assert_eq!([map.get(1, 1), map.get(1000, 500), map.get(u32::MAX, 0)], [None; 3]);
    }
}
