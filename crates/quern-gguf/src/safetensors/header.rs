//! One file: eight bytes of length, that many bytes of JSON, and the tensors' bytes without a gap.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::SafeTensor;
use super::dtype::Dtype;
use super::error::SafetensorsFault;
use crate::directory;
use crate::error::{Fault, TensorFault};
use crate::limits::Limits;
use crate::map::Bytes;
use crate::shared::SharedBytes;
use crate::sniff::looks_like;

/// Bytes that say how long the header is.
const LENGTH_BYTES: usize = 8;
/// The longest header that the format allows.
const HEADER_BYTES: u64 = 100_000_000;
/// Dimensions of a tensor: more than any model has.
const DIMS: usize = 8;
/// The key of a header that names no tensor.
const METADATA: &str = "__metadata__";

/// What a file's header says, checked against the file. That names are unique is checked over all files together.
pub(crate) struct File {
    pub(crate) metadata: Vec<(String, String)>,
    /// In the header's order.
    pub(crate) tensors: Vec<SafeTensor>,
}

pub(crate) fn read(bytes: &Arc<Bytes>, limits: &Limits) -> Result<File, Fault> {
    let json = header(bytes, limits)?;
    let data_start = LENGTH_BYTES + json.len();
    let Header { metadata, entries } = parse(json, limits)?;
    directory::check_count(entries.len() as u64, limits)?;
    let mut tensors = Vec::with_capacity(entries.len());
    for (i, (name, entry)) in entries.into_iter().enumerate() {
        directory::check_name(&name, i as u64, limits)?;
        match entry.place(bytes, data_start) {
            Ok((dtype, bytes)) => tensors.push(SafeTensor { name, shape: entry.shape, dtype, bytes }),
            Err(fault) => return Err(Fault::Tensor { name, fault }),
        }
    }
    check_filled(&tensors, data_start, bytes.len())?;
    Ok(File { metadata: metadata.0, tensors })
}

/// The header's JSON.
fn header<'a>(bytes: &'a Bytes, limits: &Limits) -> Result<&'a [u8], Fault> {
    let file_len = bytes.len() as u64;
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(SafetensorsFault::TooShort { file_len }.into());
    };
    if rest.first() != Some(&b'{') {
        let looks_like = match bytes.starts_with(b"GGUF") {
            true => "is a GGUF file".to_owned(),
            false => looks_like(bytes),
        };
        return Err(SafetensorsFault::NotSafetensors { looks_like }.into());
    }
    let declared = u64::from_le_bytes(*length);
    let limit = limits.header_bytes.min(HEADER_BYTES);
    if declared > limit {
        return Err(SafetensorsFault::HeaderTooLong { declared, limit }.into());
    }
    if declared > rest.len() as u64 {
        return Err(SafetensorsFault::HeaderPastEnd { declared, file_len }.into());
    }
    Ok(&rest[..declared as usize])
}

fn parse(json: &[u8], limits: &Limits) -> Result<Header, Fault> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let header = parser.deserialize_map(HeaderVisitor { tensors: limits.tensors });
    let header = header.and_then(|header| parser.end().map(|()| header));
    header.map_err(|error| SafetensorsFault::json("the header", &error).into())
}

/// A tensor as the header describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    /// From the end of the header.
    data_offsets: (u64, u64),
}

impl Entry {
    fn place(&self, bytes: &Arc<Bytes>, data_start: usize) -> Result<(Dtype, SharedBytes), TensorFault> {
        if self.shape.len() > DIMS {
            return Err(TensorFault::Rank { n: self.shape.len(), limit: DIMS });
        }
        let dtype = Dtype::from_name(&self.dtype)
            .ok_or_else(|| TensorFault::UnknownDtype { name: self.dtype.clone() })?;
        let needed = dtype
            .size(&self.shape)
            .ok_or_else(|| TensorFault::NoSize { shape: self.shape.clone(), dtype })?;
        let (start, end) = self.data_offsets;
        let found = end.checked_sub(start).ok_or(TensorFault::Backwards { start, end })?;
        if found != needed {
            return Err(TensorFault::WrongSize { needed, found });
        }
        let (file_len, at) = (bytes.len() as u64, data_start as u64);
        if end > file_len - at {
            return Err(TensorFault::PastEnd { end: end.saturating_add(at), file_len });
        }
        Ok((dtype, SharedBytes::range(bytes, data_start + start as usize..data_start + end as usize)))
    }
}

/// Checks that the tensors, by their places, follow each other from the end of the header to the end of the file.
fn check_filled(tensors: &[SafeTensor], data_start: usize, file_len: usize) -> Result<(), Fault> {
    let place = |tensor: &SafeTensor| (tensor.bytes.start, tensor.bytes.start + tensor.bytes.len());
    let mut by_place: Vec<&SafeTensor> = tensors.iter().collect();
    by_place.sort_by_key(|tensor| place(tensor));
    let mut due = data_start;
    let mut previous: Option<&SafeTensor> = None;
    for tensor in by_place {
        let (start, end) = place(tensor);
        if start != due {
            let (start, due) = (start as u64, due as u64);
            let other = previous.map_or_else(String::new, |previous| previous.name.clone());
            let fault = match start < due {
                true => TensorFault::Overlap { start, other, other_end: due },
                false => TensorFault::Hole { start, due },
            };
            return Err(Fault::Tensor { name: tensor.name.clone(), fault });
        }
        due = end;
        previous = Some(tensor);
    }
    match due == file_len {
        true => Ok(()),
        false => Err(SafetensorsFault::LeftOver { n: (file_len - due) as u64 }.into()),
    }
}

struct Header {
    metadata: Pairs<String>,
    entries: Vec<(String, Entry)>,
}

struct HeaderVisitor {
    /// How many may be declared.
    tensors: u64,
}

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let (mut metadata, mut entries) = (None, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            if key != METADATA {
                // Before any check of the whole: what is kept must be bounded while it grows.
                if entries.len() as u64 >= self.tensors {
                    return Err(de::Error::custom(format!("more than {} tensors", self.tensors)));
                }
                entries.push((key, map.next_value()?));
            } else if metadata.is_none() {
                metadata = Some(map.next_value()?);
            } else {
                return Err(de::Error::duplicate_field(METADATA));
            }
        }
        Ok(Header { metadata: metadata.unwrap_or(Pairs(Vec::new())), entries })
    }
}

/// A JSON object in its own order, repeats included.
pub(crate) struct Pairs<V>(pub(crate) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<V>(std::marker::PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor(std::marker::PhantomData))
    }
}
