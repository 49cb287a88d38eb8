//! A float matrix as numpy reads it, written row by row: the logits of a long text do not fit in memory.
//!
//! NumPy's format version 1.0: magic, header length, a header padded to 64 bytes, then `<f4` values in C order. The
//! file is written under another name and renamed when it is whole, so no half file is ever found under its own.

use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A matrix on its way to a file.
pub(crate) struct NpyWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    published: bool,
}

impl NpyWriter {
    /// Starts a file of `rows` by `cols`.
    pub(crate) fn create(path: &Path, rows: usize, cols: usize) -> anyhow::Result<NpyWriter> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = PathBuf::from(name);
        let file = File::create(&temporary).with_context(|| format!("cannot write {}", path.display()))?;
        let mut writer =
            NpyWriter { path: path.into(), temporary, file: BufWriter::new(file), published: false };
        writer.write(&header(rows, cols))?;
        Ok(writer)
    }

    /// Appends one row.
    pub(crate) fn row(&mut self, values: &[f32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(&bytes)
    }

    /// Puts the finished file in its place.
    pub(crate) fn publish(mut self) -> anyhow::Result<()> {
        let done = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        let done = done.and_then(|()| std::fs::rename(&self.temporary, &self.path));
        done.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.published = true;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for NpyWriter {
    fn drop(&mut self) {
        if !self.published {
            // It is being thrown away; that it may stay behind is no second error.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

fn header(rows: usize, cols: usize) -> Vec<u8> {
    const PREFIX: usize = 10;
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let padded = (PREFIX + text.len() + 1).next_multiple_of(64);
    text.extend(std::iter::repeat_n(' ', padded - PREFIX - text.len() - 1));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that numpy.save of numpy 2.4.6 writes for np.zeros((3, 5), np.float32).
    #[test]
    fn the_header_is_numpys() {
        let mut expected =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }".to_vec();
        expected.resize(127, b' ');
        expected.push(b'\n');
        assert_eq!(header(3, 5), expected);
    }
}
