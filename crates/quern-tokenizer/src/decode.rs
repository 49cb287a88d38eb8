//! Token ids to text, as they come.

use std::sync::Arc;

use crate::strings::Strings;

/// Turns a stream of ids into text, byte for byte.
///
/// Characters may be spread over several tokens: the start of one is held back until it is complete, so no piece ever
/// ends inside a character. Bytes that no continuation could make valid become U+FFFD at once, as in
/// [`String::from_utf8_lossy`]; a character that is still incomplete does so in [`StreamDecoder::finish`].
///
/// Every token is decoded, control tokens to their spelling: what must not be shown is for the caller not to push.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    bytes: Arc<Strings>,
    /// The start of a character, at most three bytes.
    pending: Vec<u8>,
    text: String,
}

impl StreamDecoder {
    pub(crate) fn new(bytes: Arc<Strings>) -> StreamDecoder {
        StreamDecoder { bytes, pending: Vec::new(), text: String::new() }
    }

    /// The text that this token completes; empty if it ends inside its first character.
    pub fn push(&mut self, id: u32) -> &str {
        self.text.clear();
        self.pending.extend_from_slice(self.bytes.get(id).unwrap_or_default());
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    self.text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    rest = after;
                    let Some(invalid) = error.error_len() else { break };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[invalid..];
                }
            }
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        &self.text
    }

    /// Ends the stream: U+FFFD for a character left incomplete, or nothing. The decoder is then as new.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoder(tokens: &[&[u8]]) -> StreamDecoder {
        let mut strings = Strings::default();
        tokens.iter().for_each(|t| strings.push(t));
        StreamDecoder::new(Arc::new(strings))
    }

    /// R70: pieces of one character never come out as two replacement characters.
    #[test]
    fn a_character_split_over_tokens_is_held_back() {
        let mut decoder = decoder(&[b"a\xF0", b"\x9F", b"\x98", b"\x80b"]);
        assert_eq!(decoder.push(0), "a");
        assert_eq!(decoder.push(1), "");
        assert_eq!(decoder.push(2), "");
        assert_eq!(decoder.push(3), "😀b");
        assert_eq!(decoder.finish(), "");
    }

    #[test]
    fn an_unfinished_character_is_replaced_only_at_the_end() {
        let mut decoder = decoder(&[b"\xE2\x82", b"x"]);
        assert_eq!(decoder.push(0), "");
        assert_eq!(decoder.finish(), "\u{FFFD}");
        assert_eq!(decoder.push(1), "x");
    }

    #[test]
    fn an_id_out_of_range_is_no_text() {
        assert_eq!(decoder(&[b"x"]).push(7), "");
    }

    proptest! {
        /// However bytes are cut into tokens, the text is that of the whole.
        #[test]
        fn any_cut_gives_the_lossy_text_of_the_whole(tokens in prop::collection::vec(
            prop::collection::vec(prop::sample::select(b"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\xA0\xFF".to_vec()), 0..6), 0..8)) {
            let whole: Vec<u8> = tokens.concat();
            let mut decoder = decoder(&tokens.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut text: String = (0..tokens.len() as u32).map(|id| decoder.push(id).to_owned()).collect();
            text.push_str(decoder.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }
    }
}
