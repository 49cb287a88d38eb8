//! What is changed in a template's source before it is compiled.

use std::collections::HashSet;

/// A source as it is compiled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) source: String,
    /// Attributes are assigned to something that no `namespace()` made: the template changes its messages.
    pub(crate) changes_messages: bool,
}

/// Turns `{% generation %}`, which only marks text for training, into a plain scope, so white-space control and the
/// lifetime of variables inside stay as they are; and passes what is assigned to an attribute through the filter
/// `checked`, since that is the one way for a template to build values without end.
pub(crate) fn rewrite(source: &str, checked: &str) -> Rewritten {
    let mut out = String::with_capacity(source.len());
    let (mut assigned, mut namespaces) = (HashSet::new(), HashSet::new());
    let mut rest = source;
    while let Some((before, tag, after)) = next_tag(rest) {
        out.push_str(before);
        rest = after;
        let Some(inner) = tag.strip_prefix("{%").and_then(|t| t.strip_suffix("%}")) else {
            out.push_str(tag);
            continue;
        };
        let body = inner.trim_start_matches(['-', '+']);
        let (open, body) = inner.split_at(inner.len() - body.len());
        let statement = body.trim_end_matches(['-', '+']);
        let (statement, close) = body.split_at(statement.len());
        let words = statement.trim();
        let replaced = match words {
            "generation" => Some("with".to_string()),
            "endgeneration" => Some("endwith".to_string()),
            "raw" => {
                out.push_str(tag);
                let end = end_of_raw(rest);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            _ => match assignment(words) {
                Some((target, value)) if target.contains('.') => {
                    assigned.extend(target.split(',').filter_map(|t| Some(t.split_once('.')?.0.trim())));
                    Some(format!("set {target} = ({value}) | {checked}"))
                }
                Some((target, value)) => {
                    if value.starts_with("namespace") {
                        namespaces.insert(target.trim());
                    }
                    None
                }
                None => None,
            },
        };
        match replaced {
            Some(replaced) => {
                out.push_str("{%");
                out.push_str(open);
                out.push(' ');
                // Lines of errors stay true.
                out.extend(std::iter::repeat_n(
                    '\n',
                    line_breaks(statement).saturating_sub(line_breaks(&replaced)),
                ));
                out.push_str(&replaced);
                out.push(' ');
                out.push_str(close);
                out.push_str("%}");
            }
            None => out.push_str(tag),
        }
    }
    out.push_str(rest);
    Rewritten { source: out, changes_messages: !assigned.is_subset(&namespaces) }
}

fn line_breaks(text: &str) -> usize {
    text.matches('\n').count()
}

/// The text before the next tag, the tag, and the rest. A tag's end is not looked for inside quotes. None where no whole
/// tag is left.
fn next_tag(source: &str) -> Option<(&str, &str, &str)> {
    let at = ["{%", "{{", "{#"].into_iter().filter_map(|open| source.find(open)).min()?;
    let tag = &source[at..];
    let length = match &tag[..2] {
        "{#" => tag.find("#}")? + 2,
        "{%" => tag_length(tag, "%}")?,
        _ => tag_length(tag, "}}")?,
    };
    Some((&source[..at], &tag[..length], &tag[length..]))
}

fn tag_length(tag: &str, close: &str) -> Option<usize> {
    let bytes = tag.as_bytes();
    let (mut at, mut quote) = (2, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(q), byte) if q == byte => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(close.as_bytes()) => return Some(at + close.len()),
            (None, _) => {}
        }
        at += 1;
    }
    None
}

/// Where raw text ends: before its closing tag, or at the end.
fn end_of_raw(source: &str) -> usize {
    let is_end = |at: &usize| {
        source[*at..].trim_start_matches(['{', '%', '-', '+']).trim_start().starts_with("endraw")
    };
    source.match_indices("{%").map(|(at, _)| at).find(is_end).unwrap_or(source.len())
}

/// Target and value of `set TARGET = VALUE`.
fn assignment(statement: &str) -> Option<(&str, &str)> {
    let rest = statement.strip_prefix("set")?;
    let (target, value) = rest.split_once('=')?;
    let is_target = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.,()".contains(c);
    (rest.starts_with([' ', '\t', '\n', '\r', '(']) && target.chars().all(is_target))
        .then(|| (target.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> String {
        rewrite(source, "ok").source
    }

    #[test]
    fn generation_tags_become_scopes() {
        assert_eq!(
            rewritten("a{%- generation -%}b{% endgeneration %}{% if x %}{% generation_x %}"),
            "a{%- with -%}b{% endwith %}{% if x %}{% generation_x %}"
        );
    }

    #[test]
    fn only_assignments_to_attributes_are_checked() {
        for (source, expected) in [
            ("{%- set ns.a = b + '%}' -%}c", "{%- set ns.a = (b + '%}') | ok -%}c"),
            ("{% set a.b, c = x, y %}", "{% set a.b, c = (x, y) | ok %}"),
            ("{%set a.b=1%}", "{% set a.b = (1) | ok %}"),
            ("{% set a = b.c == 1 %}", "{% set a = b.c == 1 %}"),
            ("{% set a.b %}x{% endset %}", "{% set a.b %}x{% endset %}"),
            ("{% settled.a = 1 %}", "{% settled.a = 1 %}"),
            ("{# {% set a.b = 1 %} #}", "{# {% set a.b = 1 %} #}"),
            ("{% raw %}{% set a.b = 1 %}{% endraw %}", "{% raw %}{% set a.b = 1 %}{% endraw %}"),
            ("{{ '{% set a.b = 1 %}' }}", "{{ '{% set a.b = 1 %}' }}"),
            ("{% set a.b = 1", "{% set a.b = 1"),
        ] {
            assert_eq!(rewritten(source), expected);
        }
        let lines = rewritten("{% set\n a.b =\n 1 %}\n{{ x }}");
        assert_eq!(line_breaks(&lines), 3, "{lines}");
    }

    #[test]
    fn a_template_that_changes_messages_is_known() {
        let changes = |source| rewrite(source, "ok").changes_messages;
        assert!(changes("{% for m in messages %}{% set m.role = 'user' %}{% endfor %}"));
        assert!(!changes("{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{% set m = messages[0] %}"));
    }
}
