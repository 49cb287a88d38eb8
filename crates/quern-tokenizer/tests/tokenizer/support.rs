//! What the tests share.

use std::path::{Path, PathBuf};

use quern_gguf::Gguf;
use quern_tokenizer::{EncodeOptions, Segment, SharedTokenizer, TokenKind, Tokenizer, Vocab, from_metadata};

pub(crate) const SMOLLM2: &str = "models/smollm2-135m-instruct-q4_1.gguf";
pub(crate) const GEMMA3: &str = "models/gemma-3-270m-q4_k_m.gguf";

/// A file of the test data; the test fails if it is not there.
pub(crate) fn test_data(name: &str) -> PathBuf {
    let root = std::env::var_os("QUERN_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"), PathBuf::from);
    let path = root.join(name);
    assert!(path.exists(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

pub(crate) fn load(name: &str) -> SharedTokenizer {
    let gguf = Gguf::open(test_data(name)).expect("a readable file");
    from_metadata(gguf.metadata()).expect("a known kind of vocabulary")
}

pub(crate) fn plain(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(&[Segment::Plain(text)], EncodeOptions::default())
}

pub(crate) fn trusted(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(&[Segment::Trusted(text)], EncodeOptions::default())
}

pub(crate) fn decode(tokenizer: &dyn Tokenizer, ids: &[u32]) -> String {
    let mut decoder = tokenizer.decoder();
    let mut text: String = ids.iter().map(|&id| decoder.push(id).to_owned()).collect();
    text.push_str(decoder.finish());
    text
}

/// Score-BPE over two letters, with all byte tokens.
pub(crate) struct Tiny {
    pub(crate) tokens: Vec<String>,
    pub(crate) kinds: Vec<TokenKind>,
}

impl Tiny {
    pub(crate) fn new() -> Tiny {
        let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
        let mut kinds = vec![TokenKind::Unknown, TokenKind::Control, TokenKind::Control];
        tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
        kinds.resize(tokens.len(), TokenKind::Byte);
        tokens.extend(["a", "b", "ab", "▁"].map(str::to_owned));
        kinds.resize(tokens.len(), TokenKind::Normal);
        Tiny { tokens, kinds }
    }

    pub(crate) fn vocab(&self) -> Vocab<'_> {
        Vocab {
            model: "llama",
            tokens: self.tokens.iter().map(String::as_bytes).collect(),
            kinds: Some(self.kinds.clone()),
            scores: Some(vec![0.0; self.tokens.len()]),
            ..Vocab::default()
        }
    }
}
