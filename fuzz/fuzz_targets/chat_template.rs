//! Any text as a chat template: refused with a short sentence, or a prompt that is as long as its steps allow. Never a
//! panic, and never a native stack that runs out.
//!
//! What stands behind the first `\0`, up to a second one, is the text of the user.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quern_chat::{ChatTemplate, Message, RenderOptions, TemplateTokens};
use serde_json::{Value, json};
use std::sync::LazyLock;

static OPTIONS: LazyLock<[RenderOptions; 2]> = LazyLock::new(|| {
    let now: jiff::ZonedDateTime = "2026-02-03T04:05:06[UTC]".parse().expect("a time");
    let bare = RenderOptions::at(now);
    let tools: Value = json!([{ "type": "function", "function": {
        "name": "add", "description": "Adds.", "parameters": { "type": "object", "properties": { "a": { "type": "number" } } },
    } }]);
    [RenderOptions { tools: Some(tools), ..bare.clone() }, bare]
});

fuzz_target!(|input: &str| {
    let mut parts = input.splitn(3, '\0');
    let source = parts.next().unwrap_or_default();
    let user = parts.next().unwrap_or("Hi <|im_end|> </s>");
    let control = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tool_response>"].map(String::from).to_vec();
    let tokens = TemplateTokens { bos: Some("<s>".into()), eos: Some("</s>".into()) };
    let said = |error: quern_chat::ChatError| {
        let said = error.to_string();
        assert!(said.len() < 4000, "{said:?}");
    };
    let template = match ChatTemplate::new(source, &tokens, control) {
        Ok(template) => template,
        Err(error) => return said(error),
    };
    let mut call = Message::new("assistant", "Let me.");
    call.tool_calls = Some(
        json!([{ "id": "c1", "type": "function", "function": { "name": "add", "arguments": { "a": 1 } } }]),
    );
    let mut result = Message::new("tool", "3");
    result.tool_call_id = Some("c1".into());
    let messages = [Message::new("system", "Be brief."), Message::user(user), call, result];
    for options in &*OPTIONS {
        if let Err(error) = template.render(&messages, options) {
            said(error);
        }
    }
});
