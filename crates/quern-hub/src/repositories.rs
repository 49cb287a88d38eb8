//! A model out of a repository: listed, chosen, fetched and recorded; then found without a network.
//!
//! Files lie under `models/hf/OWNER/NAME/COMMIT/`, and what a reference meant when it was first resolved is recorded in
//! `models/hf/OWNER/NAME/PICK@REVISION.json`. While the record and its files are there, the server is not asked again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::{self, Expected, State};
use crate::choice::{CONFIG, RepoFile, RepoHash, choose};
use crate::fetch::{cached, create_folder};
use crate::hugging_face::{Failure, Request, Server};
use crate::reference::{Reference, is_safe_path};
use crate::{Hub, HubError, Progress, ResolvedModel, Token};

/// The version of a record; one of another version counts as none.
const VERSION: u32 = 2;

/// Where addresses for people begin.
const PAGES: &str = "https://huggingface.co";

/// What a reference means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    /// As a person would type it.
    pub(crate) reference: String,
    /// The commit that its revision was.
    pub(crate) commit: String,
    /// The model's parts in order.
    pub(crate) files: Vec<RecordedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) hash: RepoHash,
}

impl RecordedFile {
    fn expected(&self) -> Expected<'_> {
        Expected { name: &self.path, bytes: self.bytes, hash: self.hash.as_ref() }
    }
}

impl Record {
    /// None where there is none, or none that can be used.
    pub(crate) fn read(path: &Path) -> Option<Record> {
        let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let safe = is_safe_path(&record.commit) && record.files.iter().all(|file| is_safe_path(&file.path));
        (record.version == VERSION && safe && !record.files.is_empty()).then_some(record)
    }

    /// The model's files, given the folder of the repository.
    pub(crate) fn paths(&self, repo: &Path) -> Vec<PathBuf> {
        self.files.iter().map(|file| repo.join(&self.commit).join(&file.path)).collect()
    }

    /// What a path to the model is: that of its first file, or its folder, given the folder of the repository.
    pub(crate) fn model(&self, repo: &Path) -> PathBuf {
        let folder = repo.join(&self.commit);
        match self.files.first() {
            Some(file) if file.path != CONFIG => folder.join(&file.path),
            _ => folder,
        }
    }

    fn write(&self, path: &Path) -> Result<(), HubError> {
        let temporary = path.with_extension(format!("{}.part", std::process::id()));
        let write = || {
            fs::write(&temporary, serde_json::to_vec_pretty(self)?)?;
            fs::rename(&temporary, path)
        };
        write().map_err(|error| HubError::io("write", path, error))
    }
}

/// A record's name. Quantisations are the same in any case; slashes would make folders.
fn record_name(reference: &Reference) -> String {
    let pick = reference.pick.as_deref().unwrap_or_default();
    let pick = if reference.picks_file() { pick.to_owned() } else { pick.to_ascii_lowercase() };
    format!("{pick}@{}.json", reference.revision).replace('/', "%2F")
}

impl Hub {
    /// Where the models of repositories lie.
    pub(crate) fn repositories(&self) -> Result<PathBuf, HubError> {
        Ok(self.models()?.join("hf"))
    }

    pub(crate) fn record_of(&self, reference: &Reference) -> Result<PathBuf, HubError> {
        let repo = self.repositories()?.join(&reference.owner).join(&reference.name);
        Ok(repo.join(record_name(reference)))
    }

    /// The first file of the model that a reference means, its parts beside it; or its folder.
    pub(crate) fn repository(
        &self,
        reference: &Reference,
        progress: &mut dyn Progress,
    ) -> Result<ResolvedModel, HubError> {
        let recorded = self.record_of(reference)?;
        let repo = recorded.parent().unwrap_or(&recorded).to_owned();
        let found = Record::read(&recorded);
        let whole = match &found {
            Some(record) => is_whole(record, &repo, progress)?,
            None => false,
        };
        let record = match found {
            Some(record) if whole => record,
            _ => {
                let record = self.fetch_model(reference, &repo, progress)?;
                record.write(&recorded)?;
                record
            }
        };
        let path = record.model(&repo);
        let name = match path.file_stem() {
            Some(stem) if path.is_file() => stem.to_string_lossy().into_owned(),
            _ => reference.name.clone(),
        };
        Ok(ResolvedModel { path, name, system: None })
    }

    fn fetch_model(
        &self,
        reference: &Reference,
        repo: &Path,
        progress: &mut dyn Progress,
    ) -> Result<Record, HubError> {
        let token = self.token.as_ref().map(|Token(token)| token.as_str());
        let server = Server { endpoint: self.endpoint.as_deref(), token };
        let name = reference.repo();
        let listing =
            server.list(&name, &reference.revision).map_err(|failure| explain(reference, false, failure))?;
        let files = choose(reference, &listing.files)?;
        let files = files.into_iter().map(|RepoFile { path, bytes, hash }| match hash {
            Some(hash) => Ok(RecordedFile { path, bytes, hash }),
            None => Err(HubError::NoHash { reference: reference.to_string(), file: path }),
        });
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let record =
            Record { version: VERSION, reference: reference.to_string(), commit: listing.commit, files };
        for (file, path) in record.files.iter().zip(record.paths(repo)) {
            // The same place at every try: that is what a broken download goes on from.
            let scratch = self.dir()?.join("partial").join("hf").join(&file.hash.hex);
            cached(&path, &file.expected(), &scratch, progress, &mut |scratch, progress| {
                let request = Request {
                    expected: file.expected(),
                    repo: &name,
                    revision: &record.commit,
                    file: &file.path,
                };
                let fetched = request.download(server, scratch, progress);
                fetched.map_err(|failure| explain(reference, listing.gated, failure))
            })?;
        }
        create_folder(repo)?;
        Ok(record)
    }
}

/// Whether all files of a record are there, as they were.
fn is_whole(record: &Record, repo: &Path, progress: &mut dyn Progress) -> Result<bool, HubError> {
    for (file, path) in record.files.iter().zip(record.paths(repo)) {
        if cache::check(&path, &file.expected(), progress)? != State::Good {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a server's refusal means, and what to do about it.
fn explain(reference: &Reference, gated: bool, failure: Failure) -> HubError {
    let page = format!("{PAGES}/{}", reference.repo());
    let reference = reference.to_string();
    match failure {
        Failure::Status(401 | 403) if gated => HubError::Gated { reference, page },
        Failure::Status(401) => HubError::Unauthorized { reference },
        Failure::Status(403) => HubError::Forbidden { reference },
        Failure::Status(404) => HubError::NotFound { reference, page },
        Failure::Status(429) => HubError::TooMany { reference },
        failure => HubError::Remote { reference, said: failure.to_string() },
    }
}
