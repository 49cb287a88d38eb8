//! The table of pre-tokenizers: one row for each way of cutting, with the `tokenizer.ggml.pre` values that mean it.
//!
//! Patterns are written as their publishers write them (contractions with both letter cases spelled out, characters
//! beyond ASCII escaped); how look-aheads are run is `pretokenize`'s concern. Where llama.cpp approximates a published
//! pattern for want of character classes (`tekken`, `gpt-4o`), the table holds the published one.
//!
//! A value that is not here needs more than a list of patterns: `jais-2` (counted look-aheads), `whitespace` and
//! `hybriddna` (no BPE over the pieces), and those of embedding models whose mask token swallows the space before it.

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre`.
    pub(crate) names: &'static [&'static str],
    /// See [`crate::pretokenize`].
    pub(crate) patterns: &'static [&'static str],
    /// A word that is a token is that token, whatever the merges would make of it.
    pub(crate) ignore_merges: bool,
    /// The beginning-of-text token is added unless the file says otherwise.
    pub(crate) add_bos: bool,
    /// Tokens are spelled in raw UTF-8, with `▁` for spaces and `<0x00>` for bytes, instead of the byte alphabet.
    pub(crate) raw_text: bool,
    /// A run of line breaks that is a token is that token.
    pub(crate) whole_line_breaks: bool,
}

impl PreTokenizer {
    const fn new(names: &'static [&'static str], patterns: &'static [&'static str]) -> PreTokenizer {
        PreTokenizer {
            names,
            patterns,
            ignore_merges: false,
            add_bos: false,
            raw_text: false,
            whole_line_breaks: false,
        }
    }

    const fn ignore_merges(self) -> PreTokenizer {
        PreTokenizer { ignore_merges: true, ..self }
    }

    const fn add_bos(self) -> PreTokenizer {
        PreTokenizer { add_bos: true, ..self }
    }

    const fn raw_text(self) -> PreTokenizer {
        PreTokenizer { raw_text: true, ..self }
    }

    const fn whole_line_breaks(self) -> PreTokenizer {
        PreTokenizer { whole_line_breaks: true, ..self }
    }
}

/// The row for a value of `tokenizer.ggml.pre`.
pub(crate) fn find(name: &str) -> Option<&'static PreTokenizer> {
    TABLE.iter().find(|row| row.names.contains(&name))
}

/// All values of `tokenizer.ggml.pre` in the table, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = TABLE.iter().flat_map(|row| row.names).copied().collect();
    names.sort_unstable();
    names
}

/// The values of `tokenizer.ggml.pre` that are most like `name`, nearest first.
pub(crate) fn near(name: &str) -> Vec<&'static str> {
    // The file chooses the name: only its start is compared.
    let name: Vec<char> = name.chars().take(64).collect();
    let mut names = names();
    names.sort_by_key(|known| edits(&name, known));
    names.truncate(5);
    names
}

/// Levenshtein's distance: characters to add, drop or change to turn one word into the other.
fn edits(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (at, c) in to.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (i, &other) in from.iter().enumerate() {
            let changed = diagonal + usize::from(other != c);
            diagonal = row[i + 1];
            row[i + 1] = changed.min(diagonal + 1).min(row[i] + 1);
        }
    }
    row[from.len()]
}

/// The value that stands for a file that names none.
pub(crate) const DEFAULT: &str = "default";
/// The value that the tokenizer model of the same name implies.
pub(crate) const GEMMA4: &str = "gemma4";

/// Numbers in groups of three from the right, wherever they stand.
pub(crate) const NUMBERS_FROM_RIGHT: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";
/// The same for decimal digits; the published form marks the cuts only.
pub(crate) const DIGITS_FROM_RIGHT: &str = r"(?=(\d{3})+(?!\d))";
/// The same for decimal digits that end a word.
pub(crate) const DIGITS_FROM_RIGHT_OF_WORD: &str = r"\d{1,3}(?=(?:\d{3})*\b)";

/// English contractions in either case.
macro_rules! contraction {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}

/// What follows the words in most patterns since cl100k: punctuation, line breaks, white space.
macro_rules! cl100k_tail {
    () => {
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}

/// Words by letter case, as since o200k: capitals then small letters; `$then` may follow a word.
macro_rules! cased_words {
    ($then:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $then,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $then
        )
    };
}

/// What follows the words in patterns since o200k.
macro_rules! o200k_tail {
    () => {
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}

pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const LLAMA3: &str = concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", cl100k_tail!());
const QWEN2: &str = concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", cl100k_tail!());
const QWEN35: &str = concat!(
    contraction!(),
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const O200K: &str = concat!(cased_words!(concat!(contraction!(), "?")), r"|\p{N}{1,3}", o200k_tail!());
const TEKKEN: &str = concat!(cased_words!(""), r"|\p{N}", o200k_tail!());
const KIMI_K2: &str = concat!(
    r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    contraction!(),
    r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    contraction!(),
    r"?|\p{N}{1,3}",
    cl100k_tail!()
);
/// DeepSeek's words: an ASCII mark may lead an ASCII word, combining marks belong to words.
macro_rules! deepseek_words {
    () => {
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"##
    };
}
const DEEPSEEK_V3: &str = concat!(deepseek_words!(), r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+");
const SPARK: &str = concat!(deepseek_words!(), r"|[\r\n]|\s+(?!\S)|\s+");
const MINICPM5: &str = concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+", cl100k_tail!());
const UFAKZEKA: &str = concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", cl100k_tail!());
const SEED_CODER: &str = concat!(
    contraction!(),
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const BAILINGMOE: &str = concat!(
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
);
const EXAONE_MOE: &str = concat!(
    contraction!(),
    r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
);
const YOUTU: &str = concat!(cased_words!(concat!(contraction!(), "?")), r"|\p{N}", o200k_tail!());
const BLOOM: &str = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+";
/// Han ideographs and kana.
const CJK: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
/// Most scripts between Samaritan and Hangul, as the first DeepSeek models group them.
const EAST_ASIAN: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
/// The scripts that AFMoE cuts without looking at spaces.
const AFMOE_SCRIPTS: &str = concat!(
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}",
    r"\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}",
    r"\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
);
const YOUTU_SCRIPTS: &str = concat!(
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}",
    r"\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}",
    r"\x{30A0}-\x{30FF}]+"
);
/// Letters with case, of the Unicode version that the first DeepSeek models were made with.
const DEEPSEEK_LLM_LETTERS: &str = concat!(
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}",
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}",
    r"\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}",
    r"\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}",
    r"\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}",
    r"\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}",
    r"\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}",
    r"\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}",
    r"\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}",
    r"\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}",
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+"
);
const DEEPSEEK_LLM_MARKS: &str =
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";
const LINES: &str = r"[^\n]+|[\n]+";

#[rustfmt::skip] // One row, one line.
static TABLE: &[PreTokenizer] = &[
    PreTokenizer::new(&[DEFAULT], &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    PreTokenizer::new(&["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "a.x-4.0", "mellum", "exaone4"], &[GPT2]),
    PreTokenizer::new(&["mpt", "olmo", "jais", "trillion", "granite-docling"], &[GPT2]),
    PreTokenizer::new(&["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"], &[r"\p{N}", GPT2]),
    PreTokenizer::new(&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    PreTokenizer::new(&["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"], &[LLAMA3]).ignore_merges().add_bos(),
    PreTokenizer::new(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA3]),
    PreTokenizer::new(&["glm4", "glm5"], &[LLAMA3]).ignore_merges(),
    PreTokenizer::new(&["qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"], &[QWEN2]),
    PreTokenizer::new(&["qwen35"], &[QWEN35]),
    PreTokenizer::new(&["laguna"], &[LINES, QWEN2]),
    PreTokenizer::new(&["ufakzeka"], &[UFAKZEKA]),
    PreTokenizer::new(&["minicpm5"], &[r"\p{N}{1,3}", MINICPM5]).ignore_merges(),
    PreTokenizer::new(&["seed-coder"], &[SEED_CODER]),
    PreTokenizer::new(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILINGMOE]),
    PreTokenizer::new(&["exaone-moe"], &[EXAONE_MOE]),
    PreTokenizer::new(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[O200K]),
    PreTokenizer::new(&["tiny_aya", "cohere2moe"], &[DIGITS_FROM_RIGHT_OF_WORD, O200K]),
    PreTokenizer::new(&["tekken"], &[TEKKEN]).ignore_merges().add_bos(),
    PreTokenizer::new(&["kimi-k2"], &[KIMI_K2]),
    PreTokenizer::new(&["youtu"], &[YOUTU_SCRIPTS, YOUTU]).ignore_merges(),
    PreTokenizer::new(&["deepseek-llm"], &[r"[\r\n]", DEEPSEEK_LLM_LETTERS, DEEPSEEK_LLM_MARKS, r"\s+$", EAST_ASIAN, r"\p{N}+"]),
    PreTokenizer::new(&["deepseek-coder"], &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"]),
    PreTokenizer::new(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &[r"\p{N}{1,3}", CJK, DEEPSEEK_V3]),
    PreTokenizer::new(&["spark2_5"], &[r"\p{N}{1,3}", CJK, SPARK, r"\p{N}"]),
    PreTokenizer::new(&["afmoe"], &[NUMBERS_FROM_RIGHT, AFMOE_SCRIPTS, DEEPSEEK_V3]),
    PreTokenizer::new(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    PreTokenizer::new(&["viking"], &[BLOOM, r"\p{N}"]),
    PreTokenizer::new(&["superbpe"], &[r"\p{N}+", DIGITS_FROM_RIGHT]),
    PreTokenizer::new(&["chameleon"], &["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2]).add_bos(),
    PreTokenizer::new(&[GEMMA4], &[LINES]).raw_text().whole_line_breaks().add_bos(),
    PreTokenizer::new(&["sarvam-moe"], &[LINES]).raw_text(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretokenize::{Step, split};

    pub(crate) fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let row = find(name).expect("a row of the table");
        let steps: Vec<Step> = row.patterns.iter().map(|p| Step::new(p).expect("compiles")).collect();
        let mut words = Vec::new();
        split(&steps, text, &mut |word| words.push(word));
        words
    }

    #[test]
    fn every_row_compiles_and_loses_no_text() {
        let text = "  Hello World's\r\n\n don't 1234567.89 \t naïve e\u{301}té <|x|>\u{A0} 日本語のテキスト 한국어 a \n";
        for row in TABLE {
            assert_eq!(words(row.names[0], text).concat(), text, "{}", row.names[0]);
        }
    }

    #[test]
    fn near_names_come_first() {
        assert_eq!(edits(&['k', 'i', 't', 't', 'e', 'n'], "sitting"), 3);
        assert_eq!(near("llama-bep")[0], "llama-bpe");
        assert_eq!(near("qwen-2.5")[0], "qwen2");
        assert_eq!(near(&"x".repeat(100_000)).len(), 5);
    }

    /// G30, R45: no text makes cutting super-linear, in any row.
    #[test]
    fn cutting_takes_linear_time() {
        for row in TABLE {
            let steps: Vec<Step> = row.patterns.iter().map(|p| Step::new(p).expect("compiles")).collect();
            for piece in
                ["a", "A", " ", "\u{301}", "1", "\n", "'", "a ", " \n", "1a", "aA1 .\r\n", "日", "<|im_end"]
            {
                crate::ratio::is_linear(&format!("{} {piece:?}", row.names[0]), piece, 1 << 14, |text| {
                    let mut words = 0;
                    split(&steps, text, &mut |_| words += 1);
                    assert!(words > 0);
                });
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let names = names();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    /// What Python's `regex` module finds for the published patterns, look-ahead and all.
    #[test]
    fn white_space_before_a_word_is_given_back() {
        assert_eq!(words("gpt-2", "a   b"), ["a", "  ", " b"]);
        assert_eq!(words("gpt-2", "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(words("gpt-2", "a  "), ["a", "  "]);
        assert_eq!(words("llama3", "a  \n  b"), ["a", "  \n", " ", " b"]);
        assert_eq!(words("llama3", "a\n\nb"), ["a", "\n\n", "b"]);
        assert_eq!(words("llama3", "a   1"), ["a", "  ", " ", "1"]);
        assert_eq!(words("llama3", "a \u{A0}b"), ["a", " ", "\u{A0}b"]);
        assert_eq!(words("spark2_5", "a \nb"), ["a", " ", "\n", "b"]);
        assert_eq!(words("llama3", "!\n\n  ?"), ["!\n\n", " ", " ?"]);
    }

    /// G29: what one walker for all families got wrong.
    #[test]
    fn families_differ_in_digits_contractions_and_case() {
        assert_eq!(words("gpt-2", "12345 don't"), ["12345", " don", "'t"]);
        assert_eq!(words("llama3", "12345 DON'T"), ["123", "45", " DON", "'T"]);
        assert_eq!(words("qwen2", "123"), ["1", "2", "3"]);
        assert_eq!(words("smollm", "x 12"), ["x", " ", "1", "2"]);
        assert_eq!(words("gpt-4o", "CamelCase's"), ["Camel", "Case's"]);
        assert_eq!(words("tekken", "CamelCase"), ["Camel", "Case"]);
        assert_eq!(words("qwen35", "e\u{301}te"), ["e\u{301}te"]);
        assert_eq!(words("qwen2", "e\u{301}te"), ["e", "\u{301}te"]);
        assert_eq!(words("qwen2", "x\r\ny"), ["x", "\r\n", "y"]);
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(words("superbpe", "1234567 12"), ["1", "234", "567", " ", "12"]);
        assert_eq!(words("tiny_aya", "1234 1234x"), ["1", "234", " ", "123", "4", "x"]);
        assert_eq!(words("afmoe", "12345"), ["12", "345"]);
    }
}
