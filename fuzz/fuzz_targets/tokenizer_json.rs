//! Any bytes as a tokenizer.json: refused with a short sentence, or a tokenizer that takes any text. Never a panic.
//!
//! The `tokenizer` objects in `crates/quern-tokenizer/tests/json/cases.json` are good seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quern_tokenizer::{EncodeOptions, Segment, SpecialIds, from_json};

const TEXTS: [&str; 4] =
    ["", " Hello,  wörld's <mask> 1234\r\n\n\u{3000}e\u{301}日本", "<0x41>▁##a[SEP]\0", "aaaaaaaa        "];

fuzz_target!(|json: &[u8]| {
    match from_json(json, &SpecialIds::default()) {
        Ok(tokenizer) => {
            for text in TEXTS {
                for segment in [Segment::Plain(text), Segment::Trusted(text)] {
                    let ids = tokenizer.encode(&[segment], EncodeOptions { add_special: true });
                    let mut decoder = tokenizer.decoder();
                    ids.iter().for_each(|&id| {
                        assert!((id as usize) < tokenizer.n_vocab());
                        decoder.push(id);
                    });
                    decoder.finish();
                }
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
        }
    }
});
