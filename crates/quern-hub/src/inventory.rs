//! What the cache holds, and taking it away.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::marker_path;
use crate::reference::{Reference, SCHEME};
use crate::repositories::Record;
use crate::{Hub, HubError, ShortName};

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// What resolves to it.
    pub reference: String,
    /// Where it came from.
    pub origin: Origin,
    /// The first part, or the folder: what a path to it would be.
    pub path: PathBuf,
    /// Its files, first part first.
    pub files: Vec<PathBuf>,
    /// Their size together, in bytes.
    pub bytes: u64,
}

/// Where a model came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in list.
    ShortName,
    /// A repository of Hugging Face, at this commit.
    Repository {
        /// The commit.
        commit: String,
    },
}

impl Hub {
    /// The models of the cache: those of the list first, then those of repositories by name. Nothing is read of them.
    pub fn cached(&self) -> Result<Vec<CachedModel>, HubError> {
        let models = self.models()?;
        let listed = self.catalog.iter().filter_map(|entry: &ShortName| {
            let file = models.join(entry.file);
            let bytes = fs::metadata(&file).ok()?.len();
            Some(CachedModel {
                reference: entry.name.into(),
                origin: Origin::ShortName,
                path: file.clone(),
                files: vec![file],
                bytes,
            })
        });
        let mut found: Vec<CachedModel> = listed.collect();
        for owner in entries(&self.repositories()?)? {
            for repo in entries(&owner)? {
                for path in entries(&repo)? {
                    found.extend(Record::read(&path).map(|record| in_cache(&repo, &record)));
                }
            }
        }
        Ok(found)
    }

    /// Takes a model out of the cache; what other references need of it stays. Gives the bytes that were freed; None
    /// where it was not there.
    pub fn remove(&self, reference: &str) -> Result<Option<u64>, HubError> {
        let all = self.cached()?;
        let is_listed = |entry: &&ShortName| entry.name == reference || entry.aliases.contains(&reference);
        let (name, record) = match reference.strip_prefix(SCHEME) {
            Some(_) => {
                let parsed = Reference::parse(reference)?;
                let path = self.record_of(&parsed)?;
                match Record::read(&path) {
                    Some(record) => (record.reference, Some(path)),
                    None => return Ok(None),
                }
            }
            None => match self.catalog.iter().find(is_listed) {
                Some(entry) => (entry.name.to_owned(), None),
                None => return Err(HubError::UnknownName { name: reference.into(), known: self.known() }),
            },
        };
        let Some(model) = all.iter().find(|model| model.reference == name) else { return Ok(None) };
        let mut freed = 0;
        for file in &model.files {
            let is_shared = all.iter().any(|other| other.reference != name && other.files.contains(file));
            if is_shared {
                continue;
            }
            freed += fs::metadata(file).map_or(0, |metadata| metadata.len());
            remove_file(file)?;
            remove_file(&marker_path(file))?;
            let lock = file.file_name().map(|name| format!(".{}.lock", name.to_string_lossy()));
            if let Some(lock) = lock {
                remove_file(&file.with_file_name(lock))?;
            }
            self.remove_empty_folders(file)?;
        }
        if let Some(record) = record {
            remove_file(&record)?;
            self.remove_empty_folders(&record)?;
        }
        Ok(Some(freed))
    }

    /// Folders above a file that hold nothing any more, up to the folder of models.
    fn remove_empty_folders(&self, file: &Path) -> Result<(), HubError> {
        let models = self.models()?;
        let above = file.ancestors().skip(1).take_while(|folder| *folder != models);
        // The first that is not empty ends it; so does one that cannot be removed.
        let _ = above.map(fs::remove_dir).find(Result::is_err);
        Ok(())
    }
}

fn in_cache(repo: &Path, record: &Record) -> CachedModel {
    let files = record.paths(repo);
    let bytes = files.iter().filter_map(|file| Some(fs::metadata(file).ok()?.len())).sum();
    let origin = Origin::Repository { commit: record.commit.clone() };
    CachedModel { reference: record.reference.clone(), origin, path: record.model(repo), files, bytes }
}

/// What a folder holds, by name; nothing where it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, HubError> {
    let read = match fs::read_dir(folder) {
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        read => read,
    };
    let paths =
        read.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>());
    let mut paths = paths.map_err(|error| HubError::io("read", folder, error))?;
    paths.sort();
    Ok(paths)
}

fn remove_file(path: &Path) -> Result<(), HubError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HubError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}
