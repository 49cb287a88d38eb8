//! What a reference means.

use quern_hub::{Hub, HubError};

#[test]
fn a_path_is_used_as_it_stands() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("My Model.Q4_K_M.GGUF");
    std::fs::write(&file, "x").expect("written");
    let hub = Hub::new(dir.path().join("cache"));
    let found = hub.resolve(file.to_str().expect("UTF-8"), &mut ()).expect("resolves");
    assert_eq!((found.path, found.name.as_str()), (file, "My Model.Q4_K_M"));
    assert!(!hub.dir().unwrap().exists(), "a path needs no cache");
}

#[test]
fn what_cannot_be_resolved_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let hub = Hub::new(dir.path().join("cache"));
    let refuse = |reference: &str| hub.resolve(reference, &mut ()).expect_err("refused");

    let unknown = refuse("lama");
    assert!(matches!(unknown, HubError::UnknownName { .. }));
    let text = unknown.to_string();
    assert!(
        text.contains("`lama`") && text.contains("demo (or smollm2)") && text.contains("gemma3"),
        "{text}"
    );
    assert!(text.contains("path"), "{text}");

    let missing = refuse("nowhere.gguf").to_string();
    assert!(missing.contains("nowhere.gguf") && missing.contains("demo"), "{missing}");
    assert!(matches!(refuse(dir.path().to_str().expect("UTF-8")), HubError::IsFolder { .. }));
    for (reference, part) in [("hf:owner", "owner/name"), ("https://example.org/model.gguf", "not supported")]
    {
        let text = refuse(reference).to_string();
        assert!(text.contains(reference) && text.contains(part), "{text}");
    }
    assert!(!hub.dir().unwrap().exists(), "a refusal leaves nothing behind");
}
