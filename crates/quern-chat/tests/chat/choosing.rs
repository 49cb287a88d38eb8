//! Which template a file gets, and how errors read.

use quern_chat::{ChatError, ChatTemplate, Message, TemplateOrigin, TemplateTokens};
use quern_gguf::Gguf;

use crate::support::{self, joined, options};

/// A GGUF v3 header with string metadata only.
fn file(entries: &[(&str, &str)]) -> Gguf {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((entries.len() as u64).to_le_bytes());
    let mut string = |s: &str, kind: Option<u32>| {
        bytes.extend((s.len() as u64).to_le_bytes());
        bytes.extend(s.as_bytes());
        bytes.extend(kind.into_iter().flat_map(u32::to_le_bytes));
    };
    for (key, value) in entries {
        const STRING: u32 = 8;
        string(key, Some(STRING));
        string(value, None);
    }
    Gguf::from_bytes(bytes).expect("a valid header")
}

fn choose(entries: &[(&str, &str)], control: &[&str]) -> Result<ChatTemplate, ChatError> {
    let tokens = TemplateTokens { bos: Some("<bos>".into()), eos: None };
    ChatTemplate::from_metadata(
        file(entries).metadata(),
        &tokens,
        control.iter().map(|s| s.to_string()).collect(),
    )
}

#[test]
fn the_files_own_template_wins() {
    let entries =
        [("general.architecture", "gemma3"), ("tokenizer.chat_template", "{{ messages[0].content }}!")];
    let template = choose(&entries, &["<start_of_turn>", "<end_of_turn>"]).expect("compiles");
    assert_eq!((template.origin(), template.source()), (TemplateOrigin::File, "{{ messages[0].content }}!"));
    assert_eq!(joined(&template.render(&[Message::user("hi")], &options()).expect("renders")), "hi!");
}

#[test]
fn r102_g31_a_fallback_needs_its_architecture_and_its_control_tokens() {
    let gemma = ["<start_of_turn>", "<end_of_turn>"];
    let chatml = ["<|im_start|>", "<|im_end|>"];
    let origin = |arch: &str, control: &[&str]| {
        choose(&[("general.architecture", arch)], control).map(|template| template.origin())
    };
    assert_eq!(origin("gemma3", &gemma).expect("fits"), TemplateOrigin::Fallback("gemma"));
    assert_eq!(origin("qwen2", &chatml).expect("fits"), TemplateOrigin::Fallback("chatml"));
    let refusal = |arch: &str, control: &[&str]| origin(arch, control).expect_err("declined").to_string();
    let missing = refusal("gemma3", &chatml);
    assert!(missing.contains("<start_of_turn>") && missing.contains("--raw"), "{missing}");
    let unknown = refusal("smollm3", &chatml);
    assert!(unknown.contains("`smollm3`") && unknown.contains("qwen2"), "{unknown}");
}

/// The publisher's Gemma 2 template is the outside anchor of ours, wherever it does not refuse.
#[test]
fn our_gemma_template_writes_what_the_publishers_does() {
    let tokens = TemplateTokens { bos: Some("<s>".into()), eos: Some("</s>".into()) };
    let publisher =
        ChatTemplate::new(&support::template("google-gemma-2-2b-it"), &tokens, Vec::new()).expect("compiles");
    let control = vec!["<start_of_turn>".to_string(), "<end_of_turn>".to_string()];
    let file = file(&[("general.architecture", "gemma2")]);
    let ours = ChatTemplate::from_metadata(file.metadata(), &tokens, control).expect("fits");
    let cases = support::cases();
    let mut compared = 0;
    for (name, case) in cases["cases"].as_object().expect("cases") {
        let (messages, options) = support::conversation(&cases, case);
        let Ok(expected) = publisher.render(&messages, &options) else { continue };
        let got = ours.render(&messages, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(joined(&got), joined(&expected), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 10);
    let folded =
        ours.render(&[Message::system(" Be brief. "), Message::user(" Hi ")], &options()).expect("renders");
    assert_eq!(
        joined(&folded),
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
    );
}

/// SmolLM2's own template is the outside anchor of our ChatML, for conversations that bring a system turn (without one,
/// SmolLM2's adds its own).
#[test]
fn our_chatml_template_writes_what_smollm2s_does() {
    let publisher = ChatTemplate::new(&support::smollm2_template(), &TemplateTokens::default(), Vec::new())
        .expect("compiles");
    let ours = choose(&[("general.architecture", "llama")], &["<|im_start|>", "<|im_end|>"]).expect("fits");
    let conversation = [
        Message::system("Be brief."),
        Message::user("  Grüße\n"),
        Message::assistant("Hallo."),
        Message::user(""),
    ];
    for add_generation_prompt in [true, false] {
        let options = quern_chat::RenderOptions { add_generation_prompt, ..options() };
        let expected = publisher.render(&conversation, &options).expect("renders");
        assert_eq!(joined(&ours.render(&conversation, &options).expect("renders")), joined(&expected));
    }
}

#[test]
fn the_beginning_token_is_never_doubled() {
    let gemma = choose(&[("general.architecture", "gemma3")], &["<start_of_turn>", "<end_of_turn>", "<bos>"]);
    let gemma = gemma.expect("fits");
    assert!(gemma.emits_bos(&gemma.render(&[Message::user("x")], &options()).expect("renders")));

    let plain =
        choose(&[("tokenizer.chat_template", "{{ messages[0].content }}")], &["<bos>"]).expect("compiles");
    assert!(!plain.emits_bos(&plain.render(&[Message::user("x")], &options()).expect("renders")));
    let typed = plain.render(&[Message::user("<bos>x")], &options()).expect("renders");
    assert!(!plain.emits_bos(&typed), "typed by the user, it is no token: {typed:?}");
}

#[test]
fn errors_say_what_and_where() {
    let tokens = TemplateTokens::default();
    let new = |source: &str| ChatTemplate::new(source, &tokens, Vec::new());
    let render = |source: &str| new(source).expect("compiles").render(&[Message::user("x")], &options());
    let broken = new("a\n{% if %}").expect_err("refused").to_string();
    assert!(broken.contains("line 2"), "{broken}");
    let refused = render("{{ raise_exception('no system role') }}").expect_err("refused");
    assert!(matches!(&refused, ChatError::Refused(m) if m == "no system role"), "{refused}");
    let failed = render("\n\n{{ nothing.at.all }}").expect_err("fails").to_string();
    assert!(failed.contains("line 3"), "{failed}");
    assert!(matches!(new(&" ".repeat(2 << 20)), Err(ChatError::TooLarge { .. })));
}

#[test]
fn a_template_that_never_ends_is_stopped() {
    let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}";
    let grows =
        "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
    for source in [loops, grows] {
        let template = ChatTemplate::new(source, &TemplateTokens::default(), Vec::new()).expect("compiles");
        let outcome = template.render(&[], &options());
        assert!(matches!(outcome, Err(ChatError::OutOfFuel(_))), "{outcome:?}");
    }
}

#[test]
fn the_clock_is_the_callers() {
    let template =
        ChatTemplate::new("{{ strftime_now('%d %b %Y') }}", &TemplateTokens::default(), Vec::new());
    let out = template.expect("compiles").render(&[], &options()).expect("renders");
    assert_eq!(joined(&out), "03 Feb 2026");
}
