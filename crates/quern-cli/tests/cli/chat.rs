//! `quern chat` through a pipe: each line a message or a command, answers on standard output.

use crate::common::{DEMO, Ran, model, quern_with_input, text};
use serde_json::{Value, json};
use std::path::Path;

/// Greedy and short, under the template's own instructions.
const FLAGS: [&str; 8] = ["--temp", "0", "-n", "12", "--system", "", "--threads", "2"];

fn chat(flags: &[&str], lines: &str) -> Ran {
    quern_with_input(&[&["chat", &model(DEMO)], flags].concat(), lines.as_bytes())
}

fn saved(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What `quern run` answers to the same prompt: the first turn is no different.
#[test]
fn a_conversation_remembers_and_prints_answers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    let lines = format!("What is the capital of France?\n\nAnd of Italy?\n/save {}\n", text(&file));
    let printed = chat(&FLAGS, &lines).done();
    let talk = saved(&file);
    assert_eq!(
        (&talk["format"], &talk["version"], &talk["system"]),
        (&"quern-chat".into(), &1.into(), &Value::Null)
    );
    let messages = talk["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(messages[2]["content"], "And of Italy?");
    let answers: Vec<_> = [1, 3].iter().map(|i| messages[*i]["content"].as_str().unwrap()).collect();
    assert_eq!(printed, format!("{}\n{}\n", answers[0], answers[1]));

    let alone = quern_with_input(
        &[&["run", &model(DEMO), "What is the capital of France?"], &FLAGS[..]].concat(),
        b"",
    );
    assert_eq!(alone.done(), answers[0]);
    // The second answer depends on what went before; a conversation that is loaded goes on as the one that was held.
    let first: Value = json!({
        "format": "quern-chat", "version": 1, "model": talk["model"], "system": null, "messages": messages[..2],
    });
    std::fs::write(&file, first.to_string()).unwrap();
    let again = chat(&FLAGS, &format!("/load {}\nAnd of Italy?\n", text(&file))).done();
    assert_eq!(again, format!("{}\n", answers[1]));
    let forgot = chat(&FLAGS, "Hi\n/reset\nWhat is the capital of France?\n").done();
    assert!(forgot.ends_with(&format!("\n{}\n", answers[0])), "{forgot}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part of a file is left behind");
}

#[test]
fn messages_of_several_lines_settings_and_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    let lines =
        format!("/set temp 2.0\n/set seed 7\n/set max_p 1\n/save {0}\n/exit\n/save {0}.not\n", text(&file));
    let refused = chat(&FLAGS, &lines).refused();
    assert!(
        refused.contains("--max-p") && refused.contains("--top-p") || refused.contains("--min-p"),
        "{refused}"
    );

    let lines = format!(
        "/system \"\"\"Speak\nplainly.\"\"\"\none\\\ntwo\n\"\"\"\n/three\n\"\"\"\n/regen\n/save {0}\n/bye\n/save {0}.not\n",
        text(&file)
    );
    chat(&FLAGS, &lines).done();
    let talk = saved(&file);
    assert_eq!(talk["system"], "Speak\nplainly.");
    assert_eq!(
        (&talk["messages"][0]["content"], &talk["messages"][2]["content"]),
        (&"one\ntwo".into(), &"/three".into())
    );
    assert_eq!(talk["messages"].as_array().unwrap().len(), 4, "/regen replaces an answer");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is read after /bye");

    // /set counts before the flag: the seed repeats, and temperature 2 does not say what greedy says.
    let hot = |seed: &str| {
        chat(&FLAGS, &format!("/set temp 2\n/set seed 1\n/set seed {seed}\nTell me a story.\n")).done()
    };
    assert_eq!(hot("7"), hot("7"));
    assert_ne!(hot("7"), hot("8"));
}

#[test]
fn mistakes_end_a_pipe_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| {
        let path = folder.path().join("bad.json");
        std::fs::write(&path, text).unwrap();
        path
    };
    for (lines, parts) in [
        ("/walk\n", &["/walk", "/help", "\"\"\""][..]),
        ("/set temp warm\n", &["warm", "--temp"]),
        ("/set temp -1\n", &["temperature", "-1", "from 0 up"]),
        ("/set\u{20}\n/set colour red\n", &["--colour"]),
        ("/regen\n", &["no answer"]),
        ("/load no/such.json\n", &["no/such.json"]),
        ("/save\n", &["/save FILE"]),
    ] {
        let ran = chat(&FLAGS, lines);
        let stderr = ran.stderr();
        assert_eq!((ran.code(), ran.stdout()), (Some(2), String::new()), "{lines}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{lines}: {stderr}");
    }
    let head = r#""format": "quern-chat", "version": 1, "model": "m", "system": null"#;
    for (file, part) in [
        ("[1", "no conversation"),
        ("{}", "format"),
        (r#"{"format": "quern-chat", "version": 2, "messages": {}}"#, "version 2"),
        (&format!("{{{head}}}"), "messages"),
        (&format!(r#"{{{head}, "messages": [], "more": 1}}"#), "more"),
        (&format!(r#"{{{head}, "messages": [{{"role": "user", "content": "x"}}]}}"#), "by turns"),
        (&format!(r#"{{{head}, "messages": [{{"role": "tool", "content": "x"}}]}}"#), "tool"),
        (&format!("{{{head}, \"messages\": {}1{}}}", "[".repeat(500), "]".repeat(500)), "no conversation"),
    ] {
        let path = text(&write(file));
        let refused = chat(&FLAGS, &format!("/load {path}\n")).refused();
        assert!(refused.contains(part) && refused.contains("bad.json"), "{file}: {refused}");
    }
    let refused = quern_with_input(&[&["chat", &model(DEMO)], &FLAGS[..]].concat(), b"caf\xe9\n").refused();
    assert!(refused.contains("line 1") && refused.contains("UTF-8"), "{refused}");
    let refused = chat(&["--top-p", "2"], "").refused();
    assert!(refused.contains("top_p"), "{refused}");
}

/// A context that is full ends an answer with a note, and a message that no longer fits with a sentence on what to do.
#[test]
fn a_full_context_says_what_to_do() {
    let ran = chat(
        &["--temp", "0", "--system", "x", "--ctx", "40", "--ignore-eos"],
        "Count to a hundred.\nGo on.\n",
    );
    let stderr = ran.stderr();
    assert_eq!(ran.code(), Some(2), "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(lines[0].starts_with("quern: note: ") && lines[0].contains("40 tokens is full"), "{stderr}");
    assert!(lines[1].contains("holds 40") && lines[1].contains("/reset"), "{stderr}");
    assert!(!ran.stdout().is_empty());
}
