//! Models by repository, against a server on loopback that answers in the shapes of Hugging Face's own: the listing is
//! that of `GET /api/models/mcpotato/42-eicar-street?blobs=true` as hf-hub 0.5.0's tests record it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use quern_hub::{Hub, HubError, Origin};
use serde_json::{Value, json};

use crate::support::{Asked, BYTES, Recorder, Reply, SHA256, files, model, serve};

const COMMIT: &str = "8b3861f6931c4026b0cd22b38dbc09e7668983ac";
const Q4: &str = "Model-Q4_K_M.gguf";
const SET: [&str; 2] = ["BF16/Model-BF16-00001-of-00002.gguf", "BF16/Model-BF16-00002-of-00002.gguf"];

/// How the server behaves; tests change it as they go.
struct Manners {
    files: BTreeMap<&'static str, Vec<u8>>,
    gated: Value,
    /// Status of listings, and of files, where they are refused.
    refuses_list: Option<&'static str>,
    refuses_files: Option<&'static str>,
    breaks_at: Option<usize>,
    sha256: Option<&'static str>,
    /// Files that git itself keeps, and their names there.
    small: BTreeMap<&'static str, &'static str>,
    etag: &'static str,
    asked: Vec<Asked>,
}

type Shared = Arc<Mutex<Manners>>;

fn start() -> (String, Shared) {
    let files = [Q4, "Model-Q8_0.gguf", SET[0], SET[1], "README.md"].map(|name| (name, model()));
    let manners = Arc::new(Mutex::new(Manners {
        files: files.into(),
        gated: json!(false),
        refuses_list: None,
        refuses_files: None,
        breaks_at: None,
        sha256: Some(SHA256),
        small: BTreeMap::new(),
        etag: SHA256,
        asked: Vec::new(),
    }));
    let shared = manners.clone();
    let endpoint = serve(move |asked| {
        let mut manners = shared.lock().unwrap();
        manners.asked.push(asked.clone());
        answer(&asked, &mut manners)
    });
    (endpoint, manners)
}

fn answer(asked: &Asked, manners: &mut Manners) -> Reply {
    if let Some(rest) = asked.path.strip_prefix("/api/models/someone/Model-GGUF/revision/") {
        assert!(matches!(rest, "main?blobs=true" | "v1?blobs=true"), "{rest}");
        return manners.refuses_list.map_or_else(|| Reply::json(&listing(manners)), Reply::status);
    }
    if let Some(status) = manners.refuses_files {
        return Reply::status(status);
    }
    let path = asked.path.strip_prefix(&format!("/someone/Model-GGUF/resolve/{COMMIT}/"));
    let Some(file) = path.and_then(|path| manners.files.get(path)) else {
        return Reply::status("404 Not Found");
    };
    let etag = path.and_then(|path| manners.small.get(path)).unwrap_or(&manners.etag);
    let head = format!("\"{etag}\"");
    let mut reply = Reply::part(asked, file, &head, COMMIT);
    if reply.body.len() > 1 {
        reply.body.truncate(manners.breaks_at.take().unwrap_or(reply.body.len()));
    }
    reply
}

fn listing(manners: &Manners) -> Value {
    let sibling = |(name, bytes): (&&str, &Vec<u8>)| {
        let mut sibling = json!({ "rfilename": name, "size": bytes.len() });
        if let Some(blob) = manners.small.get(name) {
            sibling["blobId"] = json!(blob);
        } else if let Some(sha256) = manners.sha256 {
            sibling["blobId"] = json!("cd1c6d8bde5006076655711a49feae66f07d707e");
            sibling["lfs"] = json!({ "pointerSize": 127, "sha256": sha256, "size": bytes.len() });
        }
        sibling
    };
    json!({
        "_id": "621ffdc136468d709f17ddb4",
        "author": "someone",
        "config": {},
        "gated": manners.gated,
        "id": "someone/Model-GGUF",
        "private": false,
        "sha": COMMIT,
        "siblings": manners.files.iter().map(sibling).collect::<Vec<_>>(),
    })
}

fn hub(dir: &Path, endpoint: &str) -> Hub {
    Hub::new(dir).with_endpoint(endpoint)
}

/// Nothing listens there: what a machine without a network sees.
const NOWHERE: &str = "http://127.0.0.1:9";

#[test]
fn a_quantisation_is_fetched_once_and_found_offline() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    let mut progress = Recorder::default();
    let found = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:q4_k_m", &mut progress).unwrap();
    assert_eq!(found.path, dir.path().join(format!("models/hf/someone/Model-GGUF/{COMMIT}/{Q4}")));
    assert_eq!((std::fs::read(&found.path).unwrap(), found.name.as_str()), (model(), "Model-Q4_K_M"));
    assert_eq!(progress.steps, [format!("downloading {Q4}"), format!("checking {Q4}")]);
    assert_eq!(progress.totals, [BYTES, BYTES]);
    let held = files(dir.path());
    assert_eq!(
        held,
        [
            format!("models/hf/someone/Model-GGUF/{COMMIT}/{Q4}"),
            format!("models/hf/someone/Model-GGUF/{COMMIT}/{Q4}.verified"),
            "models/hf/someone/Model-GGUF/q4_k_m@main.json".to_owned(),
        ]
    );
    assert!(manners.lock().unwrap().asked.iter().all(|asked| asked.token.is_none()));

    // Pinned by the record: the server is not asked again, in whatever case, and need not be there.
    let offline = hub(dir.path(), NOWHERE).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap();
    assert_eq!(offline.path, found.path);
    // What is changed on disk is no longer what was recorded.
    std::fs::write(&found.path, "GGUF").unwrap();
    let error = hub(dir.path(), NOWHERE).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap_err();
    assert!(!error.is_refusal() && matches!(error, HubError::Remote { .. }), "{error}");
    hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap();
    assert_eq!(std::fs::read(&found.path).unwrap(), model());
}

#[test]
fn a_set_comes_whole_and_a_revision_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    let found = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:BF16@v1", &mut ()).unwrap();
    assert!(found.path.ends_with(SET[0]), "{}", found.path.display());
    assert!(found.path.with_file_name("Model-BF16-00002-of-00002.gguf").is_file());
    let first = manners.lock().unwrap().asked[0].path.clone();
    assert_eq!(first, "/api/models/someone/Model-GGUF/revision/v1?blobs=true");
}

#[test]
fn a_token_goes_with_every_request() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    let hub = hub(dir.path(), &endpoint).with_token("hf_secret");
    hub.resolve(&format!("hf:someone/Model-GGUF:{Q4}"), &mut ()).unwrap();
    let manners = manners.lock().unwrap();
    assert!(manners.asked.len() >= 3);
    assert!(
        manners.asked.iter().all(|asked| asked.token.as_deref() == Some("Bearer hf_secret")),
        "{:?}",
        manners.asked
    );
    assert!(!format!("{hub:?}").contains("secret"));
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    manners.lock().unwrap().breaks_at = Some(10_000);
    let hub = hub(dir.path(), &endpoint);
    let error = hub.resolve("hf:someone/Model-GGUF:Q8_0", &mut ()).unwrap_err();
    assert!(matches!(error, HubError::Remote { .. }), "{error}");
    assert!(!files(dir.path()).iter().any(|file| file.starts_with("models/")), "nothing half is in place");
    let found = hub.resolve("hf:someone/Model-GGUF:Q8_0", &mut ()).unwrap();
    assert_eq!(std::fs::read(found.path).unwrap(), model());
    let asked = manners.lock().unwrap().asked.clone();
    let starts: Vec<_> =
        asked.iter().filter(|asked| asked.path.ends_with(".gguf") && asked.range.1.is_none()).collect();
    assert_eq!(starts.iter().map(|asked| asked.range.0).collect::<Vec<_>>(), [0, 10_000]);
    assert!(!files(dir.path()).iter().any(|file| file.starts_with("partial/")));
}

/// Small files have no sha256 in a listing: git's own name for them, as `git hash-object` prints it, tells that they
/// arrived whole.
#[test]
fn a_folder_is_fetched_with_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    let config = ("config.json", "{\"model_type\": \"llama\"}\n", "9eddb62b076f586b2186445e7872e5a05f0dfe06");
    let tokenizer = ("tokenizer.json", "{}\n", "0967ef424bce6791893e9a57bb952f80fd536e93");
    let mut set = manners.lock().unwrap();
    set.files = [("model.safetensors", model()), ("README.md", model())].into();
    for (name, text, blob) in [config, tokenizer] {
        set.files.insert(name, text.into());
        set.small.insert(name, blob);
    }
    drop(set);
    let found = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF", &mut ()).unwrap();
    assert_eq!(found.path, dir.path().join(format!("models/hf/someone/Model-GGUF/{COMMIT}")));
    assert_eq!(found.name, "Model-GGUF");
    let held = files(&found.path);
    let held: Vec<_> = held.iter().filter(|name| !name.ends_with(".verified")).collect();
    assert_eq!(held, ["config.json", "model.safetensors", "tokenizer.json"]);
    let again = hub(dir.path(), NOWHERE).resolve("hf:someone/Model-GGUF", &mut ()).unwrap();
    assert_eq!(again.path, found.path);
    let hub = hub(dir.path(), &endpoint);
    let cached = hub.cached().unwrap();
    assert_eq!((cached.len(), cached[0].files.len(), &cached[0].path), (1, 3, &found.path));
    assert!(hub.remove("hf:someone/Model-GGUF").unwrap() > Some(BYTES));
    assert_eq!(files(dir.path()), Vec::<String>::new());
    // A small file that is not the one of the commit.
    manners.lock().unwrap().files.insert("tokenizer.json", "{ }".into());
    let error = hub.resolve("hf:someone/Model-GGUF", &mut ()).unwrap_err();
    assert!(error.to_string().contains("git blob id"), "{error}");
}

/// The hash of the listing decides, whatever the file's own answer says.
#[test]
fn wrong_bytes_are_refused_and_nothing_is_left_behind() {
    for etag in [SHA256, "0123abcd"] {
        let dir = tempfile::tempdir().unwrap();
        let (endpoint, manners) = start();
        let mut other = model();
        other[7] ^= 1;
        let mut set = manners.lock().unwrap();
        set.files.insert(Q4, other);
        set.etag = etag;
        drop(set);
        let error = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap_err();
        assert!(error.to_string().contains("instead of 870f48cf"), "{error}");
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    manners.lock().unwrap().etag = "00000000000000000000000000000000000000000000000000000000000000ff";
    let error = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap_err();
    assert!(error.to_string().contains("ff instead of 870f48cf"), "{error}");
    manners.lock().unwrap().sha256 = None;
    let error = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap_err();
    assert!(matches!(error, HubError::NoHash { .. }), "{error}");
}

#[test]
fn each_refusal_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, manners) = start();
    let ask = |gated: Value, list: Option<&'static str>, files: Option<&'static str>| {
        let mut set = manners.lock().unwrap();
        (set.gated, set.refuses_list, set.refuses_files) = (gated, list, files);
        drop(set);
        hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF:Q4_K_M", &mut ()).unwrap_err()
    };
    let no = || json!(false);
    for (error, is_refusal, parts) in [
        (ask(no(), Some("401 Unauthorized"), None), true, ["401", "HF_TOKEN"]),
        (ask(no(), Some("403 Forbidden"), None), true, ["403", "read access"]),
        (ask(no(), Some("404 Not Found"), None), true, ["404", "https://huggingface.co/someone/Model-GGUF"]),
        (ask(no(), Some("429 Too Many Requests"), None), false, ["429", "wait"]),
        (ask(no(), Some("500 Oops"), None), false, ["500", "try again"]),
        (ask(no(), None, Some("404 Not Found")), true, ["404", "spelling"]),
        (
            ask(json!("manual"), None, Some("401 Unauthorized")),
            true,
            ["gated", "accept its terms at https://hugg"],
        ),
        (ask(json!("auto"), None, Some("403 Forbidden")), true, ["gated", "HF_TOKEN"]),
    ] {
        let text = error.to_string();
        assert!(text.starts_with("`hf:someone/Model-GGUF:Q4_K_M`: ") && !text.contains('\n'), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(error.is_refusal(), is_refusal, "{text}");
    }
    let error = ask(no(), None, Some("503 Service Unavailable"));
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

#[test]
fn an_odd_listing_is_no_panic() {
    for body in [
        json!([]),
        json!({ "sha": "../x", "siblings": [] }),
        json!({ "sha": "c", "siblings": 7 }),
        json!(null),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = serve(move |_| Reply::json(&body));
        let error = hub(dir.path(), &endpoint).resolve("hf:someone/Model-GGUF", &mut ()).unwrap_err();
        assert!(matches!(error, HubError::Remote { .. }), "{error}");
        assert_eq!(files(dir.path()), Vec::<String>::new());
    }
}

#[test]
fn the_cache_is_listed_and_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, _) = start();
    let hub = hub(dir.path(), &endpoint);
    assert_eq!(hub.cached().unwrap(), []);
    let names = [
        "hf:someone/Model-GGUF:BF16",
        "hf:someone/Model-GGUF:Model-Q4_K_M.gguf",
        "hf:someone/Model-GGUF:Q4_K_M",
    ];
    names.iter().for_each(|name| drop(hub.resolve(name, &mut ()).unwrap()));
    let mut cached = hub.cached().unwrap();
    cached.sort_by(|a, b| a.reference.cmp(&b.reference));
    assert_eq!(cached.iter().map(|model| model.reference.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(cached.iter().map(|model| model.bytes).collect::<Vec<_>>(), [2 * BYTES, BYTES, BYTES]);
    assert_eq!(cached[0].files.len(), 2);
    assert_eq!(cached[0].origin, Origin::Repository { commit: COMMIT.into() });
    // A file that another reference needs stays.
    assert_eq!(hub.remove(names[2]).unwrap(), Some(0));
    assert_eq!(hub.remove(names[2]).unwrap(), None);
    assert_eq!(hub.remove(names[1]).unwrap(), Some(BYTES));
    assert_eq!(hub.remove(names[0]).unwrap(), Some(2 * BYTES));
    assert_eq!(files(dir.path()), Vec::<String>::new());
    assert_eq!(hub.cached().unwrap(), []);
    assert!(matches!(hub.remove("nobody"), Err(HubError::UnknownName { .. })));
}
