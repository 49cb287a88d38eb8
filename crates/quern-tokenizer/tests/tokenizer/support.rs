//! What the tests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quern_gguf::Gguf;
use quern_tokenizer::{EncodeOptions, Segment, Tokenizer, from_metadata};

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

pub(crate) fn load(name: &str) -> Arc<dyn Tokenizer> {
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
