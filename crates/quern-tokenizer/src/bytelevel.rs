//! The alphabet in which byte-level vocabularies spell bytes.
//!
//! GPT-2 writes each byte as one printable character: printable Latin-1 bytes as themselves, the other 68 as U+0100
//! onwards, in order. So a space is spelled `Ġ` and a newline `Ċ`.

/// Bytes that are spelled as themselves.
const fn is_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character of each byte.
const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut shifted = 0;
    let mut byte = 0;
    while byte < 256 {
        chars[byte] = if is_itself(byte as u8) {
            byte as u8 as char
        } else {
            shifted += 1;
            match char::from_u32(0xFF + shifted) {
                Some(c) => c,
                None => panic!("within U+0100..U+0144"),
            }
        };
        byte += 1;
    }
    chars
};

/// The byte of each character below U+0144; `None` for those that spell no byte.
const BYTES: [Option<u8>; 0x144] = {
    let mut bytes = [None; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

/// The character that spells a byte.
pub(crate) fn spelled(byte: u8) -> char {
    CHARS[byte as usize]
}

/// Appends the spelling of `bytes`.
pub(crate) fn spell(bytes: &[u8], out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for &byte in bytes {
        out.extend_from_slice(spelled(byte).encode_utf8(&mut utf8).as_bytes());
    }
}

/// Appends the bytes that `spelling` stands for. A spelling with characters outside the alphabet stands for itself:
/// some published vocabularies hold a few such tokens.
pub(crate) fn unspell(spelling: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let byte_of = |c: char| BYTES.get(c as usize).copied().flatten();
    let complete = std::str::from_utf8(spelling).is_ok_and(|text| {
        text.chars().all(|c| match byte_of(c) {
            Some(byte) => {
                out.push(byte);
                true
            }
            None => false,
        })
    });
    if !complete {
        out.truncate(start);
        out.extend_from_slice(spelling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_gpt2s() {
        // From the published vocab.json: the characters for space, newline, tab, 0x7F, 0xA0 and 0xAD.
        for (byte, c) in
            [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'\t', 'ĉ'), (0x7F, 'ġ'), (0xA0, 'ł'), (0xAD, 'Ń'), (b'a', 'a')]
        {
            assert_eq!(spelled(byte), c);
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut spelling, mut back) = (Vec::new(), Vec::new());
        spell(&all, &mut spelling);
        unspell(&spelling, &mut back);
        assert_eq!(back, all);
    }

    #[test]
    fn a_spelling_outside_the_alphabet_stands_for_itself() {
        let mut out = Vec::new();
        unspell("Ġ<｜x｜>".as_bytes(), &mut out);
        assert_eq!(out, "Ġ<｜x｜>".as_bytes());
    }
}
