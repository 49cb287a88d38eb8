//! The file's bytes: mapped, or owned. The only place in this crate with `unsafe` code.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::error::{Fault, GgufError};

/// The bytes of a whole file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped { path: PathBuf, map: Mmap },
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file for reading.
    pub(crate) fn map(path: &Path) -> Result<Bytes, GgufError> {
        let io = |action| move |error| GgufError::Io { path: path.to_path_buf(), action, error };
        let refused = |fault: Fault| fault.in_file(path);
        // Asked of the path and not of the open file: opening a named pipe would wait for its writer.
        let info = fs::metadata(path).map_err(io("open"))?;
        if info.is_dir() {
            return Err(refused(Fault::Directory));
        }
        if !info.is_file() {
            return Err(refused(Fault::NotRegular));
        }
        let file = File::open(path).map_err(io("open"))?;
        if file.metadata().map_err(io("open"))?.len() == 0 {
            return Err(refused(Fault::Empty));
        }
        let map = map_file(&file).map_err(io("map"))?;
        Ok(Bytes::Mapped { path: path.to_path_buf(), map })
    }
}

#[allow(unsafe_code)]
fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is read-only and every access goes through the slice it derefs to, so what is left to
    // uphold is that nobody changes the file while it is mapped, which no program can enforce. If someone does:
    // bytes overwritten in place show up as other weights (the header was copied when it was checked, so no
    // bound can move), and a file cut short ends the process with SIGBUS at the first touch past its new end.
    // Neither reads memory outside the map. Replacing a model by rename, as downloaders do, leaves the map on
    // the old file and is harmless.
    unsafe { Mmap::map(file) }
}

impl Bytes {
    /// The file; `None` for memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Bytes::Mapped { path, .. } => Some(path),
            Bytes::Owned(_) => None,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped { map, .. } => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}
