//! Templates that change lists and messages, and what keeps them from building values without end.
//!
//! Expected texts: Jinja2 3.1.6 in its plain sandbox; where messages are changed, with each message as its `Namespace`.

use crate::support::{joined, options};
use quern_chat::{ChatError, ChatTemplate, Message, TemplateTokens};
use serde_json::json;

fn render(source: &str, messages: &[Message]) -> Result<String, ChatError> {
    let control = vec!["<call>".to_string(), "<|im_end|>".to_string()];
    let template = ChatTemplate::new(source, &TemplateTokens::default(), control)?;
    template.render(messages, &options()).map(|segments| joined(&segments))
}

#[test]
fn lists_in_a_namespace_change() {
    let source = "{% set ns = namespace(q=[]) %}\
        {% for m in messages %}{% set _ = ns.q.append(m.content) %}{% endfor %}\
        {% set _ = ns.q.insert(1, 'x') %}{% set _ = ns.q.extend(['y', 'z']) %}\
        {{ ns.q | join(',') }};{{ ns.q.pop() }};{{ ns.q.pop(0) }};{{ ns.q.pop(-2) }};{{ ns.q | length }};\
        {{ ns.q[0] }};{{ ns.q | tojson }};{{ 'y' in ns.q }}{% set other = ns.q %}{% set _ = other.append('w') %};\
        {{ ns.q[-1] }}{{ ns.q[1:] | join }}";
    let messages = ["a", "b", "c"].map(Message::user);
    assert_eq!(render(source, &messages).unwrap(), "a,x,b,c,y,z;z;a;c;3;x;[\"x\", \"b\", \"y\"];True;wbyw");
}

#[test]
fn messages_change_where_the_template_assigns_to_them() {
    let source = "{% for message in messages %}{% if message.tool_calls %}\
        {% set message.content = message.content + '<call>' %}{% for c in message.tool_calls %}\
        {% set message.content = message.content + c.function.name + (c.function.arguments | tojson) %}{% endfor %}\
        {% set message.calls = message.tool_calls | length %}{% set message.tool_calls = [] %}\
        {% elif message.role == 'tool' %}{% set message.role = 'user' %}{% endif %}{% endfor %}\
        {% for message in messages %}{{ message.role }}:{{ message.content }}\
        {% if message.calls is defined %}({{ message.calls }}){% endif %}{% endfor %}";
    let mut call = Message::new("assistant", "Let me.");
    call.tool_calls = Some(json!([{"function": {"name": "add", "arguments": {"a": 1}}}]));
    let messages = [Message::user("sum?"), call, Message::new("tool", "3")];
    let expected = r#"user:sum?assistant:Let me.<call>add{"a": 1}(1)user:3"#;
    assert_eq!(render(source, &messages).unwrap(), expected);
    // Every render starts from what was given.
    assert_eq!(render(source, &messages).unwrap(), expected);
}

/// Each of these would take the native stack with it when it is written, compared or dropped.
#[test]
fn values_do_not_grow_without_end() {
    for (source, reason) in [
        ("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "a namespace cannot be kept"),
        (
            "{% set ns = namespace() %}{%- set ns.a = {'b': [ns]} -%}{{ ns == ns }}",
            "a namespace cannot be kept",
        ),
        ("{% set a = namespace() %}{% set b = namespace(a=a) %}{{ b }}", "a namespace cannot be kept"),
        ("{% set ns = namespace() %}{% set ns.a, b = ns, 1 %}{{ ns }}", "a namespace cannot be kept"),
        ("{% set ns = namespace(q=[]) %}{% set _ = ns.q.append(ns.q) %}{{ ns.q }}", "a list that changes"),
        (
            "{% set ns = namespace(q=[]) %}{% set _ = ns.q.append({'a': ns.q}) %}{{ ns.q }}",
            "a list that changes",
        ),
        (
            "{% set ns = namespace(q=[]) %}{% set _ = ns.q.extend([[ns.q]]) %}{{ ns.q }}",
            "a list that changes",
        ),
        (
            "{% set ns = namespace(q=[]) %}{% set _ = ns.q.append(ns) %}{{ ns.q }}",
            "a namespace cannot be kept",
        ),
        (
            "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns }}",
            "64 levels",
        ),
        (
            "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns }}",
            "64 levels",
        ),
        ("{% set ns = namespace(q=[1]) %}{{ ns.q.pop(3) }}", "no such item"),
        ("{% set ns = namespace(q=[]) %}{{ ns.q.pop() }}", "no such item"),
    ] {
        match render(source, &[]) {
            Err(error) => assert!(error.to_string().contains(reason), "{source}: {error}"),
            Ok(text) => panic!("{source} gives {} bytes", text.len()),
        }
    }
    let tower = "{% set ns = namespace(x=[1, 2]) %}\
        {% for i in range(20000) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x | join }}";
    assert_eq!(render(tower, &[]).unwrap(), "12");
}
