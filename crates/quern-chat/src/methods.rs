//! Python string methods that templates call and `minijinja-contrib` does not have.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Methods of Python's types, for the engine's unknown-method hook.
pub(crate) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let (ValueKind::String, Some(text)) = (value.kind(), value.as_str())
        && let Some(result) = string_method(text, method, args)
    {
        return result;
    }
    if let (ValueKind::Seq, "append" | "pop" | "extend" | "insert") = (value.kind(), method) {
        let message = format!("`{method}` would change a list, which chat templates may not do");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// Longest text a padding method makes.
const MAX_PADDED: usize = 1 << 16;

fn string_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "removeprefix" => from_args(args).map(|(p,): (&str,)| text.strip_prefix(p).unwrap_or(text).into()),
        "removesuffix" => from_args(args).map(|(s,): (&str,)| text.strip_suffix(s).unwrap_or(text).into()),
        "index" => from_args(args).and_then(|(what,): (&str,)| match text.find(what) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "index: substring not found")),
        }),
        "rsplit" => {
            from_args(args).and_then(|(sep, limit): (Option<&str>, Option<i64>)| rsplit(text, sep, limit))
        }
        "partition" => from_args(args).and_then(|(sep,): (&str,)| {
            let parts = text.split_once(non_empty(sep)?);
            Ok(list(parts.map_or([text, "", ""], |(a, b)| [a, sep, b])))
        }),
        "rpartition" => from_args(args).and_then(|(sep,): (&str,)| {
            let parts = text.rsplit_once(non_empty(sep)?);
            Ok(list(parts.map_or(["", "", text], |(a, b)| [a, sep, b])))
        }),
        "ljust" | "rjust" => from_args(args).and_then(|(width, fill): (usize, Option<char>)| {
            if width > MAX_PADDED {
                let message = format!("{method}: {width} is more than {MAX_PADDED} characters");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
            let missing = width.saturating_sub(text.chars().count());
            let padding: String = std::iter::repeat_n(fill.unwrap_or(' '), missing).collect();
            Ok(Value::from(if method == "ljust" { text.to_string() + &padding } else { padding + text }))
        }),
        _ => return None,
    })
}

fn non_empty(sep: &str) -> Result<&str, Error> {
    if sep.is_empty() { Err(Error::new(ErrorKind::InvalidOperation, "empty separator")) } else { Ok(sep) }
}

fn list<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    parts.into_iter().map(Value::from).collect()
}

fn rsplit(text: &str, sep: Option<&str>, limit: Option<i64>) -> Result<Value, Error> {
    let limit = usize::try_from(limit.unwrap_or(-1)).unwrap_or(usize::MAX - 1);
    let parts: Vec<&str> = match sep {
        Some(sep) => text.rsplitn(limit + 1, non_empty(sep)?).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() {
                let cut = if parts.len() < limit { rest.rfind(char::is_whitespace) } else { None };
                let Some(at) = cut else {
                    parts.push(rest.trim_start());
                    break;
                };
                parts.push(rest[at..].trim_start());
                rest = rest[..at].trim_end();
            }
            parts
        }
    };
    Ok(list(parts.into_iter().rev()))
}
