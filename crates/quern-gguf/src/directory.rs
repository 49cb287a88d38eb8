//! The tensor directory: read, then checked as a whole against the file.

use crate::error::{Fault, TensorFault};
use crate::limits::Limits;
use crate::reader::{Reader, What};
use crate::tensor::{TensorInfo, TensorType};
use crate::text::{NameIndex, quote};

/// What is known of the file before the directory is read.
pub(crate) struct Layout {
    pub(crate) n_tensors: u64,
    pub(crate) alignment: u64,
    pub(crate) file_len: u64,
    pub(crate) name_len: u64,
}

/// All tensors of a file, with unique names, inside the file, and apart from each other.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) tensors: Vec<TensorInfo>,
    names: NameIndex,
}

impl Directory {
    pub(crate) fn read(reader: &mut Reader<'_>, layout: &Layout) -> Result<Directory, Fault> {
        /// A name's length and one byte, the count of dimensions and one of them, a type, an offset.
        const MIN_ENTRY: u64 = 8 + 1 + 4 + 8 + 4 + 8;
        let capacity = layout.n_tensors.min(reader.left() / MIN_ENTRY);
        let mut tensors = Vec::with_capacity(capacity as usize);
        for i in 0..layout.n_tensors {
            tensors.push(read_entry(reader, i, layout)?);
        }

        let data_start = reader.at().checked_next_multiple_of(layout.alignment).unwrap_or(u64::MAX);
        for tensor in &mut tensors {
            place(tensor, data_start, layout).map_err(|fault| refusal(tensor, fault))?;
        }
        check_apart(&tensors, data_start, layout.alignment)?;
        Ok(Directory::new(tensors)?)
    }

    /// Tensors that lie where they should, by name.
    pub(crate) fn new(tensors: Vec<TensorInfo>) -> Result<Directory, Duplicate> {
        match NameIndex::new(tensors.len(), |i| &tensors[i].name) {
            Ok(names) => Ok(Directory { tensors, names }),
            Err(second) => Err(Duplicate { tensors, second }),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.names.find(name, |i| &self.tensors[i].name).map(|i| &self.tensors[i])
    }
}

/// Two tensors of one name.
pub(crate) struct Duplicate {
    tensors: Vec<TensorInfo>,
    second: usize,
}

impl Duplicate {
    pub(crate) fn name(&self) -> &str {
        &self.tensors[self.second].name
    }

    /// The parts that hold the two, in order.
    pub(crate) fn parts(&self) -> (usize, usize) {
        let second = self.tensors[self.second].part;
        let first = self.tensors.iter().find(|tensor| tensor.name == self.name()).map_or(second, |t| t.part);
        (first as usize, second as usize)
    }
}

impl From<Duplicate> for Fault {
    fn from(duplicate: Duplicate) -> Fault {
        Fault::DuplicateTensor { name: duplicate.name().to_owned() }
    }
}

fn refusal(tensor: &TensorInfo, fault: TensorFault) -> Fault {
    Fault::Tensor { name: tensor.name.clone(), fault }
}

/// Reads one entry; its `offset` stays relative to the data section, whose start is not known yet.
fn read_entry(reader: &mut Reader<'_>, i: u64, layout: &Layout) -> Result<TensorInfo, Fault> {
    let name = reader.name(layout.name_len, What::TensorName(i))?;
    let what = What::Tensor(name);
    let refuse = |fault| Fault::Tensor { name: name.to_owned(), fault };

    let n = reader.number::<u32>(what)?;
    check_dim_count(n).map_err(refuse)?;
    let dims = reader.numbers::<u64>(n.into(), what)?;
    let id = reader.number(what)?;
    let ty = TensorType::from_id(id).ok_or_else(|| refuse(TensorFault::UnknownType { id }))?;
    let offset = reader.number(what)?;
    let n_bytes = size(&dims, ty).map_err(refuse)?;
    Ok(TensorInfo { name: name.to_owned(), dims, ty, offset, n_bytes, part: 0 })
}

fn check_dim_count(n: u32) -> Result<(), TensorFault> {
    if n == 0 || n > Limits::DIMS { Err(TensorFault::DimCount { n }) } else { Ok(()) }
}

/// Checks the number of tensors in a container.
pub(crate) fn check_count(found: u64, limits: &Limits) -> Result<(), Fault> {
    let limit = limits.tensors;
    if found > limit { Err(Fault::TooMany { what: "tensors", found, limit }) } else { Ok(()) }
}

/// Checks the name of tensor number `i`, where it was not read as one.
pub(crate) fn check_name(name: &str, i: u64, limits: &Limits) -> Result<(), Fault> {
    let what = || What::TensorName(i).to_string();
    let (found, limit) = (name.len() as u64, limits.name_len);
    if name.is_empty() {
        return Err(Fault::EmptyName { what: what() });
    }
    if found > limit { Err(Fault::TooLong { what: what(), found, limit }) } else { Ok(()) }
}

/// Bytes that a tensor of that shape takes, for a shape that was not read from a directory. If it is known how many
/// bytes there are, they must be as many.
pub(crate) fn size_of(dims: &[u64], ty: TensorType, found: Option<u64>) -> Result<u64, TensorFault> {
    check_dim_count(u32::try_from(dims.len()).unwrap_or(u32::MAX))?;
    let needed = size(dims, ty)?;
    match found {
        Some(found) if found != needed => Err(TensorFault::WrongSize { needed, found }),
        _ => Ok(needed),
    }
}

/// Bytes that a tensor of that shape takes.
fn size(dims: &[u64], ty: TensorType) -> Result<u64, TensorFault> {
    if dims.contains(&0) {
        return Err(TensorFault::ZeroDim { dims: dims.to_vec() });
    }
    let row_len = dims[0];
    if !row_len.is_multiple_of(ty.block_len()) {
        return Err(TensorFault::PartialBlock { row_len, ty });
    }
    // The product is checked in values as well as in bytes: types of less than a byte a value have more of the
    // former, and `n_elements` multiplies unchecked.
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim))
        .and_then(|n_elements| (n_elements / ty.block_len()).checked_mul(ty.bytes_per_block()))
        .ok_or_else(|| TensorFault::TooLarge { dims: dims.to_vec() })
}

/// Turns the offset into one from the start of the file, if that is inside it.
fn place(tensor: &mut TensorInfo, data_start: u64, layout: &Layout) -> Result<(), TensorFault> {
    let (offset, alignment, file_len) = (tensor.offset, layout.alignment, layout.file_len);
    if !offset.is_multiple_of(alignment) {
        return Err(TensorFault::Misaligned { offset, alignment });
    }
    let start = data_start.saturating_add(offset);
    let end = start.saturating_add(tensor.n_bytes);
    if end > file_len {
        return Err(TensorFault::PastEnd { end, file_len });
    }
    tensor.offset = start;
    Ok(())
}

/// Checks that the tensors, in whatever order the directory lists them, follow each other with nothing but
/// padding between them. A larger gap means that a tensor's real size is not what its type says (R12): forks
/// have given one type id to blocks of different sizes.
fn check_apart(tensors: &[TensorInfo], data_start: u64, alignment: u64) -> Result<(), Fault> {
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    let mut previous: Option<&TensorInfo> = None;
    for tensor in by_offset {
        let start = tensor.offset;
        let end = previous.map_or(data_start, |p| p.offset + p.n_bytes);
        if start < end {
            let other = previous.map_or_else(String::new, |p| p.name.clone());
            return Err(refusal(tensor, TensorFault::Overlap { start, other, other_end: end }));
        }
        if start - end >= alignment {
            let (after, ty) = match previous {
                Some(p) => (format!("tensor {}", quote(&p.name)), p.ty),
                None => ("the header".to_owned(), tensor.ty),
            };
            return Err(refusal(tensor, TensorFault::Gap { start, end, after, ty }));
        }
        previous = Some(tensor);
    }
    Ok(())
}
