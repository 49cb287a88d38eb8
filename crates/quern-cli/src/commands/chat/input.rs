//! What a person or a pipe says: lines, put together to messages.
//!
//! On a terminal, lines are edited and remembered by rustyline; a line of several lines, such as a pasted text, is one.

use crate::exit::refuse;
use crate::progress::note;
use anyhow::Context;
use rustyline::config::{BellStyle, Behavior};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, KeyEvent, Movement,
    RepeatCount,
};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

/// Lines that the history keeps.
const HISTORY_LINES: usize = 2000;

/// The history's file, in the folder for what Quern made.
const HISTORY_FILE: &str = "chat-history";

const FENCE: &str = "\"\"\"";

/// What was said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Message(String),
    /// A line that begins with a slash.
    Command(String),
    /// A message was begun and given up.
    Dropped,
    /// Ctrl-C at an empty prompt.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// Where messages come from.
pub(super) struct Input {
    source: Source,
}

enum Source {
    Terminal(Box<Terminal>),
    /// A pipe or a file, and the number of its last line.
    Pipe(usize),
}

struct Terminal {
    editor: Editor<(), FileHistory>,
    history: Option<PathBuf>,
}

impl Input {
    /// Standard input; with the history of earlier conversations where that is wanted and can be had.
    pub(super) fn open(history: bool) -> anyhow::Result<Input> {
        if !std::io::stdin().is_terminal() {
            return Ok(Input { source: Source::Pipe(0) });
        }
        // A prompt has no business in a file that standard output is sent to.
        let stdout = std::io::stdout().is_terminal();
        let behavior = if stdout { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).bell_style(BellStyle::None);
        let config = config.max_history_size(HISTORY_LINES)?.history_ignore_dups(true)?.build();
        let mut editor = Editor::with_config(config).context("cannot read from the terminal")?;
        editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(ClearLine)));
        let mut terminal = Terminal { editor, history: None };
        if history && let Err(error) = terminal.open_history() {
            note(&format!("typed lines are not kept for the next time: {error:#}"));
        }
        Ok(Input { source: Source::Terminal(Box::new(terminal)) })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.source, Source::Terminal(_))
    }

    /// The next message or command; blank ones are passed over.
    pub(super) fn read(&mut self) -> anyhow::Result<Said> {
        let mut turn = Turn::default();
        loop {
            let said = match (self.line(turn.is_open())?, turn.is_open()) {
                (Line::Text(line), _) if !turn.push(&line) => continue,
                (Line::Text(_), _) => turn.said(),
                (Line::Interrupted, false) => return Ok(Said::Interrupted),
                (Line::Interrupted, true) => return Ok(Said::Dropped),
                (Line::End, true) if !self.is_terminal() => turn.said(),
                (Line::End, _) => return Ok(Said::End),
            };
            let typed = std::mem::take(&mut turn).typed;
            if let Some(said) = said {
                self.remember(&typed);
                return Ok(said);
            }
        }
    }

    fn line(&mut self, goes_on: bool) -> anyhow::Result<Line> {
        match &mut self.source {
            Source::Terminal(terminal) => {
                match terminal.editor.readline(if goes_on { "... " } else { ">>> " }) {
                    Ok(line) => Ok(Line::Text(line)),
                    Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(error).context("cannot read from the terminal"),
                }
            }
            Source::Pipe(number) => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().read_until(b'\n', &mut bytes);
                if read.context("cannot read standard input")? == 0 {
                    return Ok(Line::End);
                }
                *number += 1;
                let Ok(mut line) = String::from_utf8(bytes) else {
                    return refuse(format!("line {number} of standard input is not UTF-8 text"));
                };
                line.truncate(line.trim_end_matches(['\n', '\r']).len());
                Ok(Line::Text(line))
            }
        }
    }

    fn remember(&mut self, typed: &str) {
        let Source::Terminal(terminal) = &mut self.source else { return };
        // Neither failure is worth more than the conversation.
        let _ = terminal.editor.add_history_entry(typed);
        if let Some(path) = &terminal.history {
            let _ = terminal.editor.append_history(path);
        }
    }
}

impl Terminal {
    /// rustyline writes the file with mode 0600.
    fn open_history(&mut self) -> anyhow::Result<()> {
        let folder = quern_platform::data_dir()?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(HISTORY_FILE);
        if Path::exists(&path) {
            self.editor.load_history(&path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        self.history = Some(path);
        Ok(())
    }
}

enum Line {
    Text(String),
    Interrupted,
    End,
}

/// Ctrl-C on a line with something in it empties the line; on an empty one it is what it always is.
struct ClearLine;

impl ConditionalEventHandler for ClearLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        (!context.line().is_empty()).then_some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// A message or a command on its way, line by line.
#[derive(Default)]
struct Turn {
    text: String,
    /// What brings the same back from the history.
    typed: String,
    form: Form,
    closed: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No line has come.
    #[default]
    Empty,
    /// Ends with a line that does not end in a backslash.
    Plain,
    /// Ends with the second fence.
    Fenced {
        command: bool,
    },
}

impl Turn {
    fn is_open(&self) -> bool {
        self.form != Form::Empty
    }

    /// Takes a line; answers whether it was the last one.
    fn push(&mut self, line: &str) -> bool {
        if self.form != Form::Empty {
            self.typed.push('\n');
        } else if let Some((before, rest)) = line.split_once(FENCE)
            && (before.trim().is_empty() || before.starts_with('/'))
        {
            self.text = before.trim_start().to_owned();
            self.typed = format!("{before}{FENCE}");
            self.form = Form::Fenced { command: before.starts_with('/') };
            // Nothing stands on the fence's line: the text begins with the next one.
            return match rest.strip_prefix('\n') {
                Some(rest) => {
                    self.typed.push('\n');
                    self.fenced(rest)
                }
                None if rest.is_empty() => false,
                None => self.fenced(rest),
            };
        }
        match self.form {
            Form::Empty | Form::Plain => {
                self.form = Form::Plain;
                let (line, last) = line.strip_suffix('\\').map_or((line, true), |line| (line, false));
                self.text += line;
                self.typed += line;
                if !last {
                    self.text.push('\n');
                }
                self.closed = last;
            }
            Form::Fenced { .. } => return self.fenced(line),
        }
        self.closed
    }

    /// Lines within the fences; several where they come pasted, or out of the history.
    fn fenced(&mut self, lines: &str) -> bool {
        self.typed += lines;
        let line = match lines.rsplit_once('\n') {
            Some((before, line)) => {
                self.text += before;
                self.text.push('\n');
                line
            }
            None => lines,
        };
        match line.trim_end().strip_suffix(FENCE) {
            Some("") => {
                // The fence stands alone: the line break before it is not the message's.
                self.text.truncate(self.text.strip_suffix('\n').unwrap_or(&self.text).len());
                self.closed = true;
            }
            Some(line) => {
                self.text += line;
                self.closed = true;
            }
            None => {
                self.text += line;
                self.text.push('\n');
            }
        }
        self.closed
    }

    /// What it came to; None for nothing.
    fn said(&mut self) -> Option<Said> {
        if !self.closed {
            // The pipe ended first.
            self.text.truncate(self.text.trim_end_matches('\n').len());
        }
        let command = match self.form {
            Form::Fenced { command } => command,
            Form::Empty | Form::Plain => self.text.starts_with('/'),
        };
        let text = std::mem::take(&mut self.text);
        match (text.trim().is_empty(), command) {
            (true, _) => None,
            (false, true) => Some(Said::Command(text)),
            (false, false) => Some(Said::Message(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Option<Said> {
        let mut turn = Turn::default();
        for (i, line) in lines.iter().enumerate() {
            assert_eq!(turn.push(line), i + 1 == lines.len(), "{lines:?} at {i}");
        }
        turn.said()
    }

    fn message(text: &str) -> Option<Said> {
        Some(Said::Message(text.into()))
    }

    /// The examples of several lines in the documentation of Ollama's command line, and its backslash.
    #[test]
    fn messages_of_several_lines() {
        assert_eq!(said(&["\"\"\"Hello,", "world!", "\"\"\""]), message("Hello,\nworld!"));
        assert_eq!(said(&["\"\"\"", "Hello,", "world!\"\"\""]), message("Hello,\nworld!"));
        assert_eq!(said(&["\"\"\"Hello\"\"\""]), message("Hello"));
        assert_eq!(said(&["one \\", "two"]), message("one \ntwo"));
        assert_eq!(said(&["\"\"\"/etc/passwd", "\\", "\"\"\""]), message("/etc/passwd\n\\"));
        assert_eq!(said(&["say \"\"\"this\"\"\""]), message("say \"\"\"this\"\"\""));
        assert_eq!(said(&["pasted\ntext"]), message("pasted\ntext"));
        assert_eq!(said(&["  "]), None);
        assert_eq!(said(&["\"\"\"", "\"\"\""]), None);
    }

    #[test]
    fn commands_of_several_lines() {
        let command = |text: &str| Some(Said::Command(text.into()));
        assert_eq!(said(&["/system \"\"\"a", "b\"\"\""]), command("/system a\nb"));
        assert_eq!(said(&["/reset"]), command("/reset"));
    }

    /// What the history brings back means the same again.
    #[test]
    fn typed_again_it_is_the_same() {
        for lines in [&["one\\", "two"][..], &["\"\"\"a", "b", "\"\"\""], &["/system \"\"\"a", "b\"\"\""], &["\"\"\"/x\"\"\""]] {
            let mut turn = Turn::default();
            lines.iter().for_each(|line| {
                turn.push(line);
            });
            assert_eq!(said(&[&turn.typed]), turn.said(), "{lines:?}");
        }
    }
}
