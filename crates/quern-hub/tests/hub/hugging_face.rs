//! Models from a repository, with a server on loopback in the hub's place.

use std::sync::{Arc, Mutex};

use quern_hub::{Hub, ShortName};

use crate::support::{self, BYTES, ENTRY, HUGGING_FACE, Recorder, Reply, files, list, model};

/// How the server behaves.
#[derive(Clone)]
struct Manners {
    body: Vec<u8>,
    etag: &'static str,
    /// Breaks the first long answer off after so many bytes.
    breaks_at: Option<usize>,
    /// Answers everything so, if set.
    refuses_with: Option<&'static str>,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners { body: model(), etag: "\"0123abcd\"", breaks_at: None, refuses_with: None }
    }
}

struct Server {
    endpoint: String,
    /// Path and first byte of each request for more than one byte.
    asked: Arc<Mutex<Vec<(String, usize)>>>,
}

fn serve(manners: Manners) -> Server {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let mut manners = manners;
    let endpoint = support::serve(move |asked| {
        if let Some(status) = manners.refuses_with {
            return Reply::status(&format!("{status}\r\nETag: \"0123abcd\"\r\nx-repo-commit: c0ffee"));
        }
        let mut reply = Reply::part(&asked, &manners.body, manners.etag, "c0ffee");
        if reply.body.len() > 1 {
            log.lock().expect("not poisoned").push((asked.path, asked.range.0));
            reply.body.truncate(manners.breaks_at.take().unwrap_or(reply.body.len()));
        }
        reply
    });
    Server { endpoint, asked }
}

fn hub(dir: &std::path::Path, server: &Server) -> Hub {
    let entry = ShortName { sources: &[HUGGING_FACE], ..ENTRY };
    Hub::new(dir).with_catalog(list(entry)).with_endpoint(&server.endpoint)
}

#[test]
fn a_file_is_fetched_verified_and_published() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(Manners::default());
    let mut progress = Recorder::default();
    let found = hub(dir.path(), &server).resolve("tiny", &mut progress).expect("fetched");
    assert_eq!(std::fs::read(found.path).expect("readable"), model());
    assert_eq!(files(dir.path()), ["models/tiny.gguf", "models/tiny.gguf.verified"]);
    assert_eq!(progress.steps, ["downloading tiny", "checking tiny"]);
    assert_eq!(progress.totals, [BYTES, BYTES]);
    let asked = server.asked.lock().expect("not poisoned");
    assert_eq!(*asked, [("/someone/Model-GGUF/resolve/main/model.gguf".to_string(), 0)]);
}

#[test]
fn a_broken_download_is_resumed_where_it_broke() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(Manners { breaks_at: Some(10_000), ..Manners::default() });
    let hub = hub(dir.path(), &server);
    hub.resolve("tiny", &mut ()).expect_err("broken off");
    assert!(!dir.path().join("models/tiny.gguf").exists());
    let found = hub.resolve("tiny", &mut ()).expect("resumed");
    assert_eq!(std::fs::read(found.path).expect("readable"), model());
    let asked = server.asked.lock().expect("not poisoned");
    assert_eq!(asked.iter().map(|(_, start)| *start).collect::<Vec<_>>(), [0, 10_000]);
    assert_eq!(files(dir.path()), ["models/tiny.gguf", "models/tiny.gguf.verified"]);
}

#[test]
fn g66_a_complete_part_is_used_not_resumed() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(Manners::default());
    let blobs = dir.path().join("partial/tiny.gguf/hugging-face/models--someone--Model-GGUF/blobs");
    std::fs::create_dir_all(&blobs).expect("created");
    std::fs::write(blobs.join("0123abcd.part"), model()).expect("written");
    hub(dir.path(), &server).resolve("tiny", &mut ()).expect("nothing left to load");
    assert!(server.asked.lock().expect("not poisoned").is_empty());
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_left_behind() {
    let mut other = model();
    other[7] ^= 1;
    let mut longer = model();
    longer.push(0);
    for (body, expected) in [(other, "instead of 870f48cf"), (longer, "45432 bytes instead of 45431")] {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(Manners { body, ..Manners::default() });
        let error = hub(dir.path(), &server).resolve("tiny", &mut ()).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }
}

#[test]
fn r128_names_from_the_server_do_not_leave_the_cache() {
    for etag in ["\"../../../../escaped\"", "\"a/b\"", "\"\""] {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(Manners { etag, ..Manners::default() });
        let error = hub(&dir.path().join("cache"), &server)
            .resolve("tiny", &mut ())
            .expect_err("refused")
            .to_string();
        assert!(error.contains("no hash"), "{error}");
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }
}

#[test]
fn a_refusal_is_passed_on_and_an_odd_answer_is_no_panic() {
    let cases = [("404 Not Found", "404"), ("302 Found", "made no sense"), ("200 OK", "is missing")];
    for (status, expected) in cases {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(Manners { refuses_with: Some(status), ..Manners::default() });
        let error = hub(dir.path(), &server).resolve("tiny", &mut ()).expect_err("refused").to_string();
        assert!(error.contains(expected), "{status}: {error}");
        assert!(error.contains("model.gguf of someone/Model-GGUF at main"), "{error}");
        assert!(error.contains("By hand: download model.gguf"), "{error}");
    }
}
