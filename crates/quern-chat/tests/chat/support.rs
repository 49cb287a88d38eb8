//! Test data and the shared cases.

use std::path::PathBuf;

use jiff::civil;
use jiff::tz::TimeZone;
use quern_chat::{Message, OwnedSegment, RenderOptions};
use serde_json::Value;

/// Where `scripts/fetch-models.sh` puts what it fetches.
pub(crate) fn test_data(path: &str) -> PathBuf {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/test-data"));
    let root = std::env::var_os("QUERN_TEST_DATA").map_or_else(default, PathBuf::from);
    let found = root.join(path);
    assert!(found.exists(), "{} is missing: run scripts/fetch-models.sh", found.display());
    found
}

/// A template of llama.cpp's collection, by file stem.
pub(crate) fn template(name: &str) -> String {
    std::fs::read_to_string(test_data(&format!("templates/{name}.jinja"))).expect("readable")
}

/// The chat template inside the SmolLM2 test model.
pub(crate) fn smollm2_template() -> String {
    let file = quern_gguf::Gguf::open(test_data("models/smollm2-135m-instruct-q4_1.gguf")).expect("opens");
    file.metadata().str("tokenizer.chat_template").expect("has a template").to_string()
}

/// `golden/cases.json`, which the script that makes the golden file reads too.
pub(crate) fn cases() -> Value {
    serde_json::from_str(include_str!("../golden/cases.json")).expect("valid JSON")
}

/// Messages and options of one case.
pub(crate) fn conversation(cases: &Value, case: &Value) -> (Vec<Message>, RenderOptions) {
    let clock: Vec<i16> = serde_json::from_value(cases["clock"].clone()).expect("six numbers");
    let small = |i: usize| i8::try_from(clock[i]).expect("fits");
    let now = civil::datetime(clock[0], small(1), small(2), small(3), small(4), small(5), 0);
    let mut options = RenderOptions::at(now.to_zoned_datetime(TimeZone::UTC).expect("in range"));
    options.add_generation_prompt = case["add_generation_prompt"].as_bool().unwrap_or(true);
    options.tools = case["tools"].as_bool().unwrap_or(false).then(|| cases["tools"].clone());
    options.kwargs = case["kwargs"].as_object().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(String::from);
    let message = |m: &Value| {
        let mut message =
            Message::new(text(&m["role"]).expect("a role"), text(&m["content"]).expect("content"));
        message.reasoning = text(&m["reasoning"]);
        message.name = text(&m["name"]);
        message.tool_call_id = text(&m["tool_call_id"]);
        message.tool_calls = m.get("tool_calls").cloned();
        message
    };
    (case["messages"].as_array().expect("messages").iter().map(message).collect(), options)
}

/// Options at a fixed time.
pub(crate) fn options() -> RenderOptions {
    let now = civil::date(2026, 2, 3).at(4, 5, 6, 0);
    RenderOptions::at(now.to_zoned_datetime(TimeZone::UTC).expect("in range"))
}

pub(crate) fn text(segment: &OwnedSegment) -> &str {
    match segment {
        OwnedSegment::Trusted(text) | OwnedSegment::Plain(text) => text,
    }
}

pub(crate) fn joined(segments: &[OwnedSegment]) -> String {
    segments.iter().map(text).collect()
}
