//! Cutting text into words by rules that are no patterns.

use crate::classes::is_punctuation;

/// One rule. Each cuts the pieces left by the one before.
#[derive(Debug)]
pub(crate) enum Cut {
    /// BERT's words: white space vanishes, and each punctuation mark is a word.
    Bert,
}

/// Cuts `text` by all `cuts`, in order, and emits the words.
pub(crate) fn cut(cuts: &[Cut], text: &str, emit: &mut dyn FnMut(&str)) {
    match cuts.split_first() {
        None if text.is_empty() => {}
        None => emit(text),
        Some((Cut::Bert, rest)) => {
            for word in text.split_whitespace() {
                let words = word.split_inclusive(is_punctuation);
                words.for_each(|word| {
                    let last = word.char_indices().next_back().filter(|&(_, c)| is_punctuation(c));
                    let (letters, mark) = word.split_at(last.map_or(word.len(), |(at, _)| at));
                    cut(rest, letters, emit);
                    cut(rest, mark, emit);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `BertPreTokenizer` of the `tokenizers` package gives.
    #[test]
    fn bert_words_end_at_punctuation() {
        let mut words = Vec::new();
        cut(&[Cut::Bert], " Hey, friend!  it's$5「x」\u{2028}y", &mut |word| words.push(word.to_owned()));
        assert_eq!(words, ["Hey", ",", "friend", "!", "it", "'", "s", "$", "5", "「", "x", "」", "y"]);
    }
}
