//! Rewriting text before it is cut into words.

use regex::Regex;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::charsmap::Charsmap;
use crate::classes::{is_accent, is_control, is_ideograph, is_mark};
use crate::model::SPACE;

/// One rewriting. Each takes time linear in its input, and makes it longer by a bounded factor.
#[derive(Debug)]
pub(crate) enum Normalizer {
    /// BERT's clean-up: all rules work on single characters, in this order.
    Bert {
        /// Control characters vanish, and white space becomes spaces.
        clean: bool,
        /// Ideographs stand between spaces.
        ideographs: bool,
        /// Characters are decomposed, and their accents vanish.
        strip_accents: bool,
        lowercase: bool,
    },
    /// What SentencePiece does to a text: replacements, and the rules for spaces, which become `▁`.
    SentencePiece {
        charsmap: Option<Charsmap>,
        /// A space stands before the text.
        space_prefix: bool,
        /// Spaces at the ends vanish, and runs of them become one.
        merge_spaces: bool,
    },
    /// A charsmap, as the `tokenizers` library applies it: a grapheme of less than six bytes is replaced whole by the
    /// shortest rule that it begins with, and only then are its characters looked up.
    Charsmap(Charsmap),
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    /// Character by character, so that a final sigma is one like any other.
    Lowercase,
    /// Marks of all kinds vanish; characters are not decomposed first.
    StripAccents,
    /// White space at the ends vanishes.
    Strip {
        left: bool,
        right: bool,
    },
    /// A text that is not empty begins so.
    Prepend(String),
    /// Every match is replaced.
    Replace {
        pattern: Regex,
        with: String,
    },
}

/// Rewrites `text` by all `steps`, in order. `spare` is memory to work with.
pub(crate) fn normalize(steps: &[Normalizer], text: &mut String, spare: &mut String) {
    for step in steps {
        spare.clear();
        step.apply(text, spare);
        std::mem::swap(text, spare);
    }
}

impl Normalizer {
    /// Appends the rewritten `text`.
    fn apply(&self, text: &str, out: &mut String) {
        match self {
            Normalizer::Bert { clean, ideographs, strip_accents, lowercase } => {
                let chars = text.chars().filter(|&c| !*clean || !is_noise(c));
                let chars = chars.map(|c| if *clean && c.is_whitespace() { ' ' } else { c });
                let mut put = |c: char| match *lowercase {
                    true => out.extend(c.to_lowercase()),
                    false => out.push(c),
                };
                let spaced = chars.flat_map(|c| {
                    let space = (*ideographs && is_ideograph(c)).then_some(' ');
                    [space, Some(c), space].into_iter().flatten()
                });
                match strip_accents {
                    true => spaced.nfd().filter(|&c| !is_accent(c)).for_each(&mut put),
                    false => spaced.for_each(&mut put),
                }
            }
            Normalizer::SentencePiece { charsmap, space_prefix, merge_spaces } => {
                let mut replaced = String::new();
                let text = match charsmap {
                    Some(map) => {
                        map.replace_longest(text, &mut replaced);
                        &replaced
                    }
                    None => text,
                };
                sentence_piece_spaces(text, *space_prefix, *merge_spaces, out);
            }
            Normalizer::Charsmap(map) => {
                for grapheme in text.graphemes(true) {
                    let shortest = |text| Some(map.prefixes(text).next()?.1);
                    let whole = if grapheme.len() < 6 { shortest(grapheme) } else { None };
                    if let Some(replacement) = whole {
                        out.push_str(replacement);
                        continue;
                    }
                    for (at, c) in grapheme.char_indices() {
                        match shortest(&grapheme[at..at + c.len_utf8()]) {
                            Some(replacement) => out.push_str(replacement),
                            None => out.push(c),
                        }
                    }
                }
            }
            Normalizer::Nfc => out.extend(text.nfc()),
            Normalizer::Nfd => out.extend(text.nfd()),
            Normalizer::Nfkc => out.extend(text.nfkc()),
            Normalizer::Nfkd => out.extend(text.nfkd()),
            Normalizer::Lowercase => out.extend(text.chars().flat_map(char::to_lowercase)),
            Normalizer::StripAccents => out.extend(text.chars().filter(|&c| !is_mark(c))),
            Normalizer::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                out.push_str(if *right { text.trim_end() } else { text });
            }
            Normalizer::Prepend(prefix) => {
                if !text.is_empty() {
                    out.push_str(prefix);
                    out.push_str(text);
                }
            }
            Normalizer::Replace { pattern, with } => {
                let mut done = 0;
                for found in pattern.find_iter(text) {
                    out.push_str(&text[done..found.start()]);
                    out.push_str(with);
                    done = found.end();
                }
                out.push_str(&text[done..]);
            }
        }
    }
}

/// What BERT's clean-up drops.
fn is_noise(c: char) -> bool {
    matches!(c, '\0' | '\u{FFFD}') || (is_control(c) && !matches!(c, '\t' | '\n' | '\r'))
}

fn sentence_piece_spaces(text: &str, space_prefix: bool, merge_spaces: bool, out: &mut String) {
    let mut prefix = space_prefix;
    let mut after_space = true;
    for c in text.chars() {
        if c == ' ' {
            after_space = true;
            if !merge_spaces {
                out.push_str(SPACE);
            }
            continue;
        }
        if after_space && (prefix || merge_spaces) {
            out.push_str(SPACE);
            prefix = false;
        }
        after_space = false;
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(step: Normalizer, text: &str) -> String {
        let mut text = text.to_owned();
        normalize(&[step], &mut text, &mut String::new());
        text
    }

    /// What `BertNormalizer` of the `tokenizers` package gives.
    #[test]
    fn bert_text_is_cleaned() {
        let bert = |strip_accents| Normalizer::Bert {
            clean: true,
            ideographs: true,
            strip_accents,
            lowercase: true,
        };
        assert_eq!(
            normal(bert(true), "aİb \t\u{A0}É\u{200D}\u{E000}\u{1F}x日本ẞ한\u{378}"),
            "aib   ex 日  本 ß\u{1112}\u{1161}\u{11AB}\u{378}"
        );
        assert_eq!(normal(bert(false), "Éa\u{301}Σ"), "éa\u{301}σ");
    }

    #[test]
    fn spaces_are_sentence_pieces() {
        let spaces = |space_prefix, merge_spaces| Normalizer::SentencePiece {
            charsmap: None,
            space_prefix,
            merge_spaces,
        };
        assert_eq!(normal(spaces(true, true), "  a  b "), "▁a▁b");
        assert_eq!(normal(spaces(true, false), " a  b "), "▁▁a▁▁b▁");
        assert_eq!(normal(spaces(false, false), "a b"), "a▁b");
        assert_eq!(normal(spaces(true, true), "   "), "");
    }
}
