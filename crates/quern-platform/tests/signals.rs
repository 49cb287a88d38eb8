//! Signals end processes, so each case runs in a child: this same test program, started again with a role.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const ROLE: &str = "QUERN_TEST_ROLE";

/// Plays the role the parent asked for; without one (the ordinary run) there is nothing to do.
#[test]
fn child() {
    match std::env::var(ROLE).as_deref() {
        Ok("filter") => {
            quern_platform::reset_sigpipe();
            write_until_refused();
        }
        Ok("plain") => write_until_refused(),
        Ok("interrupts") => {
            let guard = quern_platform::catch_interrupts().expect("handler");
            say("ready");
            wait_for(|| guard.flag().load(Ordering::SeqCst));
            say("caught");
            std::thread::sleep(Duration::from_secs(30));
        }
        Ok("restored") => {
            let guard = quern_platform::catch_interrupts().expect("handler");
            assert!(!guard.interrupted());
            drop(guard);
            say("ready");
            std::thread::sleep(Duration::from_secs(30));
        }
        _ => {}
    }
}

/// Exits with code 3 at the first write error, if it lives to see it.
fn write_until_refused() {
    say("ready");
    let mut out = std::io::stdout();
    while out.write_all(&[b'x'; 4096]).and_then(|()| out.flush()).is_ok() {}
    std::process::exit(3);
}

fn say(word: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("<{word}>").as_bytes()).and_then(|()| out.flush()).expect("stdout");
}

fn wait_for(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "gave up waiting");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn start(role: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("child")
}

fn hear(child: &mut Child, word: &str) {
    let out = child.stdout.as_mut().expect("piped");
    let (mut heard, mut byte) = (Vec::new(), [0u8]);
    let word = format!("<{word}>");
    while !heard.ends_with(word.as_bytes()) {
        assert_eq!(out.read(&mut byte).expect("pipe"), 1, "the child ended early");
        heard.push(byte[0]);
    }
}

fn interrupt(child: &Child) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: the child has not been waited for, so the id is still its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
}

#[test]
fn a_filter_dies_quietly_of_a_closed_pipe_where_others_see_an_error() {
    for (role, signal, code) in [("filter", Some(libc::SIGPIPE), None), ("plain", None, Some(3))] {
        let mut child = start(role);
        // The test harness writes first, and would not survive a pipe that was closed from the start.
        hear(&mut child, "ready");
        drop(child.stdout.take());
        let status = child.wait().expect("wait");
        assert_eq!((status.signal(), status.code()), (signal, code), "{role}");
    }
}

#[test]
fn the_first_interrupt_raises_the_flag_and_the_second_kills() {
    let mut child = start("interrupts");
    hear(&mut child, "ready");
    interrupt(&child);
    hear(&mut child, "caught");
    interrupt(&child);
    assert_eq!(child.wait().expect("wait").signal(), Some(libc::SIGINT));
}

#[test]
fn a_dropped_guard_leaves_interrupts_deadly() {
    let mut child = start("restored");
    hear(&mut child, "ready");
    interrupt(&child);
    assert_eq!(child.wait().expect("wait").signal(), Some(libc::SIGINT));
}
