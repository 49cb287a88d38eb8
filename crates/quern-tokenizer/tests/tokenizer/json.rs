//! `tokenizer.json` files, held against the `tokenizers` package (scripts/fixtures/tokenizer_json.py).

use quern_tokenizer::{EncodeOptions, Segment, SharedTokenizer, SpecialIds, from_json};
use serde_json::{Value, json};

use crate::support::{decode, plain, trusted};

const CASES: &str = include_str!("../json/cases.json");
const TEXTS: &str = include_str!("../json/texts.json");

/// The file of a case: what it leaves out is as in its base.
pub(crate) fn file(cases: &Value, name: &str) -> Value {
    let case = &cases[name];
    let mut file = match case["base"].as_str() {
        Some(base) => cases[base]["tokenizer"].clone(),
        None => json!({}),
    };
    for (key, part) in case["tokenizer"].as_object().expect("parts") {
        file[key] = part.clone();
    }
    file
}

pub(crate) fn cases() -> Value {
    serde_json::from_str(CASES).expect("JSON")
}

pub(crate) fn read(file: &Value) -> SharedTokenizer {
    from_json(file.to_string().as_bytes(), &SpecialIds::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

/// FNV-1a over the ids in place of bytes, 32 bits.
fn fnv(ids: &[u32]) -> u32 {
    ids.iter().fold(0x811C_9DC5, |state: u32, id| (state ^ id).wrapping_mul(0x0100_0193))
}

fn agrees(name: &str) {
    let cases = cases();
    let case = &cases[name];
    let tokenizer = read(&file(&cases, name));
    let texts: Vec<String> = serde_json::from_str(TEXTS).expect("texts");
    let hashes: Vec<&str> = case["hashes"].as_str().expect("hashes").split(' ').collect();
    assert!(texts.len() > 130 && hashes.len() == texts.len(), "a whole set");
    let shown = case["ids"].as_array().expect("lists of ids").iter().map(ids);
    let decoded = case["decoded"].as_array().expect("texts").iter();
    for ((text, expected), decoded) in texts.iter().zip(shown).zip(decoded) {
        let found = trusted(&*tokenizer, text);
        assert_eq!(found, expected, "{text:?}");
        // The package takes the space before a whole text away; text that is streamed may continue another.
        let (ours, theirs) = (decode(&*tokenizer, &found), decoded.as_str().expect("text"));
        let is_text = found.iter().all(|&id| !tokenizer.is_control(id));
        assert!(
            !is_text || ours == theirs || ours.strip_prefix(' ') == Some(theirs),
            "{text:?}: {ours:?}, not {theirs:?}"
        );
    }
    // The package takes text that spells a byte token for that byte in Unigram; here it stays what was written.
    let spells_byte = |text: &str| name == "unigram_bytes" && text.contains("<0x");
    for (text, hash) in texts.iter().zip(hashes).filter(|(text, _)| !spells_byte(text)) {
        let found = trusted(&*tokenizer, text);
        assert_eq!(format!("{:08x}", fnv(&found)), hash, "{text:?}: {found:?}");
    }
    let framed = tokenizer.encode(&[Segment::Trusted(&texts[0])], EncodeOptions { add_special: true });
    assert_eq!(framed, ids(&case["framed"]));
    // What a user types is never a control token, and reads the same but for that.
    for text in &texts {
        let found = plain(&*tokenizer, text);
        let unk = tokenizer.special().unk;
        assert!(found.iter().all(|&id| !tokenizer.is_control(id) || Some(id) == unk), "{text:?}: {found:?}");
    }
}

macro_rules! cases {
    ($($name:ident,)*) => {
        $(#[test]
        fn $name() {
            agrees(stringify!($name));
        })*

        #[test]
        fn every_case_is_a_test() {
            let cases = cases();
            let names: Vec<&str> = cases.as_object().expect("cases").keys().map(String::as_str).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

cases! {
    gpt2,
    llama3,
    falcon,
    odd_pattern,
    llama2,
    metaspace_first,
    metaspace_split,
    unknown_fused,
    unknown,
    split_removed,
    split_isolated,
    split_merged_with_previous,
    split_merged_with_next,
    split_contiguous,
    bert,
    wordpiece_nfkd,
    unigram,
    unigram_bytes,
    nfd,
}

/// What is not read is refused by its name, and no nonsense panics.
#[test]
fn what_is_not_read_is_refused_by_name() {
    let cases = cases();
    let refusal = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut file = file(&cases, name);
        change(&mut file);
        let made = from_json(file.to_string().as_bytes(), &SpecialIds::default());
        made.err().expect("a refusal").to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut Value);
    let changes: [(&str, Change<'_>, &str); 16] = [
        ("gpt2", &|f| f["model"]["type"] = json!("WordLevel"), "the model \"WordLevel\""),
        ("gpt2", &|f| f["model"]["end_of_word_suffix"] = json!("</w>"), "\"end_of_word_suffix\""),
        ("gpt2", &|f| f["model"]["dropout"] = json!(0.1), "\"dropout\""),
        ("gpt2", &|f| f["model"]["merges"][3] = json!(["a"]), "merge 3"),
        ("gpt2", &|f| f["normalizer"] = json!({"type": "Nmt"}), "the normalizer \"Nmt\""),
        ("gpt2", &|f| f["pre_tokenizer"] = json!({"type": "UnicodeScripts"}), "\"UnicodeScripts\""),
        ("gpt2", &|f| f["decoder"] = json!({"type": "CTC"}), "the decoder \"CTC\""),
        ("gpt2", &|f| f["post_processor"] = json!({"type": "X"}), "the post-processor \"X\""),
        ("gpt2", &|f| f["added_tokens"][0]["id"] = json!(4_000_000_000u32), "4000000000"),
        ("gpt2", &|f| f["model"]["vocab"]["!"] = json!(1), "gives the id 1 to both"),
        ("unigram", &|f| f["model"]["unk_id"] = json!(9999), "unk_id of 9999"),
        ("unigram", &|f| f["model"]["unk_id"] = Value::Null, "no token for the byte"),
        ("bert", &|f| f["model"]["unk_token"] = json!("[NONE]"), "no token for the byte"),
        ("bert", &|f| f["post_processor"]["single"][0]["SpecialToken"]["id"] = json!("[X]"), "\"[X]\""),
        (
            "gpt2",
            &|f| {
                f["pre_tokenizer"] =
                    json!({"type": "Split", "pattern": {"Regex": "a(?!b)"}, "behavior": "Isolated"})
            },
            "has the pattern \"a(?!b)\", which cannot be run in linear time",
        ),
        (
            "gpt2",
            &|f| {
                let replace =
                    json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(60)});
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [replace, replace, replace]});
            },
            "256 times as long",
        ),
    ];
    for (name, change, said) in changes {
        let message = refusal(name, change);
        assert!(message.starts_with("tokenizer.json ") || said == "no token for the byte", "{message}");
        assert!(message.contains(said) && message.len() < 300, "{message}");
    }
    for nonsense in ["", "null", "[]", "{}", r#"{"model":{}}"#, r#"{"model":{"type":"BPE"}}"#, "\u{1F600}"] {
        assert!(from_json(nonsense.as_bytes(), &SpecialIds::default()).is_err(), "{nonsense}");
    }
}

/// Ids that the caller knows: a model ends with another token than frames its texts.
#[test]
fn roles_come_from_the_caller() {
    let cases = cases();
    let bert = file(&cases, "bert").to_string();
    let by_file = from_json(bert.as_bytes(), &SpecialIds::default()).expect("a good file");
    assert_eq!((by_file.special().bos, by_file.special().eos), (Some(2), Some(3)));
    let ids = SpecialIds { eos: Some(0), ..SpecialIds::default() };
    let told = from_json(bert.as_bytes(), &ids).expect("a good file");
    assert_eq!((told.special().eos, told.special().sep), (Some(0), Some(3)));
    let text = [Segment::Plain("a [SEP]")];
    let framed = |tokenizer: &SharedTokenizer| tokenizer.encode(&text, EncodeOptions { add_special: true });
    assert_eq!(framed(&told), framed(&by_file));
    assert_eq!(framed(&told).iter().filter(|&&id| id == 3).count(), 1, "typed marks are text");
}
