//! Lists and files of Hugging Face repositories, through `hf-hub`, which resumes a broken download.
//!
//! `hf-hub` checks no hash, so a file is hashed before it counts. It also takes names from the server's headers as
//! parts of paths and trusts a complete part file to be resumable; both are seen to here.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};
use serde::Deserialize;

use crate::Progress;
use crate::cache::{Expected, HashKind, hash_file};
use crate::choice::{RepoFile, RepoHash};
use crate::error::Attempt;
use crate::fetch::remove_folder;

/// A file to be had from a repository.
pub(crate) struct Request<'a> {
    pub(crate) expected: Expected<'a>,
    pub(crate) repo: &'a str,
    pub(crate) revision: &'a str,
    pub(crate) file: &'a str,
}

/// Where repositories are, and who asks.
#[derive(Clone, Copy)]
pub(crate) struct Server<'a> {
    /// None: Hugging Face itself.
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) token: Option<&'a str>,
}

/// Why a server gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It answered with this status.
    Status(u16),
    /// Anything else, in words.
    Other(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Status(status) => write!(f, "request error: http status: {status}"),
            Failure::Other(said) => f.write_str(said),
        }
    }
}

impl From<String> for Failure {
    fn from(said: String) -> Failure {
        Failure::Other(said)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        match error {
            ApiError::RequestError(error) => (*error).into(),
            error => Failure::Other(error.to_string()),
        }
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Failure {
        match error {
            ureq::Error::StatusCode(status) => Failure::Status(status),
            error => Failure::Other(format!("request error: {error}")),
        }
    }
}

/// A panic of the library over an odd answer is one more way for a source to fail.
fn without_panics<T>(ask: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let nonsense = || Failure::Other("the server's answer made no sense".into());
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|_| Err(nonsense()))
}

/// What a repository holds at a revision.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The commit that the revision is now.
    pub(crate) commit: String,
    /// Only those who asked for it and were let in may have its files.
    pub(crate) gated: bool,
    pub(crate) files: Vec<RepoFile>,
}

/// The server's words for it: `/api/models/OWNER/NAME/revision/REVISION?blobs=true`.
#[derive(Deserialize)]
struct Info {
    sha: String,
    /// `false`, or in which way access is given.
    #[serde(default)]
    gated: serde_json::Value,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    /// Of the file, or of the pointer that stands for a large one.
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

/// A list of a hundred thousand files has fewer bytes.
const MAX_LISTING: u64 = 32 << 20;

impl Server<'_> {
    fn api(self, cache: Cache) -> Result<Api, Failure> {
        let token = self.token.map(str::to_owned);
        let mut builder = ApiBuilder::from_cache(cache).with_token(token).with_progress(false);
        if let Some(endpoint) = self.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_string());
        }
        Ok(builder.build()?)
    }

    /// What a repository holds.
    pub(crate) fn list(self, repo: &str, revision: &str) -> Result<Listing, Failure> {
        let repo = Repo::with_revision(repo.into(), RepoType::Model, revision.into());
        let text = without_panics(|| {
            // Nothing is cached by a listing.
            let api = self.api(Cache::new(PathBuf::new()))?;
            let mut response = api.repo(repo).info_request().query("blobs", "true").call()?;
            Ok(response.body_mut().with_config().limit(MAX_LISTING).read_to_string()?)
        })?;
        let info: Info = serde_json::from_str(&text)
            .map_err(|error| format!("the server's list of files cannot be read: {error}"))?;
        if !is_plain(&info.sha) {
            return Err(format!("the server calls the revision {:?}, which is no hash", info.sha).into());
        }
        let file = |sibling: Sibling| RepoFile {
            path: sibling.rfilename,
            bytes: sibling.lfs.as_ref().map_or(sibling.size.unwrap_or(0), |lfs| lfs.size),
            hash: match sibling.lfs {
                Some(lfs) => is_sha256(&lfs.sha256).then(|| RepoHash::new(HashKind::Sha256, &lfs.sha256)),
                None => {
                    sibling.blob_id.filter(|id| is_sha1(id)).map(|id| RepoHash::new(HashKind::GitBlob, &id))
                }
            },
        };
        Ok(Listing {
            commit: info.sha,
            gated: !matches!(info.gated, serde_json::Value::Null | serde_json::Value::Bool(false)),
            files: info.siblings.into_iter().map(file).collect(),
        })
    }
}

/// Whether a name from the server can stand in a path.
fn is_plain(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    plain && !name.is_empty() && name.len() <= 128
}

fn is_sha256(text: &str) -> bool {
    is_hash(text, 64)
}

fn is_sha1(text: &str) -> bool {
    is_hash(text, 40)
}

fn is_hash(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl Request<'_> {
    /// A verified file under `scratch`. A broken download stays there to be resumed; a wrong file does not.
    pub(crate) fn fetch(
        &self,
        server: Server<'_>,
        scratch: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Attempt> {
        let tried = format!("Hugging Face: {} of {} at {}", self.file, self.repo, self.revision);
        self.download(server, scratch, progress).map_err(|said| Attempt::new(tried, said))
    }

    /// The same, with the server's own answer where there is no file.
    pub(crate) fn download(
        &self,
        server: Server<'_>,
        scratch: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Failure> {
        without_panics(|| self.download_in(server, &scratch.join("hugging-face"), progress))
    }

    fn download_in(
        &self,
        server: Server<'_>,
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Failure> {
        let cache = Cache::new(folder.into());
        let api = server.api(cache.clone())?;
        let repo = || Repo::with_revision(self.repo.into(), RepoType::Model, self.revision.into());
        let remote = api.repo(repo());

        let metadata = api.metadata(&remote.url(self.file))?;
        self.check(&metadata)?;
        let blob = cache.repo(repo()).blob_path(metadata.etag());
        let part = blob.with_extension("part");
        // A complete part is never resumed: the server would answer that nothing is left (G66).
        let is_complete = |path: &Path| fs::metadata(path).is_ok_and(|m| m.len() >= self.expected.bytes);
        let file = if is_complete(&blob) {
            blob
        } else if is_complete(&part) {
            part
        } else {
            self.load(&remote, progress)?
        };
        self.verify(&file, progress).inspect_err(|_| remove_folder(folder))?;
        Ok(file)
    }

    /// Refuses an answer that cannot be the file, before anything is written.
    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        if metadata.size() as u64 != self.expected.bytes {
            return Err(format!("the file has {} bytes instead of {}", metadata.size(), self.expected.bytes));
        }
        for name in [metadata.etag(), metadata.commit_hash()] {
            if !is_plain(name) {
                return Err(format!("the server calls the file or its revision {name:?}, which is no hash"));
            }
        }
        // The name of a large file is its sha256.
        let (etag, expected) = (metadata.etag(), self.expected.hash);
        let comparable = expected.kind == HashKind::Sha256 && is_sha256(etag);
        if comparable && !etag.eq_ignore_ascii_case(expected.hex) {
            return Err(format!("the server's file has sha256 {etag} instead of {}", expected.hex));
        }
        Ok(())
    }

    /// The file itself, not the link to it that the library keeps.
    fn load(&self, remote: &ApiRepo, progress: &mut dyn Progress) -> Result<PathBuf, Failure> {
        progress.start(&format!("downloading {}", self.expected.name), Some(self.expected.bytes));
        let outcome = remote.download_with_progress(self.file, Bridge { progress: &mut *progress });
        progress.finish();
        let link = outcome?;
        Ok(fs::canonicalize(&link).map_err(|e| format!("cannot find {}: {e}", link.display()))?)
    }

    fn verify(&self, file: &Path, progress: &mut dyn Progress) -> Result<(), String> {
        progress.start(&format!("checking {}", self.expected.name), Some(self.expected.bytes));
        let read = hash_file(file, &self.expected, progress);
        progress.finish();
        let copied = read.map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        copied.mismatch(&self.expected).map_or(Ok(()), Err)
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
