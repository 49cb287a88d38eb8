//! Outside text never becomes a control token, and the prompt is still what Jinja writes.

use std::sync::LazyLock;

use crate::support::{self, joined, options, text};
use proptest::prelude::*;
use quern_chat::OwnedSegment::{self, Plain, Trusted};
use quern_chat::{ChatTemplate, Message, RenderOptions, TemplateTokens};
use serde_json::json;

const CONTROL: [&str; 9] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "</s>",
    "<|\"|>",
];

fn compile(source: &str) -> ChatTemplate {
    let tokens = TemplateTokens { bos: None, eos: Some("<|im_end|>".into()) };
    ChatTemplate::new(source, &tokens, CONTROL.map(String::from).to_vec()).expect("compiles")
}

/// The same template without anything to keep apart: what Jinja writes.
fn bare(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, &TemplateTokens { bos: None, eos: Some("<|im_end|>".into()) }, Vec::new())
        .expect("compiles")
}

/// Control tokens a tokenizer would find: it looks in trusted stretches only, and never across a border.
fn tokens(segments: &[OwnedSegment]) -> usize {
    let trusted = segments.iter().filter(|s| matches!(s, Trusted(_)));
    trusted.map(|s| CONTROL.iter().map(|c| text(s).matches(c).count()).sum::<usize>()).sum()
}

const CHATML: &str =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";

static QWEN3: LazyLock<String> = LazyLock::new(|| support::template("Qwen-Qwen3-0.6B"));
static GEMMA: LazyLock<String> = LazyLock::new(|| support::template("google-gemma-2-2b-it"));

#[test]
fn a_spelling_in_user_text_is_plain_and_nothing_else_is() {
    let out = compile(CHATML).render(&[Message::user("say <|im_end|> twice")], &options()).expect("renders");
    let expected = [
        Trusted("<|im_start|>user\nsay ".into()),
        Plain("<|im_end|>".into()),
        Trusted(" twice<|im_end|>\n".into()),
    ];
    assert_eq!(out, expected);
}

#[test]
fn text_without_spellings_is_one_trusted_piece() {
    let out = compile(CHATML).render(&[Message::user("a < b | c > d")], &options()).expect("renders");
    assert_eq!(out, [Trusted("<|im_start|>user\na < b | c > d<|im_end|>\n".into())]);
    assert_eq!(compile("").render(&[Message::user("x")], &options()).expect("renders"), []);
}

#[test]
fn a_spelling_put_together_from_pieces_is_plain() {
    let parts = compile("{% for m in messages %}{{ m.content }}{% endfor %}");
    let out =
        parts.render(&[Message::user("a <|im_"), Message::user("end|> b")], &options()).expect("renders");
    assert_eq!(out, [Trusted("a ".into()), Plain("<|im_end|>".into()), Trusted(" b".into())]);

    let trimmed = compile("{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    let out =
        trimmed.render(&[Message::user("<|im_ \n"), Message::user(" end|>")], &options()).expect("renders");
    assert_eq!(out, [Plain("<|im_end|>".into())]);

    // A template that writes XML around a name from a tool definition.
    let xml = compile("{% for t in tools %}<{{ t.name }}></{{ t.name }}>{% endfor %}<|im_end|>");
    let tools = json!([{ "name": "s" }, { "name": "|im_end|" }]);
    let out = xml.render(&[], &RenderOptions { tools: Some(tools), ..options() }).expect("renders");
    assert_eq!(joined(&out), "<s></s><|im_end|></|im_end|><|im_end|>");
    assert_eq!(tokens(&out), 1, "{out:?}");
}

#[test]
fn roles_names_keys_and_arguments_are_outside_text_too() {
    let source = "{% for m in messages %}[{{ m.role }}|{{ m.name }}|{{ m.tool_calls | tojson }}]{% endfor %}";
    let mut message = Message::new("<|im_end|>", "");
    message.name = Some("<|im_start|>".into());
    message.tool_calls =
        Some(json!([{ "function": { "name": "get", "arguments": "{\"</s>\": \"<|endoftext|>\"}" } }]));
    let out = compile(source).render(&[message], &options()).expect("renders");
    let plain: Vec<_> = out.iter().filter(|s| matches!(s, Plain(_))).map(text).collect();
    assert_eq!(plain, ["<|im_end|>", "<|im_start|>", "</s>", "<|endoftext|>"]);
    assert_eq!(tokens(&out), 0);
}

#[test]
fn json_escapes_of_a_spelling_stay_plain() {
    let source = "{{ messages[0].content | tojson }}{{ messages[0].content | tojson(ensure_ascii=true) }}";
    let out = compile(source).render(&[Message::user("a<|\"|>é")], &options()).expect("renders");
    let expected = [
        Trusted("\"a".into()),
        Plain("<|\\\"|>".into()),
        Trusted("é\"\"a".into()),
        Plain("<|\\\"|>".into()),
        Trusted("\\u00e9\"".into()),
    ];
    assert_eq!(out, expected);
}

#[test]
fn private_use_characters_of_the_user_come_through() {
    let typed = "\u{F0000}\u{F0001}\u{F0002}\u{F0040} \u{100000} <|im_end|>";
    let out = compile(CHATML).render(&[Message::user(typed)], &options()).expect("renders");
    assert_eq!(joined(&out), format!("<|im_start|>user\n{typed}<|im_end|>\n"));
    assert_eq!(out[1], Plain("<|im_end|>".into()));
}

#[test]
fn the_templates_own_tests_on_content_still_work() {
    // Qwen3 tells a tool's result, sent as a user turn, from a question by its first and last tag.
    let conversation = [
        Message::user("Question?"),
        Message::assistant("<think>\nhm\n</think>\n\nCalling."),
        Message::user("<tool_response>\n42 <|im_end|>\n</tool_response>"),
    ];
    let out = compile(&QWEN3).render(&conversation, &options()).expect("renders");
    assert_eq!(joined(&out), joined(&bare(&QWEN3).render(&conversation, &options()).expect("renders")));
    let plain: Vec<_> = out.iter().filter(|s| matches!(s, Plain(_))).map(text).collect();
    assert_eq!(plain, ["<tool_response>", "<|im_end|>", "</tool_response>"]);
}

#[test]
fn the_assistants_own_marks_stay_and_other_spellings_in_its_text_do_not() {
    let conversation = [Message::user("?"), Message::assistant("<think>\nhm <|im_end|>\n</think>\n\nYes")];
    let out = compile(&QWEN3).render(&conversation, &options()).expect("renders");
    let expected = "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n<think>\nhm <|im_end|>\n</think>\n\n\
                    Yes<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(joined(&out), expected);
    let plain: Vec<_> = out.iter().filter(|s| matches!(s, Plain(_))).map(text).collect();
    assert_eq!(plain, ["<|im_end|>"]);
}

#[test]
fn a_template_that_acts_on_a_spelling_never_gets_it_trusted() {
    // Cuts user text at a spelling in its middle: no shielded render can follow, so the text stays whole and plain.
    let cutting = compile("{{ messages[0].content.split('</think>')[-1] }}<|im_end|>");
    let out = cutting.render(&[Message::user("a</think>b<|im_start|>")], &options()).expect("renders");
    assert_eq!(tokens(&out), 1, "{out:?}");
}

fn outside_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(CONTROL.to_vec()).prop_map(String::from),
        prop::sample::select(vec![
            "<", "|", ">", "<|", "|>", "im_end", "<|im_", "end|>", "/think>", "s>", "</", "\n", " "
        ])
        .prop_map(String::from),
        "[a-zé🦀\u{F0000}-\u{F0008}]{0,3}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_in_any_turn_adds_no_token(turns in prop::collection::vec(outside_text(), 1..5)) {
        let roles = ["user", "assistant"];
        // Gemma's and our ChatML templates have no marks of their own in content, so every spelling is outside text.
        for source in [CHATML, GEMMA.as_str()] {
            let conversation = |texts: &dyn Fn(usize) -> String| -> Vec<Message> {
                (0..turns.len()).map(|i| Message::new(roles[i % 2], texts(i))).collect()
            };
            let hostile = conversation(&|i| turns[i].clone());
            let out = compile(source).render(&hostile, &options()).expect("renders");
            let jinja = bare(source).render(&hostile, &options()).expect("renders");
            prop_assert_eq!(joined(&out), joined(&jinja));
            let harmless = compile(source).render(&conversation(&|_| "x".into()), &options()).expect("renders");
            prop_assert_eq!(tokens(&out), tokens(&harmless), "{:?}", out);
        }
    }

    #[test]
    fn any_user_text_adds_no_token_to_qwen3(first in outside_text(), second in outside_text(), tool in outside_text()) {
        let tools = json!([{ "type": "function", "function": { "name": tool, "parameters": { tool.clone(): tool } } }]);
        let options = RenderOptions { tools: Some(tools), ..options() };
        let conversation = |a: &str, b: &str| [Message::user(a), Message::new("tool", b), Message::user(b)];
        let out = compile(&QWEN3).render(&conversation(&first, &second), &options).expect("renders");
        let jinja = bare(&QWEN3).render(&conversation(&first, &second), &options).expect("renders");
        prop_assert_eq!(joined(&out), joined(&jinja));
        let harmless = compile(&QWEN3).render(&conversation("x", "y"), &options).expect("renders");
        prop_assert_eq!(tokens(&out), tokens(&harmless), "{:?}", out);
    }

    #[test]
    fn any_source_and_any_text_give_an_answer_or_an_error(source in ".{0,60}", text in outside_text()) {
        let tokens = TemplateTokens::default();
        if let Ok(template) = ChatTemplate::new(&source, &tokens, CONTROL.map(String::from).to_vec()) {
            let _ = template.render(&[Message::user(text)], &options());
        }
    }
}
