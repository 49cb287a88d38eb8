//! Values that a template may change, as Python's can be changed.
//!
//! Two things need it: lists kept in a namespace that grow by `append` (Kimi K2 remembers the ids of its calls), and
//! templates that assign to attributes of messages (MiroThinker). Jinja2 in the sandbox of transformers refuses both;
//! its plain sandbox changes lists. Everything else stays as it was given.
//!
//! A value that held itself, or that grew a level deeper at every step, would take the native stack with it when it is
//! written or compared: what is assigned or appended is [`checked`] first.

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value, functions};
use std::sync::{Arc, Mutex, PoisonError};

/// The filter that values pass before an attribute takes them. No identifier of a template can be this by chance.
pub(crate) const CHECKED: &str = "quern_checked";

/// Deepest nesting of an assigned value.
const MAX_DEPTH: usize = 64;

/// A list that grows and shrinks.
#[derive(Debug, Default)]
struct List(Mutex<Vec<Value>>);

impl List {
    fn items(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items().len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "append" => {
                let (item,): (Value,) = from_args(args)?;
                let item = kept(&item)?;
                self.items().push(item);
            }
            "insert" => {
                let (at, item): (i64, Value) = from_args(args)?;
                let item = kept(&item)?;
                let mut items = self.items();
                let at = from_end(at, items.len()).clamp(0, items.len() as i64);
                items.insert(at as usize, item);
            }
            "extend" => {
                let (more,): (Value,) = from_args(args)?;
                let more = more.try_iter()?.map(|item| kept(&item)).collect::<Result<Vec<_>, _>>()?;
                self.items().extend(more);
            }
            "pop" => {
                let (at,): (Option<i64>,) = from_args(args)?;
                let mut items = self.items();
                let index = usize::try_from(from_end(at.unwrap_or(-1), items.len()));
                return match index {
                    Ok(index) if index < items.len() => Ok(items.remove(index)),
                    _ => Err(refusal("pop: the list has no such item")),
                };
            }
            _ => {
                let value = Value::from_dyn_object(self.clone());
                return crate::methods::call(state, &value, method, args);
            }
        }
        Ok(Value::from(()))
    }
}

/// An index as Python counts: negative ones from the end.
fn from_end(at: i64, len: usize) -> i64 {
    if at < 0 { at.saturating_add(len as i64) } else { at }
}

fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// `namespace()`, whose lists can be changed.
pub(crate) fn namespace(given: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let Some(given) = given.map(ValueOrKwargs::into_value) else { return functions::namespace(None) };
    if given.kind() != ValueKind::Map {
        return Err(refusal(format!("namespace: expected names with values, not a {}", given.kind())));
    }
    let pairs = given.try_iter()?.map(|key| {
        let value = checked(&given.get_item(&key)?)?;
        let is_list = value.kind() == ValueKind::Seq && !value.is_tuple();
        let value = match is_list && value.downcast_object_ref::<List>().is_none() {
            true => Value::from_object(List(Mutex::new(value.try_iter()?.collect()))),
            false => value,
        };
        Ok((key, value))
    });
    changeable(&Value::from_pairs(pairs.collect::<Result<Vec<(Value, Value)>, Error>>()?))
}

/// A map to whose attributes can be assigned.
fn changeable(map: &Value) -> Result<Value, Error> {
    let (given,) = from_args::<(Option<ValueOrKwargs>,)>(std::slice::from_ref(map))?;
    functions::namespace(given)
}

/// Messages to whose attributes can be assigned. Their keys are in order of the alphabet.
pub(crate) fn changeable_messages(messages: &Value) -> Result<Value, Error> {
    messages.try_iter()?.map(|message| changeable(&message)).collect()
}

/// A value that an attribute may take: nested no deeper than values of real templates are, without a namespace inside, and with
/// every item at hand.
pub(crate) fn checked(value: &Value) -> Result<Value, Error> {
    check(value, 0)?;
    at_hand(value)
}

/// The same for an item of a list that changes.
fn kept(value: &Value) -> Result<Value, Error> {
    check(value, 1)?;
    at_hand(value)
}

/// A lazy sequence over a lazy sequence, and so on, would be a tower of calls when it is read.
fn at_hand(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Iterable => value.try_iter().map(Iterator::collect),
        _ => Ok(value.clone()),
    }
}

fn check(value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refusal(format!("a value nested more than {MAX_DEPTH} levels deep cannot be assigned")));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            if depth > 0 && value.downcast_object_ref::<List>().is_some() {
                return Err(refusal("a list that changes cannot be kept inside another value"));
            }
            value.try_iter()?.try_for_each(|item| check(&item, depth + 1))
        }
        ValueKind::Map => {
            if value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
                return Err(refusal("a namespace cannot be kept inside another value"));
            }
            value.try_iter()?.try_for_each(|key| check(&value.get_item(&key)?, depth + 1))
        }
        _ => Ok(()),
    }
}
