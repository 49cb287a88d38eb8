//! Files that are there whole or not at all: written under another name, and renamed when the last byte is on the disk.

use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file on its way to its name.
pub(crate) struct WholeFile {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    published: bool,
}

impl WholeFile {
    /// Starts a file. What lies under its name stays until [`WholeFile::publish`].
    pub(crate) fn create(path: &Path) -> anyhow::Result<WholeFile> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = PathBuf::from(name);
        let file = File::create(&temporary).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(WholeFile { path: path.into(), temporary, file: BufWriter::new(file), published: false })
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Puts the finished file in its place.
    pub(crate) fn publish(mut self) -> anyhow::Result<()> {
        let done = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        let done = done.and_then(|()| std::fs::rename(&self.temporary, &self.path));
        done.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.published {
            // It is being thrown away; that it may stay behind is no second error.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
