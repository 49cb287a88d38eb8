//! One file of a Hugging Face repository, through `hf-hub`, which resumes a broken download.
//!
//! `hf-hub` checks no hash, so the file is hashed before it counts. It also takes names from the server's headers as
//! parts of paths and trusts a complete part file to be resumable; both are seen to here.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};

use crate::cache::hash_file;
use crate::error::Attempt;
use crate::fetch::remove_folder;
use crate::{Progress, ShortName};

/// A file to be had from a repository.
pub(crate) struct Request<'a> {
    pub(crate) entry: &'a ShortName,
    pub(crate) repo: &'a str,
    pub(crate) revision: &'a str,
    pub(crate) file: &'a str,
}

impl Request<'_> {
    /// A verified file under `scratch`. A broken download stays there to be resumed; a wrong file does not.
    pub(crate) fn fetch(
        &self,
        endpoint: Option<&str>,
        scratch: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Attempt> {
        let tried = format!("Hugging Face: {} of {} at {}", self.file, self.repo, self.revision);
        // A panic of the library over an odd answer is one more way for a source to fail.
        let fetch = AssertUnwindSafe(|| self.fetch_in(endpoint, &scratch.join("hugging-face"), progress));
        let outcome = catch_unwind(fetch).unwrap_or_else(|_| Err("the server's answer made no sense".into()));
        outcome.map_err(|said| Attempt::new(tried, said))
    }

    fn fetch_in(
        &self,
        endpoint: Option<&str>,
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, String> {
        let cache = Cache::new(folder.into());
        // No token: listed models are public, and a token has no business at another endpoint.
        let mut builder = ApiBuilder::from_cache(cache.clone()).with_token(None).with_progress(false);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_string());
        }
        let api = builder.build().map_err(|e| e.to_string())?;
        let repo = || Repo::with_revision(self.repo.into(), RepoType::Model, self.revision.into());
        let remote = api.repo(repo());

        let metadata = api.metadata(&remote.url(self.file)).map_err(|e| e.to_string())?;
        self.check(&metadata)?;
        let blob = cache.repo(repo()).blob_path(metadata.etag());
        let part = blob.with_extension("part");
        // A complete part is never resumed: the server would answer that nothing is left (G66).
        let is_complete = |path: &Path| fs::metadata(path).is_ok_and(|m| m.len() >= self.entry.bytes);
        let file = if is_complete(&blob) {
            blob
        } else if is_complete(&part) {
            part
        } else {
            self.download(&remote, progress)?
        };
        self.verify(&file, progress).inspect_err(|_| remove_folder(folder))?;
        Ok(file)
    }

    /// Refuses an answer that cannot be the file, before anything is written.
    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        if metadata.size() as u64 != self.entry.bytes {
            return Err(format!("the file has {} bytes instead of {}", metadata.size(), self.entry.bytes));
        }
        for name in [metadata.etag(), metadata.commit_hash()] {
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if name.is_empty() || name.len() > 128 || !plain {
                return Err(format!("the server calls the file or its revision {name:?}, which is no hash"));
            }
        }
        Ok(())
    }

    /// The file itself, not the link to it that the library keeps.
    fn download(&self, remote: &ApiRepo, progress: &mut dyn Progress) -> Result<PathBuf, String> {
        progress.start(&format!("downloading {}", self.entry.name), Some(self.entry.bytes));
        let outcome = remote.download_with_progress(self.file, Bridge { progress: &mut *progress });
        progress.finish();
        let link = outcome.map_err(|e| e.to_string())?;
        fs::canonicalize(&link).map_err(|e| format!("cannot find {}: {e}", link.display()))
    }

    fn verify(&self, file: &Path, progress: &mut dyn Progress) -> Result<(), String> {
        progress.start(&format!("checking {}", self.entry.name), Some(self.entry.bytes));
        let read = hash_file(file, progress);
        progress.finish();
        let copied = read.map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        copied.mismatch(self.entry).map_or(Ok(()), Err)
    }
}

/// `hf-hub` reports through its own trait; start and end are reported around it.
struct Bridge<'a> {
    progress: &'a mut dyn Progress,
}

impl hf_hub::api::Progress for Bridge<'_> {
    fn init(&mut self, _size: usize, _filename: &str) {}

    fn update(&mut self, size: usize) {
        self.progress.advance(size as u64);
    }

    fn finish(&mut self) {}
}
