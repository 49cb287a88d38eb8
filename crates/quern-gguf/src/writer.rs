//! Writes one GGUF file of version 3, little-endian.
//!
//! The header is made in memory and read back by the reader's own code before the first byte goes out, so that
//! there is one place where a file's rules are kept, and whatever is written opens again.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::directory;
use crate::encode;
use crate::error::{Fault, GgufError, TensorFault};
use crate::limits::Limits;
use crate::metadata::Metadata;
use crate::parse::{self, ALIGNMENT_KEY};
use crate::split;
use crate::tensor::TensorType;
use crate::value::Value;

/// The version that is written.
const VERSION: u32 = 3;

/// The path in errors of [`GgufWriter::write`].
const OUTPUT: &str = "(output)";

/// A GGUF file to be written: metadata and tensors, in the order in which they are added.
///
/// Nothing is checked before [`write`](Self::write) or [`write_file`](Self::write_file), which refuse whatever
/// [`Gguf::open`](crate::Gguf::open) would refuse, under [`Limits::DEFAULT`]. Tensors start at multiples of
/// `general.alignment`, or of 32 bytes without that key, and the last one is padded too, as ggml writes them.
///
/// ```
/// # fn main() -> Result<(), quern_gguf::GgufError> {
/// use quern_gguf::{Gguf, GgufWriter, TensorType, Value};
///
/// let architecture = Value::Str("llama".to_owned());
/// let mut writer = GgufWriter::new();
/// writer.entry("general.architecture", &architecture);
/// writer.tensor("output_norm.weight", &[2], TensorType::F32, &[0; 8]);
/// let mut file = Vec::new();
/// writer.write(&mut file)?;
/// assert_eq!(Gguf::from_bytes(file)?.metadata().str("general.architecture")?, "llama");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct GgufWriter<'a> {
    entries: Vec<(&'a str, &'a Value)>,
    tensors: Vec<NewTensor<'a>>,
}

#[derive(Debug)]
struct NewTensor<'a> {
    name: &'a str,
    dims: Vec<u64>,
    ty: TensorType,
    source: Source<'a>,
}

enum Source<'a> {
    Bytes(&'a [u8]),
    Reader(Box<dyn Read + 'a>),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Source::Reader(_) => f.write_str("a reader"),
        }
    }
}

impl<'a> GgufWriter<'a> {
    /// A file without metadata and tensors.
    pub fn new() -> GgufWriter<'a> {
        GgufWriter::default()
    }

    /// Adds a metadata key.
    pub fn entry(&mut self, key: &'a str, value: &'a Value) -> &mut Self {
        self.entries.push((key, value));
        self
    }

    /// Adds metadata keys, such as those of another file: `writer.entries(file.metadata().iter())`.
    pub fn entries(&mut self, entries: impl IntoIterator<Item = (&'a str, &'a Value)>) -> &mut Self {
        self.entries.extend(entries);
        self
    }

    /// Adds a tensor from its bytes. `dims` are in GGUF order: the row length first.
    pub fn tensor(&mut self, name: &'a str, dims: &[u64], ty: TensorType, bytes: &'a [u8]) -> &mut Self {
        self.push(name, dims, ty, Source::Bytes(bytes))
    }

    /// Adds a tensor whose bytes are read when its turn to be written comes. The reader must give exactly the
    /// bytes that the shape takes, and then end.
    pub fn tensor_from(
        &mut self,
        name: &'a str,
        dims: &[u64],
        ty: TensorType,
        bytes: impl Read + 'a,
    ) -> &mut Self {
        self.push(name, dims, ty, Source::Reader(Box::new(bytes)))
    }

    fn push(&mut self, name: &'a str, dims: &[u64], ty: TensorType, source: Source<'a>) -> &mut Self {
        self.tensors.push(NewTensor { name, dims: dims.to_vec(), ty, source });
        self
    }

    /// Writes the file and returns its length in bytes.
    ///
    /// Nothing is written if the header is refused. A tensor's reader that fails, or gives another number of
    /// bytes than the shape takes, leaves `out` with a part of the file.
    pub fn write(self, out: impl Write) -> Result<u64, GgufError> {
        let path = Path::new(OUTPUT);
        let plan = self.plan(path)?;
        self.stream(path, &plan, out)
    }

    /// Writes the file under a temporary name beside `path`, and gives it its name when it is whole and on the
    /// disk. A file that was there before is replaced; one that is mapped keeps its old content. Returns the
    /// length in bytes.
    pub fn write_file(self, path: impl AsRef<Path>) -> Result<u64, GgufError> {
        let path = path.as_ref();
        let plan = self.plan(path)?;
        split::check_name(path, &plan.metadata).map_err(|fault| fault.in_file(path))?;
        let io = |action| move |error| GgufError::Io { path: path.to_path_buf(), action, error };
        let (temporary, file) = Temporary::create(path).map_err(io("create"))?;
        let len = self.stream(path, &plan, &file)?;
        file.sync_all().map_err(io("write"))?;
        drop(file);
        temporary.rename_to(path).map_err(io("replace"))?;
        Ok(len)
    }

    fn plan(&self, path: &Path) -> Result<Plan, GgufError> {
        Plan::new(self, path).map_err(|fault| fault.in_file(path))
    }

    fn stream(self, path: &Path, plan: &Plan, out: impl Write) -> Result<u64, GgufError> {
        let mut out = Counted { out: BufWriter::new(out), at: 0 };
        let write = |error| GgufError::Io { path: path.to_path_buf(), action: "write", error };
        out.write_all(&plan.header).map_err(write)?;
        for (tensor, &n_bytes) in self.tensors.into_iter().zip(&plan.sizes) {
            out.pad(plan.alignment).map_err(write)?;
            let refuse = |fault| {
                let fault = Fault::Tensor { name: tensor.name.to_owned(), fault };
                fault.in_file(path)
            };
            match tensor.source {
                Source::Bytes(bytes) => out.write_all(bytes).map_err(write)?,
                Source::Reader(mut reader) => copy(&mut *reader, &mut out, n_bytes, write, refuse)?,
            }
            out.pad(plan.alignment).map_err(write)?;
        }
        out.flush().map_err(write)?;
        debug_assert_eq!(out.at, plan.file_len);
        Ok(out.at)
    }
}

/// What is known before the first byte is written.
struct Plan {
    header: Vec<u8>,
    /// Bytes of each tensor.
    sizes: Vec<u64>,
    alignment: u64,
    /// As it will be read.
    metadata: Metadata,
    file_len: u64,
}

impl Plan {
    fn new(file: &GgufWriter<'_>, path: &Path) -> Result<Plan, Fault> {
        let limits = &Limits::DEFAULT;
        let alignment = alignment(&file.entries, path, limits)?;
        let mut header = parse::MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((file.tensors.len() as u64).to_le_bytes());
        header.extend((file.entries.len() as u64).to_le_bytes());
        file.entries.iter().for_each(|(key, value)| encode::entry(&mut header, key, value));

        let mut sizes = Vec::with_capacity(file.tensors.len());
        let mut offset = 0u64;
        for tensor in &file.tensors {
            let refuse = |fault| Fault::Tensor { name: tensor.name.to_owned(), fault };
            let n_bytes = tensor.n_bytes().map_err(refuse)?;
            encode::string(&mut header, tensor.name.as_bytes());
            header.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| header.extend(dim.to_le_bytes()));
            header.extend(tensor.ty.id().to_le_bytes());
            header.extend(offset.to_le_bytes());
            sizes.push(n_bytes);
            offset = offset
                .checked_add(n_bytes)
                .and_then(|end| end.checked_next_multiple_of(alignment))
                .ok_or_else(|| refuse(TensorFault::TooLarge { dims: tensor.dims.clone() }))?;
        }
        let file_len = match sizes.is_empty() {
            true => header.len() as u64,
            false => (header.len() as u64).next_multiple_of(alignment).saturating_add(offset),
        };
        let parsed = parse::parse(&header, file_len, path, limits)?;
        split::refuse_part(&parsed.metadata)?;
        Ok(Plan { header, sizes, alignment, metadata: parsed.metadata, file_len })
    }
}

impl NewTensor<'_> {
    /// Bytes that it takes, which are as many as were given.
    fn n_bytes(&self) -> Result<u64, TensorFault> {
        let found = match self.source {
            Source::Bytes(bytes) => Some(bytes.len() as u64),
            Source::Reader(_) => None,
        };
        directory::size_of(&self.dims, self.ty, found)
    }
}

/// The alignment that the metadata asks for, by the reader's rules.
fn alignment(entries: &[(&str, &Value)], path: &Path, limits: &Limits) -> Result<u64, Fault> {
    let entry = entries.iter().find(|(key, _)| *key == ALIGNMENT_KEY);
    let entry = entry.map(|&(key, value)| (key.to_owned(), value.clone()));
    parse::alignment(&Metadata::new(entry.into_iter().collect(), path)?, limits)
}

/// Copies a tensor from its source, which must give `needed` bytes and end.
fn copy<W: Write>(
    source: &mut dyn Read,
    out: &mut Counted<W>,
    needed: u64,
    write: impl Fn(io::Error) -> GgufError,
    refuse: impl Fn(TensorFault) -> GgufError,
) -> Result<(), GgufError> {
    let read = |buffer: &mut [u8], source: &mut dyn Read| loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refuse(TensorFault::Source(error))),
            Ok(n) => return Ok(n),
        }
    };
    let mut buffer = vec![0; 64 << 10];
    let mut found = 0;
    while found < needed {
        let want = (needed - found).min(buffer.len() as u64) as usize;
        match read(&mut buffer[..want], source)? {
            0 => return Err(refuse(TensorFault::WrongSize { needed, found })),
            n => {
                out.write_all(&buffer[..n]).map_err(&write)?;
                found += n as u64;
            }
        }
    }
    match read(&mut buffer[..1], source)? {
        0 => Ok(()),
        _ => Err(refuse(TensorFault::TooMuch { needed })),
    }
}

/// A destination and how far it has been written.
struct Counted<W: Write> {
    out: BufWriter<W>,
    at: u64,
}

impl<W: Write> Counted<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Zeros up to the next multiple of `alignment`.
    fn pad(&mut self, alignment: u64) -> io::Result<()> {
        let padding = self.at.next_multiple_of(alignment) - self.at;
        self.at += padding;
        io::copy(&mut io::repeat(0).take(padding), &mut self.out).map(|_| ())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A file under construction, removed unless it gets its name.
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn create(target: &Path) -> io::Result<(Temporary, File)> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let Some(name) = target.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
        };
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}-{n}.tmp", std::process::id()));
        let path = target.with_file_name(temporary);
        let file = File::create_new(&path)?;
        Ok((Temporary(Some(path)), file))
    }

    fn rename_to(mut self, target: &Path) -> io::Result<()> {
        if let Some(path) = &self.0 {
            fs::rename(path, target)?;
        }
        self.0 = None;
        sync_folder(target);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that led here is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}

/// Asks for the new name itself to be on the disk. Not all file systems can, and the file is whole either way.
fn sync_folder(file: &Path) {
    if cfg!(unix) {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    }
}
