//! RWKV's vocabularies: at each place the longest token that fits, over bytes.

use crate::error::TokenizerError;
use crate::model::{Kind, Model, text_tokens};
use crate::special::{Defaults, Roles};
use crate::strings::Strings;
use crate::trie::Trie;
use crate::vocab::{Tokens, Vocab};

/// The model `rwkv` of GGUF files.
pub(crate) fn build(vocab: &Vocab<'_>, tokens: Tokens) -> Result<(Model, Roles), TokenizerError> {
    let roles = Roles::new(&vocab.special, Defaults::default(), &tokens)?;
    let model = Model::new(tokens, &roles, None, |tokens, reach| {
        let text = text_tokens(tokens, reach);
        let mut bytes = Strings::with_capacity(text.len(), 0);
        for (spelling, _) in &text {
            unescape(spelling, bytes.tail());
            bytes.end();
        }
        let unescaped = bytes.iter().zip(&text).map(|((_, bytes), &(_, id))| (bytes, id));
        Ok(Kind::Rwkv(Rwkv::new(unescaped.filter(|(bytes, _)| !bytes.is_empty()).collect())))
    })?;
    Ok((model, roles))
}

/// The tokens' bytes.
#[derive(Debug)]
pub(crate) struct Rwkv(Trie);

impl Rwkv {
    /// The vocabulary of these tokens, which are given as the bytes that they stand for.
    pub(crate) fn new(tokens: Vec<(&[u8], u32)>) -> Rwkv {
        Rwkv(Trie::new(tokens))
    }

    /// The token of a single byte.
    pub(crate) fn byte(&self, byte: u8) -> Option<u32> {
        self.0.step(Trie::ROOT, byte).and_then(|node| self.0.token(node))
    }

    /// Emits the tokens of a text; `None` for a byte that has none.
    pub(crate) fn encode(&self, text: &[u8], mut emit: impl FnMut(Option<u32>)) {
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.0.prefixes(Trie::ROOT, rest).last();
            emit(found.map(|(_, token)| token));
            rest = &rest[found.map_or(1, |(len, _)| len)..];
        }
    }
}

/// Appends the bytes that a token of a GGUF file stands for: it is spelled with `\t`, `\n`, `\r`, and `\x` with two
/// hexadecimal digits; a backslash before anything else stands for that. An escape that is cut short stands for itself.
pub(crate) fn unescape(spelling: &[u8], out: &mut Vec<u8>) {
    let mut rest = spelling;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, used) = match (first, after) {
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'x', high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (b'x', 2),
            },
            (b'\\', [other, ..]) => (*other, 2),
            _ => (first, 1),
        };
        out.push(byte);
        rest = &rest[used..];
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spellings from the published vocabulary, converted: a line break, a backslash, a quote, a byte of its own.
    #[test]
    fn spellings_are_unescaped() {
        let cases: [(&str, &[u8]); 7] = [
            (r"\n\r\t", b"\n\r\t"),
            (r"\\", b"\\"),
            (r"\'", b"'"),
            (r"\xe4", b"\xE4"),
            ("\u{e9}a", b"\xC3\xA9a"),
            (r"\x4", b"x4"),
            ("\\", b"\\"),
        ];
        for (spelling, bytes) in cases {
            let mut out = Vec::new();
            unescape(spelling.as_bytes(), &mut out);
            assert_eq!(out, bytes, "{spelling}");
        }
    }

    #[test]
    fn the_longest_token_goes_first() {
        let rwkv = Rwkv::new(vec![(b"a", 1), (b"ab", 2), (b"abcd", 3), (b"c", 4), (b"\xC3", 5)]);
        let mut out = Vec::new();
        rwkv.encode("abcabcdaé".as_bytes(), |id| out.push(id));
        assert_eq!(out, [Some(2), Some(4), Some(3), Some(1), Some(5), None]);
        assert_eq!((rwkv.byte(b'c'), rwkv.byte(b'b')), (Some(4), None));
    }
}
