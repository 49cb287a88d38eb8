//! Files in the cache: hashing, the marker that spares hashing again, and publishing by rename.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{HubError, Progress};

/// Bytes per read.
const CHUNK: usize = 1 << 20;

/// The file that is meant, whoever brings it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// What it is called while it is fetched.
    pub(crate) name: &'a str,
    /// Its size.
    pub(crate) bytes: u64,
    /// What its contents hash to.
    pub(crate) hash: Hash<'a>,
}

/// How contents are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HashKind {
    /// The sha256 of the contents.
    Sha256,
    /// The name that git gives to a file of these contents: the sha1 of `blob SIZE`, a zero byte and the contents. It
    /// says that a file arrived whole; it is no proof against someone who makes two files of one name.
    GitBlob,
}

impl HashKind {
    fn name(self) -> &'static str {
        match self {
            HashKind::Sha256 => "sha256",
            HashKind::GitBlob => "git blob id",
        }
    }
}

/// A hash of a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash<'a> {
    pub(crate) kind: HashKind,
    /// In lower-case hexadecimal.
    pub(crate) hex: &'a str,
}

impl<'a> Hash<'a> {
    pub(crate) fn sha256(hex: &'a str) -> Hash<'a> {
        Hash { kind: HashKind::Sha256, hex }
    }
}

/// What a file was like when its hash was last computed. While size and time of change are the same, so is the hash.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    hash: String,
    bytes: u64,
    modified_ns: u64,
}

impl Marker {
    fn of(file: &Path, hash: Hash<'_>) -> io::Result<Marker> {
        let metadata = fs::metadata(file)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ns = u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX);
        Ok(Marker { hash: hash.hex.into(), bytes: metadata.len(), modified_ns })
    }
}

pub(crate) fn marker_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".verified");
    path.into()
}

/// What is known about a cached file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Good,
    /// Present, with other bytes than the list says.
    Changed,
}

/// Looks at a cached file, and reads it only if it is not as the marker says.
pub(crate) fn check(
    file: &Path,
    expected: &Expected<'_>,
    progress: &mut dyn Progress,
) -> Result<State, HubError> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Absent),
        Err(error) => return Err(HubError::io("read", file, error)),
        Ok(metadata) if metadata.len() != expected.bytes => return Ok(State::Changed),
        Ok(_) => {}
    }
    let recorded =
        fs::read(marker_path(file)).ok().and_then(|text| serde_json::from_slice::<Marker>(&text).ok());
    let current = Marker::of(file, expected.hash).map_err(|e| HubError::io("read", file, e))?;
    if recorded.is_some_and(|recorded| recorded == current) {
        return Ok(State::Good);
    }
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    progress.start(&format!("checking {name}"), Some(expected.bytes));
    let read = hash_file(file, expected, progress);
    progress.finish();
    if read.map_err(|e| HubError::io("read", file, e))?.mismatch(expected).is_some() {
        return Ok(State::Changed);
    }
    write_marker(file, expected)?;
    Ok(State::Good)
}

/// Puts a finished, verified file in its place. Its bytes reach stable storage before its name does (R121).
pub(crate) fn publish(temporary: &Path, file: &Path, expected: &Expected<'_>) -> Result<(), HubError> {
    // Windows flushes through a writable handle only.
    let written = File::options().write(true).open(temporary);
    written.and_then(|f| f.sync_all()).map_err(|e| HubError::io("flush", temporary, e))?;
    fs::rename(temporary, file).map_err(|e| HubError::io("put in place", file, e))?;
    sync_folder_of(file);
    write_marker(file, expected)
}

/// Makes a rename durable. Not every file system or platform can, and the file itself is safe either way.
fn sync_folder_of(file: &Path) {
    if let Some(folder) = file.parent() {
        let _ = File::open(folder).and_then(|f| f.sync_all());
    }
}

fn write_marker(file: &Path, expected: &Expected<'_>) -> Result<(), HubError> {
    let path = marker_path(file);
    let write = || {
        let marker = Marker::of(file, expected.hash)?;
        // Readers take a marker that does not parse as none, so a torn write costs a hash at worst.
        fs::write(&path, serde_json::to_vec(&marker)?)
    };
    write().map_err(|e| HubError::io("write", &path, e))
}

/// What went through a [`Hasher`].
#[derive(Debug)]
pub(crate) struct Copied {
    bytes: u64,
    hex: String,
}

/// Reads a whole file for the hash that is expected of it.
pub(crate) fn hash_file(
    path: &Path,
    expected: &Expected<'_>,
    progress: &mut dyn Progress,
) -> io::Result<Copied> {
    let mut hasher = Hasher::new(expected);
    hasher.copy(&mut File::open(path)?, &mut io::sink(), u64::MAX, progress)?;
    Ok(hasher.finish())
}

/// A hash over several copies in a row.
pub(crate) struct Hasher {
    state: HashState,
    bytes: u64,
}

enum HashState {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl Hasher {
    /// The hash that tells whether this is the file.
    pub(crate) fn new(expected: &Expected<'_>) -> Hasher {
        let state = match expected.hash.kind {
            HashKind::Sha256 => HashState::Sha256(Sha256::new()),
            HashKind::GitBlob => {
                HashState::GitBlob(Sha1::new_with_prefix(format!("blob {}\0", expected.bytes)))
            }
        };
        Hasher { state, bytes: 0 }
    }

    /// Copies until the end of `from`; refuses more than `limit` bytes in all.
    pub(crate) fn copy(
        &mut self,
        from: &mut dyn Read,
        to: &mut dyn Write,
        limit: u64,
        progress: &mut dyn Progress,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let n = match from.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.bytes += n as u64;
            if self.bytes > limit {
                return Err(io::Error::other(format!("more than the expected {limit} bytes")));
            }
            match &mut self.state {
                HashState::Sha256(state) => state.update(&chunk[..n]),
                HashState::GitBlob(state) => state.update(&chunk[..n]),
            }
            to.write_all(&chunk[..n])?;
            progress.advance(n as u64);
        }
    }

    pub(crate) fn finish(self) -> Copied {
        let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let hex = match self.state {
            HashState::Sha256(state) => hex(&state.finalize()),
            HashState::GitBlob(state) => hex(&state.finalize()),
        };
        Copied { bytes: self.bytes, hex }
    }
}

impl Copied {
    /// Says what is wrong with a file that is not the one the list means.
    pub(crate) fn mismatch(&self, expected: &Expected<'_>) -> Option<String> {
        if self.bytes != expected.bytes {
            return Some(format!("the file has {} bytes instead of {}", self.bytes, expected.bytes));
        }
        let Hash { kind, hex } = expected.hash;
        (self.hex != hex).then(|| format!("the file has {} {} instead of {hex}", kind.name(), self.hex))
    }
}
