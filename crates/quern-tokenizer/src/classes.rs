//! Classes of characters, as Unicode defines them.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// A set of characters.
#[derive(Debug)]
pub(crate) struct CharClass(Vec<(char, char)>);

impl CharClass {
    /// The class of a regular expression that is one class; the patterns are those below, which a unit test compiles.
    fn new(pattern: &str) -> CharClass {
        match regex_syntax::parse(pattern).map(regex_syntax::hir::Hir::into_kind) {
            Ok(HirKind::Class(Class::Unicode(class))) => {
                CharClass(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
            }
            other => unreachable!("{pattern} is a class: {other:?}"),
        }
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        let after = self.0.partition_point(|&(start, _)| start <= c);
        after > 0 && c <= self.0[after - 1].1
    }
}

static PUNCTUATION: LazyLock<CharClass> = LazyLock::new(|| CharClass::new(r"\p{P}"));
static CONTROL: LazyLock<CharClass> = LazyLock::new(|| CharClass::new(r"[\p{Cc}\p{Cf}\p{Co}]"));
static ACCENT: LazyLock<CharClass> = LazyLock::new(|| CharClass::new(r"\p{Mn}"));
static MARK: LazyLock<CharClass> = LazyLock::new(|| CharClass::new(r"\p{M}"));
static WORD: LazyLock<CharClass> = LazyLock::new(|| CharClass::new(r"\w"));

/// Punctuation, and what of ASCII looks like it (`$`, `+`, `<`).
pub(crate) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_punctuation() } else { PUNCTUATION.contains(c) }
}

/// Control and format characters and those of private use.
pub(crate) fn is_control(c: char) -> bool {
    CONTROL.contains(c)
}

/// Marks that take no room of their own.
pub(crate) fn is_accent(c: char) -> bool {
    !c.is_ascii() && ACCENT.contains(c)
}

/// Marks of any kind.
pub(crate) fn is_mark(c: char) -> bool {
    !c.is_ascii() && MARK.contains(c)
}

/// What words are made of: `\w`.
pub(crate) fn is_word(c: char) -> bool {
    WORD.contains(c)
}

/// Ideographs that BERT takes for words of their own. The fifth range begins where the publisher's does, not where the
/// block does.
pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}' | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_unicodes() {
        assert!(['!', '$', '~', '、', '—'].into_iter().all(is_punctuation));
        assert!(!['a', '€', ' ', '1'].into_iter().any(is_punctuation));
        assert!(['\u{AD}', '\u{200D}', '\u{E000}', '\x1F'].into_iter().all(is_control));
        assert!(is_accent('\u{301}') && !is_accent('\u{903}') && is_mark('\u{903}') && is_mark('\u{488}'));
        assert!(['é', '_', '\u{301}', '日'].into_iter().all(is_word) && !['-', ' '].into_iter().any(is_word));
        assert!(is_ideograph('日') && !is_ideograph('の') && !is_ideograph('\u{2B820}'));
    }
}
