//! `tojson` as Python's `json.dumps` writes it, for templates: no HTML escapes, and shielded text stays shielded.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::shield::Twins;

/// Deepest nesting written; a template can build deeper values than any input has.
const MAX_DEPTH: usize = 128;

/// The options of `json.dumps` that transformers passes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonStyle {
    pub(crate) ensure_ascii: bool,
    pub(crate) indent: Option<String>,
    pub(crate) item_separator: Option<String>,
    pub(crate) key_separator: Option<String>,
    pub(crate) sort_keys: bool,
}

/// Writes `value` as JSON.
pub(crate) fn to_json(value: &Value, style: &JsonStyle, twins: Option<&Twins>) -> Result<String, Error> {
    // Like Python: with an indent, lines end in a bare comma.
    let default_items = if style.indent.is_some() { "," } else { ", " };
    let mut writer = Writer {
        out: String::new(),
        style,
        items: style.item_separator.as_deref().unwrap_or(default_items),
        keys: style.key_separator.as_deref().unwrap_or(": "),
        twins,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: String,
    style: &'a JsonStyle,
    items: &'a str,
    keys: &'a str,
    twins: Option<&'a Twins>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let message = format!("tojson: nested more than {MAX_DEPTH} levels deep");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => {
                let number = f64::try_from(value.clone())?;
                self.out.push_str(&python_float(number));
            }
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.container('[', items, ']', depth)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    items.push((Some(key_text(&key)?), value.get_item(&key)?));
                }
                if self.style.sort_keys {
                    let plain = |key: &Option<String>| {
                        let key = key.as_deref().unwrap_or_default();
                        self.twins.map_or_else(|| key.to_string(), |twins| twins.restore(key))
                    };
                    items.sort_by_cached_key(|(key, _)| plain(key));
                }
                self.container('{', items, '}', depth)?;
            }
            kind => {
                let message = format!("tojson: a value of type {kind} is not JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn container(
        &mut self,
        open: char,
        items: Vec<(Option<String>, Value)>,
        close: char,
        depth: usize,
    ) -> Result<(), Error> {
        self.out.push(open);
        let empty = items.is_empty();
        for (i, (key, item)) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(self.items);
            }
            self.line(depth + 1);
            if let Some(key) = key {
                self.string(&key);
                self.out.push_str(self.keys);
            }
            self.value(&item, depth + 1)?;
        }
        if !empty {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match self.twins {
                Some(twins) if twins.is_tag(c) => self.out.push(c),
                Some(twins) => match twins.original(c) {
                    // An escape of a shielded character is shielded as a whole.
                    Some(original) => {
                        let mut escaped = String::new();
                        push_escaped(&mut escaped, original, self.style.ensure_ascii);
                        self.out.extend(escaped.chars().map(|c| twins.twin(c)));
                    }
                    None => push_escaped(&mut self.out, c, self.style.ensure_ascii),
                },
                None => push_escaped(&mut self.out, c, self.style.ensure_ascii),
            }
        }
        self.out.push('"');
    }
}

fn push_escaped(out: &mut String, c: char, ensure_ascii: bool) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c if c < ' ' || (ensure_ascii && !c.is_ascii()) => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        // Python's ensure_ascii escapes DEL no more than JSON does.
        c => out.push(c),
    }
}

/// Python turns scalar keys into text and refuses the rest.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_string(),
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        ValueKind::Number if key.is_integer() => key.to_string(),
        ValueKind::Number => python_float(f64::try_from(key.clone())?),
        kind => {
            let message = format!("tojson: a value of type {kind} cannot be a key");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    })
}

/// A float as Python's `repr` spells it: shortest digits, an exponent below 1e-4 and from 1e16 on.
fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are what CPython 3.11's `json.dumps` prints.
    #[test]
    fn floats_are_spelled_as_python_spells_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e300, "1e+300"),
        ];
        for (number, expected) in cases {
            assert_eq!(python_float(number), expected);
        }
    }

    #[test]
    fn options_follow_json_dumps() {
        let value = minijinja::context! { b => vec![1, 2], a => "é\"\n<&>", e => Vec::<i32>::new() };
        let json = |style: JsonStyle| to_json(&value, &style, None).expect("writes");
        assert_eq!(json(JsonStyle::default()), r#"{"b": [1, 2], "a": "é\"\n<&>", "e": []}"#);
        let ascii = JsonStyle { ensure_ascii: true, sort_keys: true, ..JsonStyle::default() };
        assert_eq!(json(ascii), r#"{"a": "\u00e9\"\n<&>", "b": [1, 2], "e": []}"#);
        let indented = JsonStyle { indent: Some("  ".into()), ..JsonStyle::default() };
        assert_eq!(
            json(indented),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": \"é\\\"\\n<&>\",\n  \"e\": []\n}"
        );
    }
}
