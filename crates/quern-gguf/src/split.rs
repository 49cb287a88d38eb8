//! Split sets: models in files called `NAME-00001-of-00003.gguf`, of which any opens all.
//!
//! Each part says in `split.no` (from 0) and `split.count` which one it is, and in `split.tensors.count` how many
//! tensors all parts hold together. The metadata lies in the first; the others may repeat it and cannot add to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{self, Directory};
use crate::encode;
use crate::error::{Fault, GgufError, PartOf};
use crate::limits::Limits;
use crate::map::Bytes;
use crate::metadata::Metadata;
use crate::parse::{self, ALIGNMENT_KEY, Parsed};

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";
/// What the keys of a set start with.
const PREFIX: &str = "split.";

const EXTENSION: &str = ".gguf";

/// Maps and reads the file, with the others of its set if it is a part of one. The parts come in the set's order.
pub(crate) fn open(path: &Path, limits: &Limits) -> Result<(Vec<Arc<Bytes>>, Parsed), GgufError> {
    let named = Part::open(path.to_path_buf(), limits)?;
    let Some((stem, of)) = name_of(path, EXTENSION).filter(|(_, of)| of.count > 1) else {
        return Ok((vec![Arc::new(named.bytes)], named.parsed));
    };
    let paths: Vec<PathBuf> =
        (1..=of.count).map(|part| path.with_file_name(file_name(stem, PartOf { part, ..of }))).collect();
    all_there(&paths)?;
    let mut named = Some(named);
    let parts = paths.into_iter().zip(1..).map(|(path, part)| match named.take_if(|_| part == of.part) {
        Some(named) => Ok(named),
        None => Part::open(path, limits),
    });
    join(parts.collect::<Result<_, _>>()?, limits)
}

/// R51: one part alone is a model with most of its tensors missing.
pub(crate) fn refuse_part(metadata: &Metadata) -> Result<(), Fault> {
    match place(metadata)? {
        Some(PartOf { part, count }) => Err(Fault::SplitSet { part, count }),
        None => Ok(()),
    }
}

/// Checks that a file's name and its metadata agree on whether, and where, it is in a set.
pub(crate) fn check_name(path: &Path, metadata: &Metadata) -> Result<(), Fault> {
    let name = name_of(path, EXTENSION).map(|(_, of)| of).filter(|of| of.count > 1);
    let inside = place(metadata)?;
    if name == inside { Ok(()) } else { Err(Fault::PartName { name, inside }) }
}

/// What the metadata says of the file's place in a set; `None` for a file that stands alone.
fn place(metadata: &Metadata) -> Result<Option<PartOf>, Fault> {
    match metadata.scalar::<u64>(COUNT_KEY)? {
        None | Some(0 | 1) => Ok(None),
        Some(count) => {
            let number: u64 = required(metadata, NUMBER_KEY)?;
            Ok(Some(PartOf { part: number.saturating_add(1), count }))
        }
    }
}

fn required(metadata: &Metadata, key: &str) -> Result<u64, Fault> {
    metadata.scalar(key)?.ok_or_else(|| Fault::MissingKey { key: key.to_owned() })
}

/// `NAME` and the numbers of a file called `NAME-00001-of-00003.gguf`, or with another extension.
pub(crate) fn name_of<'a>(path: &'a Path, extension: &str) -> Option<(&'a str, PartOf)> {
    let number = |digits: &str| match digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit()) {
        true => digits.parse::<u64>().ok(),
        false => None,
    };
    let (rest, count) = path.file_name()?.to_str()?.strip_suffix(extension)?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let of = PartOf { part: number(part)?, count: number(count)? };
    (1..=of.count).contains(&of.part).then_some((stem, of))
}

fn file_name(stem: &str, PartOf { part, count }: PartOf) -> String {
    format!("{stem}-{part:05}-of-{count:05}{EXTENSION}")
}

/// Names the first part that is missing, with its full path, and says how many more are.
fn all_there(paths: &[PathBuf]) -> Result<(), GgufError> {
    let count = paths.len() as u64;
    let Some((i, path, more)) = first_missing(paths) else { return Ok(()) };
    Err(Fault::MissingPart { of: PartOf { part: i as u64 + 1, count }, more }.in_file(path))
}

/// The first file that does not exist: its place in the list, its full path, and how many more do not.
pub(crate) fn first_missing(paths: &[PathBuf]) -> Option<(usize, PathBuf, usize)> {
    // What cannot be asked for is reported when it is opened.
    let mut gone = paths.iter().enumerate().filter(|(_, path)| matches!(path.try_exists(), Ok(false)));
    let (i, path) = gone.next()?;
    Some((i, std::path::absolute(path).unwrap_or_else(|_| path.clone()), gone.count()))
}

struct Part {
    path: PathBuf,
    bytes: Bytes,
    parsed: Parsed,
}

impl Part {
    fn open(path: PathBuf, limits: &Limits) -> Result<Part, GgufError> {
        let bytes = Bytes::map(&path)?;
        let parsed = parse::parse(&bytes, bytes.len() as u64, &path, limits)
            .and_then(|parsed| check_name(&path, &parsed.metadata).map(|()| parsed));
        match parsed {
            Ok(parsed) => Ok(Part { path, bytes, parsed }),
            Err(fault) => Err(fault.in_file(path)),
        }
    }
}

/// One container of all parts, each of which is the one that its name says.
fn join(parts: Vec<Part>, limits: &Limits) -> Result<(Vec<Arc<Bytes>>, Parsed), GgufError> {
    let total = parts.iter().map(|part| part.parsed.directory.tensors.len() as u64).sum();
    for part in &parts {
        check_part(part, &parts[0], total, limits).map_err(|fault| fault.in_file(&part.path))?;
    }

    let (mut paths, mut bytes, mut headers) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        paths.push(part.path);
        bytes.push(Arc::new(part.bytes));
        headers.push(part.parsed);
    }
    let mut tensors = Vec::with_capacity(total as usize);
    for (header, part) in headers.iter_mut().zip(0..) {
        let own = std::mem::take(&mut header.directory.tensors);
        tensors.extend(own.into_iter().map(|tensor| crate::TensorInfo { part, ..tensor }));
    }
    let directory = Directory::new(tensors).map_err(|duplicate| {
        let (first, second) = duplicate.parts();
        let fault =
            Fault::TensorInTwoParts { name: duplicate.name().to_owned(), other: paths[first].clone() };
        fault.in_file(&paths[second])
    })?;
    let Parsed { version, alignment, metadata, .. } = headers.swap_remove(0);
    Ok((bytes, Parsed { version, alignment, metadata, directory }))
}

/// Checks what a part says of the set against the set.
fn check_part(part: &Part, first: &Part, total: u64, limits: &Limits) -> Result<(), Fault> {
    let metadata = &part.parsed.metadata;
    let declared = required(metadata, TENSORS_KEY)?;
    if declared != total {
        return Err(Fault::PartTensors { declared, total });
    }
    directory::check_count(total, limits)?;
    // Where tensors lie is each file's own affair; anything else that differs belongs to another model.
    let shared = metadata.iter().filter(|(key, _)| !key.starts_with(PREFIX) && *key != ALIGNMENT_KEY);
    for (key, value) in shared {
        let wanted = first.parsed.metadata.get(key);
        if !wanted.is_some_and(|wanted| encode::same(wanted, value)) {
            let wanted =
                wanted.map_or_else(|| "does not have it".to_owned(), |wanted| format!("has {wanted}"));
            return Err(Fault::PartMetadata { key: key.to_owned(), found: value.to_string(), wanted });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_told_from_others() {
        let of = |name| name_of(Path::new(name), EXTENSION).map(|(stem, of)| (stem, of.part, of.count));
        assert_eq!(of("a/b/model-00002-of-00003.gguf"), Some(("model", 2, 3)));
        assert_eq!(of("x-of-y-00001-of-00001.gguf"), Some(("x-of-y", 1, 1)));
        for other in [
            "model.gguf",
            "model-00000-of-00003.gguf",
            "model-00004-of-00003.gguf",
            "model-2-of-3.gguf",
            "model-000002-of-00003.gguf",
            "model-0000+-of-00003.gguf",
            "00002-of-00003.gguf",
            "model-00002-of-00003.safetensors",
            "-of-.gguf",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
