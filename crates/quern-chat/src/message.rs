//! One turn of a conversation, as a template sees it.

use serde_json::{Map, Value, json};

/// One message. Everything but the role and the content is optional and shown to the template only when set.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or what the model's template knows besides.
    pub role: String,
    /// What was said.
    pub content: String,
    /// The assistant's reasoning, where the API keeps it apart from the content.
    pub reasoning: Option<String>,
    /// Tool calls in OpenAI's shape: `[{"id", "type": "function", "function": {"name", "arguments"}}]`.
    pub tool_calls: Option<Value>,
    /// The name of the speaker or of the tool.
    pub name: Option<String>,
    /// Which call a tool's result answers.
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message with a role of the caller's choosing.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// Instructions that stand above the conversation.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the person says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }

    /// The mapping a template reads, with the names publishers use for reasoning.
    pub(crate) fn to_json(&self, arguments: Arguments) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("role".into(), json!(self.role));
        map.insert("content".into(), json!(self.content));
        if let Some(reasoning) = &self.reasoning {
            map.insert("reasoning_content".into(), json!(reasoning));
            map.insert("thinking".into(), json!(reasoning));
        }
        if let Some(calls) = &self.tool_calls {
            let mut calls = calls.clone();
            for call in calls.as_array_mut().into_iter().flatten() {
                convert_arguments(call, arguments);
            }
            map.insert("tool_calls".into(), calls);
        }
        if let Some(name) = &self.name {
            map.insert("name".into(), json!(name));
        }
        if let Some(id) = &self.tool_call_id {
            map.insert("tool_call_id".into(), json!(id));
        }
        map
    }
}

/// How a tool call's arguments are shown. APIs send JSON text; nearly all templates want the mapping, a few the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    Mapping,
    Text,
}

fn convert_arguments(call: &mut Value, form: Arguments) {
    let slot = match call.get_mut("function") {
        Some(function) => function.get_mut("arguments"),
        None => call.get_mut("arguments"),
    };
    let Some(slot) = slot else { return };
    match (form, &*slot) {
        (Arguments::Mapping, Value::String(text)) => {
            if let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text) {
                *slot = parsed;
            }
        }
        (Arguments::Text, Value::Object(_)) => *slot = Value::String(slot.to_string()),
        _ => {}
    }
}
