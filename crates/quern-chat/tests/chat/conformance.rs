//! Real templates against Hugging Face's transformers: 71 templates, 19 conversations each.
//!
//! A ratchet: what differs is listed with its reason, anything else that differs fails, and so does an entry of the list
//! that has come to agree. The golden file is made by `scripts/fixtures/chat_templates.py`.

use crate::support::{self, joined};
use quern_chat::OwnedSegment;
use quern_chat::{ChatError, ChatTemplate, TemplateTokens};
use serde_json::Value;
use sha2::{Digest, Sha256};

const NONE_IS_EMPTY: &str = "loops over `tools`, which is None: Python refuses, here it is an empty loop";
const GENERATOR: &str = "writes a lazy sequence as JSON: Python refuses, here it is a list";
const MARKUP: &str =
    "joins text to a `safe` string, which makes Jinja2 escape the rest as HTML: here nothing is HTML";

/// Templates that change a list, which the sandbox of transformers refuses: here they do. The golden outcome is that of
/// Jinja2's plain sandbox.
const CHANGES_A_LIST: [&str; 2] = ["Kimi-K2-Instruct", "Kimi-K2-Thinking"];

/// What does not come out as in transformers: the template, whether in the cases with tools or in those without, and why.
const DIFFERENCES: [(&str, bool, &str); 5] = [
    ("CohereForAI-c4ai-command-r-plus-tool_use", false, NONE_IS_EMPTY),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", false, NONE_IS_EMPTY),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", false, NONE_IS_EMPTY),
    ("llama-cpp-deepseek-r1", true, GENERATOR),
    ("meetkai-functionary-medium-v3.1", true, MARKUP),
];

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What differs from the golden outcome, if anything does.
fn difference(expected: &Value, got: &Result<Vec<OwnedSegment>, ChatError>) -> Option<String> {
    match (got, expected["sha256"].as_str(), expected["refused"].as_str()) {
        (Ok(segments), Some(hash), _) if sha256(&joined(segments)) == hash => None,
        (Ok(segments), ..) => Some(format!("{expected} but got:\n{}", joined(segments))),
        (Err(ChatError::Refused(message)), _, Some(hash)) if sha256(message) == hash => None,
        (Err(ChatError::Render(_)), None, None) => None,
        (Err(error), ..) => Some(format!("{expected} but got error: {error}")),
    }
}

#[test]
fn prompts_are_those_of_transformers() {
    let cases = support::cases();
    let golden: Value =
        serde_json::from_str(include_str!("../golden/transformers.json")).expect("valid JSON");
    let tokens = TemplateTokens { bos: Some("<s>".into()), eos: Some("</s>".into()) };
    let control = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<|eot_id|>"];
    let (mut compared, mut changed, mut failures) = (0, 0, Vec::new());
    for (name, expected) in golden["templates"].as_object().expect("templates") {
        let source = if name.ends_with("(model file)") {
            support::smollm2_template()
        } else {
            support::template(name)
        };
        let hash = expected["source_sha256"].as_str().expect("a hash");
        assert_eq!(sha256(&source), hash, "{name} is another version: run scripts/fetch-models.sh");
        let template = ChatTemplate::new(&source, &tokens, control.map(String::from).to_vec());
        for (case_name, case) in cases["cases"].as_object().expect("cases") {
            compared += 1;
            let with_tools = case["tools"].as_bool().unwrap_or(false);
            let known = DIFFERENCES.iter().find(|d| d.0 == name && d.1 == with_tools);
            let (messages, options) = support::conversation(&cases, case);
            if expected[case_name]["error"] == "SecurityError" {
                assert!(CHANGES_A_LIST.contains(&name.as_str()), "{name}");
                changed += 1;
            }
            let found = match &template {
                Ok(template) => difference(&expected[case_name], &template.render(&messages, &options)),
                Err(error) => Some(format!("does not compile: {error}")),
            };
            match (known, found) {
                (None, Some(text)) => failures.push(format!("{name} / {case_name}: {text}")),
                (Some(known), None) => {
                    failures.push(format!("{name} / {case_name} agrees now, but: {}", known.2))
                }
                (None, None) | (Some(_), Some(_)) => {}
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared} differ:\n{}", failures.len(), failures.join("\n---\n"));
    assert_eq!((compared, changed), (71 * 19, 4));
}
