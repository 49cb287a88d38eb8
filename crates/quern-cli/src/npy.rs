//! A float matrix as numpy reads it, written row by row: the logits of a long text do not fit in memory.
//!
//! NumPy's format version 1.0: magic, header length, a header padded to 64 bytes, then `<f4` values in C order.

use crate::whole_file::WholeFile;
use std::path::Path;

/// A matrix on its way to a file.
pub(crate) struct NpyWriter {
    file: WholeFile,
}

impl NpyWriter {
    /// Starts a file of `rows` by `cols`.
    pub(crate) fn create(path: &Path, rows: usize, cols: usize) -> anyhow::Result<NpyWriter> {
        let mut file = WholeFile::create(path)?;
        file.write(&header(rows, cols))?;
        Ok(NpyWriter { file })
    }

    /// Appends one row.
    pub(crate) fn row(&mut self, values: &[f32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.write(&bytes)
    }

    /// Puts the finished file in its place.
    pub(crate) fn publish(self) -> anyhow::Result<()> {
        self.file.publish()
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
