//! Completion scripts and manual pages, which are made out of the command line's definition.

use crate::common::{quern, text};

/// The script of bash is read by bash itself, and completes what the help lists.
#[test]
#[cfg(unix)]
fn a_completion_script_completes() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = quern(&["completions", shell]).done();
        for word in ["chat", "--max-tokens", "completions"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
    assert!(quern(&["completions", "tcsh"]).refused().contains("bash"));
    let script = quern(&["completions", "bash"]).done();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("quern.bash");
    std::fs::write(&path, script).unwrap();
    let complete = |words: &[&str]| {
        let line = words.join(" ");
        let ask = format!(
            "source '{}'; COMP_WORDS=({line}); COMP_CWORD={}; _quern quern '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            text(&path),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        crate::common::run(std::process::Command::new("bash").args(["--norc", "-c", &ask]), b"").done()
    };
    assert_eq!(complete(&["quern", "ins"]).trim(), "inspect");
    assert_eq!(complete(&["quern", "run", "--max"]).trim(), "--max-tokens");
    assert_eq!(complete(&["quern", "run", "--kv", "f"]).trim(), "f16 f32");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = quern(&["man"]).done();
    assert!(page.contains(".TH quern 1") && page.contains("Exit codes"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    quern(&["man", "--out", &text(&out)]).done();
    let top = quern(&["--help"]).done();
    let commands =
        top.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A long description goes on further to the right.
    let commands = commands.filter(|line| !line.starts_with("   "));
    let commands: Vec<_> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let page = std::fs::read_to_string(out.join(format!("quern-{command}.1"))).unwrap();
        assert!(
            page.contains(&format!(".TH quern\\-{command} 1"))
                || page.contains(&format!(".TH quern-{command} 1")),
            "{page}"
        );
        assert!(page.contains("Examples:") && page.contains("quern "), "{command}: {page}");
    }
    assert!(out.join("quern-models-rm.1").is_file());
    assert!(
        std::fs::read_dir(&out).unwrap().all(|entry| entry
            .unwrap()
            .path()
            .extension()
            .is_some_and(|e| e == "1"))
    );
}
