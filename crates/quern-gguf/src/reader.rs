//! A cursor over the header that never reads past its end and says what it was reading when it had to stop.

use std::fmt;

use crate::error::Fault;
use crate::text::quote;

/// What is being read, for the message if it is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    Header(&'static str),
    Key(u64),
    Value(&'a str),
    TensorName(u64),
    Tensor(&'a str),
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Header(field) => f.write_str(field),
            What::Key(i) => write!(f, "metadata key number {i}"),
            What::Value(key) => write!(f, "the value of metadata key {}", quote(key)),
            What::TensorName(i) => write!(f, "the name of tensor number {i}"),
            What::Tensor(name) => write!(f, "the directory entry of tensor {}", quote(name)),
        }
    }
}

/// A number as the file stores it.
pub(crate) trait Number: Copy {
    /// Reads the first bytes of `bytes`, which must be enough.
    fn from_le(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($t:ty)*) => {
        $(impl Number for $t {
            fn from_le(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$t>()];
                array.copy_from_slice(&bytes[..size_of::<$t>()]);
                <$t>::from_le_bytes(array)
            }
        })*
    };
}

numbers!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

/// Reads forward through a file's header.
pub(crate) struct Reader<'a> {
    /// The file up to the limit on headers.
    bytes: &'a [u8],
    at: usize,
    file_len: u64,
}

impl<'a> Reader<'a> {
    /// Reads `start`, the first bytes of a file of `file_len`, and no further than `header_bytes`.
    pub(crate) fn new(start: &'a [u8], file_len: u64, header_bytes: u64) -> Reader<'a> {
        let readable = (start.len() as u64).min(header_bytes).min(u32::MAX.into()) as usize;
        Reader { bytes: &start[..readable], at: 0, file_len }
    }

    /// Distance from the start of the file.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that can still be read.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// Why there is not enough left to read: the limit, or else what `at_end` says of the end of the file.
    pub(crate) fn too_short(&self, what: What<'_>, at_end: Fault) -> Fault {
        let limit = self.bytes.len() as u64;
        if limit < self.file_len { Fault::HeaderTooLong { what: what.to_string(), limit } } else { at_end }
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: u64, what: What<'_>) -> Result<&'a [u8], Fault> {
        if n > self.left() {
            let (at, file_len) = (self.at(), self.file_len);
            return Err(
                self.too_short(what, Fault::Truncated { what: what.to_string(), at, needed: n, file_len })
            );
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    /// The next number.
    pub(crate) fn number<T: Number>(&mut self, what: What<'_>) -> Result<T, Fault> {
        self.take(size_of::<T>() as u64, what).map(T::from_le)
    }

    /// The next `n` numbers.
    pub(crate) fn numbers<T: Number>(&mut self, n: u64, what: What<'_>) -> Result<Vec<T>, Fault> {
        let bytes = self.take(n.saturating_mul(size_of::<T>() as u64), what)?;
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::from_le).collect())
    }

    /// The next string: its length, then its bytes.
    pub(crate) fn string(&mut self, limit: u64, what: What<'_>) -> Result<&'a [u8], Fault> {
        let len = self.number::<u64>(what)?;
        if len > limit {
            return Err(Fault::TooLong { what: what.to_string(), found: len, limit });
        }
        self.take(len, what)
    }

    /// The next string, which must be text.
    pub(crate) fn text(&mut self, limit: u64, what: What<'_>) -> Result<&'a str, Fault> {
        let bytes = self.string(limit, what)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Fault::NotUtf8 { what: what.to_string(), bytes: bytes.to_vec() })
    }

    /// The next string, which must be text that can name something.
    pub(crate) fn name(&mut self, limit: u64, what: What<'_>) -> Result<&'a str, Fault> {
        match self.text(limit, what)? {
            "" => Err(Fault::EmptyName { what: what.to_string() }),
            name => Ok(name),
        }
    }
}
