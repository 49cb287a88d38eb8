//! A conversation as a file: one JSON object with a format, a version, the instructions and the messages.

use crate::exit::refuse;
use crate::text;
use crate::whole_file::WholeFile;
use quern::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

const FORMAT: &str = "quern-chat";

/// Rises with every change that an older build would misread.
const VERSION: u64 = 1;

/// No conversation fills more: the longest contexts hold a few megabytes of text.
const MAX_BYTES: u64 = 64 << 20;

/// What a file holds of a conversation.
pub(super) struct Transcript {
    /// The model it was held with.
    pub(super) model: String,
    /// The instructions that were in force.
    pub(super) system: Option<String>,
    /// Questions and answers by turns.
    pub(super) messages: Vec<Message>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    model: String,
    system: Option<String>,
    messages: Vec<Turn>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    role: Role,
    content: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// Whose turn it is.
fn role(i: usize) -> Role {
    if i.is_multiple_of(2) { Role::User } else { Role::Assistant }
}

impl Transcript {
    /// Writes the file whole or not at all.
    pub(super) fn write(self, path: &Path) -> anyhow::Result<()> {
        let turns = self.messages.into_iter().enumerate();
        let document = Document {
            format: FORMAT.into(),
            version: VERSION,
            model: self.model,
            system: self.system,
            messages: turns.map(|(i, message)| Turn { role: role(i), content: message.content }).collect(),
        };
        let mut file = WholeFile::create(path)?;
        file.write(format!("{}\n", serde_json::to_string_pretty(&document)?).as_bytes())?;
        file.publish()
    }

    /// Reads a file; what is not exactly a conversation of this version is refused.
    pub(super) fn read(path: &Path) -> anyhow::Result<Transcript> {
        let name = path.display();
        if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_BYTES) {
            return refuse(format!("{name} is no conversation: it has more than {MAX_BYTES} bytes"));
        }
        let value: Value = match serde_json::from_str(&text::read(path)?) {
            Ok(value) => value,
            Err(error) => return refuse(format!("{name} is no conversation: {error}")),
        };
        if value["format"] != FORMAT {
            return refuse(format!("{name} is no conversation: its \"format\" is not \"{FORMAT}\""));
        }
        if value["version"] != VERSION {
            return refuse(format!(
                "{name} is a conversation of version {}, and this build reads version {VERSION}",
                value["version"]
            ));
        }
        let document: Document = match serde_json::from_value(value) {
            Ok(document) => document,
            Err(error) => return refuse(format!("{name} is no conversation: {error}")),
        };
        let turns = document.messages;
        let by_turns = turns.iter().enumerate().all(|(i, turn)| turn.role == role(i));
        if !by_turns || !turns.len().is_multiple_of(2) {
            return refuse(format!(
                "{name} is no conversation: its messages must be a user's and an assistant's by turns, an answer last"
            ));
        }
        let message = |turn: Turn| match turn.role {
            Role::User => Message::user(turn.content),
            Role::Assistant => Message::assistant(turn.content),
        };
        let messages = turns.into_iter().map(message).collect();
        Ok(Transcript { model: document.model, system: document.system, messages })
    }
}
