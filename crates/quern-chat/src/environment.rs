//! The Jinja engine, set up the way Hugging Face's transformers sets up Jinja2 for chat templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::ZonedDateTime;
use jiff::fmt::strtime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::ChatError;
use crate::json::{JsonStyle, to_json};
use crate::methods;
use crate::rewrite::rewrite;
use crate::shield::Twins;
use crate::values;

/// Steps one render may take; one step also pays for 64 bytes of text. The largest real prompts stay far below.
pub(crate) const FUEL: u64 = 4_000_000;

const NAME: &str = "chat template";

/// What a template said when it called `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// A template's program.
#[derive(Debug)]
pub(crate) struct Program {
    env: Environment<'static>,
    changes_messages: bool,
}

/// Compiles a template's source.
pub(crate) fn compile(source: &str) -> Result<Program, ChatError> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    env.set_syntax(syntax.map_err(|e| ChatError::Syntax(describe(&e)))?);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_fuel(Some(FUEL));
    env.set_unknown_method_callback(methods::call);
    env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    // In Python neither None nor a number can be iterated, and templates ask before they take a length.
    env.add_test("iterable", |value: &Value| {
        let sized =
            matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map);
        sized || value.is_undefined()
    });
    env.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    env.add_function("namespace", values::namespace);
    env.add_filter(values::CHECKED, values::checked);
    let rewritten = rewrite(source, values::CHECKED);
    env.add_template_owned(NAME, rewritten.source).map_err(|e| ChatError::Syntax(describe(&e)))?;
    Ok(Program { env, changes_messages: rewritten.changes_messages })
}

/// Renders with the clock and the twins of one call.
pub(crate) fn render(
    program: &Program,
    mut context: BTreeMap<&str, Value>,
    now: &ZonedDateTime,
    twins: Option<Arc<Twins>>,
) -> Result<String, ChatError> {
    // A clone shares the compiled template; only the registrations below are its own.
    let mut env = program.env.clone();
    let now = now.clone();
    env.add_function("strftime_now", move |format: &str| {
        strtime::format(format, &now).map_err(|e| {
            let message = format!("strftime_now: cannot use the format `{format}`: {e}");
            Error::new(ErrorKind::InvalidOperation, message)
        })
    });
    env.add_filter("tojson", move |value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs| {
        to_json(value, &json_style(ensure_ascii, &kwargs)?, twins.as_deref())
    });
    let rendered = || {
        if program.changes_messages
            && let Some(messages) = context.get_mut("messages")
        {
            *messages = values::changeable_messages(messages)?;
        }
        env.get_template(NAME)?.render(Value::from(context))
    };
    rendered().map_err(|e| render_error(&e))
}

fn json_style(ensure_ascii: Option<bool>, kwargs: &Kwargs) -> Result<JsonStyle, Error> {
    let indent = kwargs.get::<Option<Value>>("indent")?.filter(|v| !v.is_none());
    let indent = match indent {
        None => None,
        Some(text) if text.kind() == ValueKind::String => text.as_str().map(String::from),
        Some(number) => {
            // More than this is no layout; it would only make the prompt huge.
            const MAX_INDENT: usize = 64;
            let width = usize::try_from(number)?;
            Some(" ".repeat(width.min(MAX_INDENT)))
        }
    };
    let separators = kwargs.get::<Option<Vec<String>>>("separators")?;
    let (item_separator, key_separator) = match separators.as_deref() {
        None => (None, None),
        Some([items, keys]) => (Some(items.clone()), Some(keys.clone())),
        Some(_) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings"));
        }
    };
    let style = JsonStyle {
        ensure_ascii: ensure_ascii.or(kwargs.get("ensure_ascii")?).unwrap_or(false),
        indent,
        item_separator,
        key_separator,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    Ok(style)
}

fn render_error(error: &Error) -> ChatError {
    if error.kind() == ErrorKind::OutOfFuel {
        return ChatError::OutOfFuel(FUEL);
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return ChatError::Refused(message.clone());
        }
        cause = current.source();
    }
    ChatError::Render(describe(error))
}

/// One line: what and where, without the source listing that the engine's own text may add.
fn describe(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}
