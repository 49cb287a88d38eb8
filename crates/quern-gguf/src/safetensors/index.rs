//! Models in several files: which ones, and whether they hold what the index says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::error::SafetensorsFault;
use super::header::{self, File, Pairs};
use super::{EXTENSION, INDEX_EXTENSION, STANDARD_NAME};
use crate::directory;
use crate::error::{Fault, GgufError};
use crate::limits::Limits;
use crate::map::Bytes;
use crate::split;
use crate::text::NameIndex;

/// The longest index that is read: as much as a header of the format.
const INDEX_BYTES: u64 = 100_000_000;

/// Opens a file or an index, and gives the paths and contents of all files with tensors.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<(Vec<PathBuf>, Vec<File>), GgufError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with(INDEX_EXTENSION) {
        return open_index(path, limits);
    }
    match split::name_of(path, EXTENSION).filter(|(_, of)| of.count > 1) {
        None => Ok((vec![path.to_path_buf()], vec![open_file(path, limits)?])),
        Some((stem, of)) => {
            let index = path.with_file_name(format!("{stem}{INDEX_EXTENSION}"));
            if index.exists() {
                return open_index(&index, limits);
            }
            // What is wrong with the file itself comes first: perhaps it does not even exist.
            open_file(path, limits)?;
            Err(Fault::from(SafetensorsFault::LonePart { of, index }).in_file(path))
        }
    }
}

fn open_file(path: &Path, limits: &Limits) -> Result<File, GgufError> {
    header::read(&Arc::new(Bytes::map(path)?), limits).map_err(|fault| fault.in_file(path))
}

/// `NAME.safetensors.index.json`. What else it holds, such as a total size, says nothing of where weights lie.
#[derive(Deserialize)]
struct Index {
    /// Tensor to file.
    weight_map: Pairs<String>,
}

/// An index's tensors and their files, with what is needed to find a tensor.
struct Weights {
    pairs: Vec<(String, String)>,
    names: NameIndex,
}

fn open_index(path: &Path, limits: &Limits) -> Result<(Vec<PathBuf>, Vec<File>), GgufError> {
    let weights = read_index(&Bytes::map(path)?, limits).map_err(|fault| fault.in_file(path))?;
    let names: BTreeSet<&str> = weights.pairs.iter().map(|(_, file)| file.as_str()).collect();
    let paths: Vec<PathBuf> = names.iter().map(|name| path.with_file_name(name)).collect();
    all_there(&paths, path)?;

    let mut found = vec![false; weights.pairs.len()];
    let mut files = Vec::with_capacity(paths.len());
    for (name, path_of_file) in names.iter().zip(&paths) {
        let file = open_file(path_of_file, limits)?;
        for tensor in &file.tensors {
            match weights.names.find(&tensor.name, |i| &weights.pairs[i].0) {
                Some(i) if weights.pairs[i].1 == **name && !found[i] => found[i] = true,
                Some(i) if found[i] => {
                    return Err(Fault::DuplicateTensor { name: tensor.name.clone() }.in_file(path_of_file));
                }
                _ => {
                    let (name, index) = (tensor.name.clone(), path.to_path_buf());
                    return Err(
                        Fault::from(SafetensorsFault::NotListed { name, index }).in_file(path_of_file)
                    );
                }
            }
        }
        files.push(file);
    }
    match found.iter().position(|found| !found) {
        None => Ok((paths, files)),
        Some(missing) => {
            let (name, file) = weights.pairs[missing].clone();
            let fault = SafetensorsFault::MissingTensor { name, index: path.to_path_buf() };
            Err(Fault::from(fault).in_file(path.with_file_name(file)))
        }
    }
}

fn read_index(json: &[u8], limits: &Limits) -> Result<Weights, Fault> {
    let (found, limit) = (json.len() as u64, limits.header_bytes.min(INDEX_BYTES));
    if found > limit {
        return Err(SafetensorsFault::IndexTooLong { found, limit }.into());
    }
    let index: Index =
        serde_json::from_slice(json).map_err(|error| SafetensorsFault::json("the index", &error))?;
    let pairs = index.weight_map.0;
    if pairs.is_empty() {
        return Err(SafetensorsFault::EmptyIndex.into());
    }
    directory::check_count(pairs.len() as u64, limits)?;
    if let Some((name, file)) = pairs.iter().find(|(_, file)| !is_plain(file)) {
        return Err(SafetensorsFault::FileName { name: name.clone(), file: file.clone() }.into());
    }
    match NameIndex::new(pairs.len(), |i| &pairs[i].0) {
        Ok(names) => Ok(Weights { pairs, names }),
        Err(i) => Err(Fault::DuplicateTensor { name: pairs[i].0.clone() }),
    }
}

/// Bytes of a file's name: what file systems allow.
const NAME_BYTES: usize = 255;

/// Whether it names a file beside the index: an index is no more trusted than the file it names. As a path it appears
/// in messages, so it must also print as itself.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.escape_debug().len() == 1 && !matches!(c, '/' | '\\' | ':');
    name.ends_with(EXTENSION) && name.len() <= NAME_BYTES && name.chars().all(plain)
}

/// Names the first file that is missing, with its full path, and says how many more are.
fn all_there(paths: &[PathBuf], index: &Path) -> Result<(), GgufError> {
    let (path, more) = match split::first_missing(paths) {
        None => return Ok(()),
        Some((_, path, more)) => (path, more),
    };
    Err(Fault::from(SafetensorsFault::MissingFile { index: index.to_path_buf(), more }).in_file(path))
}

/// The one model of a folder: its index, or its only file.
pub(super) fn find_in(folder: &Path) -> Result<PathBuf, GgufError> {
    let io = |error| GgufError::Io { path: folder.to_path_buf(), action: "list", error };
    let (mut indexes, mut files) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        match name.to_str() {
            Some(text) if text.ends_with(INDEX_EXTENSION) => indexes.push(text.to_owned()),
            Some(text) if text.ends_with(EXTENSION) => files.push(text.to_owned()),
            _ => {}
        }
    }
    // Parts belong to an index, and are opened alone for the sake of what is then said about it.
    let is_part =
        |name: &String| split::name_of(Path::new(name), EXTENSION).is_some_and(|(_, of)| of.count > 1);
    if files.iter().any(|name| !is_part(name)) || !indexes.is_empty() {
        files.retain(|name| !is_part(name));
    } else {
        files.sort();
        files.truncate(1);
    }
    let mut models = [indexes, files].concat();
    let is_standard = |name: &String| {
        let stem = name.strip_suffix(INDEX_EXTENSION).or_else(|| name.strip_suffix(EXTENSION));
        stem == Some(STANDARD_NAME)
    };
    if models.iter().any(is_standard) {
        models.retain(is_standard);
    }
    models.sort();
    match models.as_slice() {
        [one] => Ok(folder.join(one)),
        [] => Err(Fault::from(SafetensorsFault::EmptyFolder).in_file(folder)),
        _ => Err(Fault::from(SafetensorsFault::SeveralModels { names: models }).in_file(folder)),
    }
}
