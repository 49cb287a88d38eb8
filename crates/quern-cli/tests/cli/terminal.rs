//! `quern chat` on a terminal: keys, the line history, and Ctrl-C, through a pseudo-terminal.

use crate::common::{DEMO, model, text};
use rexpect::session::{PtySession, spawn_command};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Long enough for a loaded machine; nothing waits for it where all goes well.
const PATIENCE_MS: u64 = 120_000;

fn chat(data: &Path, flags: &[&str]) -> PtySession {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    command.args(["chat", &model(DEMO), "--temp", "0", "--threads", "2", "--activations", "f32"]).args(flags);
    command.env("QUERN_DATA", data).env("TERM", "xterm").env("NO_COLOR", "1");
    let mut session = spawn_command(command, Some(PATIENCE_MS)).unwrap();
    session.exp_string("/help lists the commands").unwrap();
    session.exp_string(">>> ").unwrap();
    session
}

/// Waits for the end of the process, and for its exit code.
fn ended(session: &mut PtySession) -> String {
    session.exp_eof().unwrap();
    format!("{:?}", session.process().wait().unwrap())
}

/// Ctrl-C stops the answer, which stays in the conversation as far as it came; the next question is answered; Ctrl-C twice
/// leaves.
#[test]
fn ctrl_c_keeps_the_answer_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    let mut session = chat(folder.path(), &["--ignore-eos", "--system", "x"]);
    session.send_line("Count.").unwrap();
    // The line's own echo ends with a line break; then the answer begins.
    session.exp_string("Count.").unwrap();
    session.exp_regex("\n[^\n]*[A-Za-z]{4}").unwrap();
    session.send_control('c').unwrap();
    session.exp_string("ended by cancelled").unwrap();
    session.exp_string(">>> ").unwrap();
    session.send_line(&format!("/save {}", text(&file))).unwrap();
    session.exp_string(".json").unwrap();
    session.exp_string(">>> ").unwrap();
    let talk: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(talk["messages"][0]["content"], "Count.");
    assert!(!talk["messages"][1]["content"].as_str().unwrap().is_empty(), "{talk}");

    // A half-typed line is emptied by Ctrl-C; on an empty line the first one only says how to leave.
    session.send("half a line").unwrap();
    session.flush().unwrap();
    session.exp_string("half a line").unwrap();
    session.send_control('c').unwrap();
    session.send_control('c').unwrap();
    session.exp_string("again").unwrap();
    session.exp_string(">>> ").unwrap();
    session.send_control('c').unwrap();
    assert!(ended(&mut session).contains("Exited"), "ended by a signal");
}

/// The up arrow brings back what was typed in an earlier conversation; the file is the user's alone. The count of prompt
/// tokens is that of apply_chat_template of transformers.
#[test]
fn the_history_outlives_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat-history");
    let mut session = chat(folder.path(), &["--system", "", "-n", "2"]);
    session.send_line("What is the capital of France?").unwrap();
    session.exp_string("37 prompt tokens").unwrap();
    session.exp_string(">>> ").unwrap();
    session.send_control('d').unwrap();
    assert!(ended(&mut session).contains(", 0)"), "exit code 0");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(std::fs::read_to_string(&history).unwrap().contains("capital of France"));

    let mut session = chat(folder.path(), &["--system", "", "-n", "2"]);
    session.send("\x1b[A").unwrap();
    session.flush().unwrap();
    session.exp_string("What is the capital of France?").unwrap();
    session.send_line("").unwrap();
    session.exp_string("37 prompt tokens").unwrap();
    session.exp_string(">>> ").unwrap();
    // A mistake does not end the conversation.
    session.send_line("/walk").unwrap();
    session.exp_string("there is no command /walk").unwrap();
    session.exp_string(">>> ").unwrap();
    session.send_line("/exit").unwrap();
    assert!(ended(&mut session).contains(", 0)"), "exit code 0");
}

#[test]
fn no_history_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = chat(folder.path(), &["--no-history"]);
    session.send_line("/help").unwrap();
    session.exp_string("/regen").unwrap();
    session.exp_string(">>> ").unwrap();
    session.send_line("/exit").unwrap();
    session.exp_eof().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
