//! Builds GGUF files byte by byte, right or wrong, for the tests.

// Each test binary uses a part of it.
#![allow(dead_code)]

/// Value types by their ids in files.
pub(crate) const U32: u32 = 4;
pub(crate) const BOOL: u32 = 7;
pub(crate) const STRING: u32 = 8;
pub(crate) const ARRAY: u32 = 9;

/// Tensor types by their ids in files.
pub(crate) const F32: u32 = 0;
pub(crate) const Q4_0: u32 = 2;

/// A string as files store it: its length, then its bytes.
pub(crate) fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// An array as files store it, from the bytes of its elements.
pub(crate) fn array(element: u32, len: u64, elements: &[u8]) -> Vec<u8> {
    [&element.to_le_bytes()[..], &len.to_le_bytes(), elements].concat()
}

/// A file under construction. Counts are those of what was added, unless set otherwise.
#[derive(Clone)]
pub(crate) struct Builder {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) alignment: usize,
    pub(crate) n_tensors: Option<u64>,
    pub(crate) n_keys: Option<u64>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) data: Vec<u8>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            magic: *b"GGUF",
            version: 3,
            alignment: 32,
            n_tensors: None,
            n_keys: None,
            keys: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Adds a key from its type's id and the bytes of its value.
    pub(crate) fn key(mut self, key: impl AsRef<[u8]>, ty: u32, value: &[u8]) -> Builder {
        self.keys.push([&string(key)[..], &ty.to_le_bytes(), value].concat());
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Builder {
        self.key(key, U32, &value.to_le_bytes())
    }

    /// Adds a directory entry alone.
    pub(crate) fn entry(mut self, name: impl AsRef<[u8]>, dims: &[u64], ty: u32, offset: u64) -> Builder {
        let mut entry = string(name);
        entry.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|dim| entry.extend(dim.to_le_bytes()));
        entry.extend(ty.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.tensors.push(entry);
        self
    }

    /// Adds bytes to the data section, from the next aligned place.
    pub(crate) fn data(mut self, bytes: &[u8]) -> Builder {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        self.data.extend(bytes);
        self
    }

    /// Adds a tensor with its data.
    pub(crate) fn tensor(self, name: impl AsRef<[u8]>, dims: &[u64], ty: u32, bytes: &[u8]) -> Builder {
        let offset = self.data.len().next_multiple_of(self.alignment) as u64;
        self.entry(name, dims, ty, offset).data(bytes)
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut file = self.magic.to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.n_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        file.extend(self.n_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        file.extend(self.keys.concat());
        file.extend(self.tensors.concat());
        if !self.data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
            file.extend(&self.data);
        }
        file
    }
}

/// A file with a bit of everything, about 600 bytes.
pub(crate) fn small_file() -> Vec<u8> {
    let nested = [array(U32, 1, &[1, 0, 0, 0]), array(BOOL, 2, &[0, 1])].concat();
    Builder::new()
        .key("general.architecture", STRING, &string("test"))
        .u32("test.block_count", 2)
        .key("test.bools", ARRAY, &array(BOOL, 2, &[1, 0]))
        .key("test.tokens", ARRAY, &array(STRING, 3, &[string("<s>"), string(b"\xff"), string("")].concat()))
        .key("test.nested", ARRAY, &array(ARRAY, 2, &nested))
        .tensor("token_embd.weight", &[4, 2], F32, &[1; 32])
        .tensor("blk.0.ffn.weight", &[32, 3], Q4_0, &[2; 54])
        .tensor("norm.weight", &[3], F32, &[3; 12])
        .build()
}

/// Reads everything that a file holds, as a program that uses it would.
pub(crate) fn walk(file: &quern_gguf::Gguf) -> u64 {
    let metadata = file.metadata();
    let mut sum = 0;
    for (key, value) in metadata.iter() {
        assert_eq!(metadata.get(key), Some(value));
        sum += value.to_string().len() as u64;
        let _ = (metadata.u32(key), metadata.u64(key), metadata.i32(key), metadata.f32(key));
        let _ = (metadata.str(key), metadata.bool(key));
        let _ = (metadata.u32s(key), metadata.i32s(key), metadata.f32s(key), metadata.bools(key));
        let _ =
            (metadata.opt_u32_at(key, 1, 2), metadata.opt_bool_at(key, 1, 2), metadata.opt_f32_at(key, 0, 1));
        if let Ok(strings) = metadata.strings(key) {
            sum += strings.iter().map(|s| s.len() as u64).sum::<u64>();
        }
    }
    for tensor in file.tensors() {
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
        assert_eq!(tensor.n_elements(), tensor.row_len() * tensor.n_rows());
        let data = file.data(tensor);
        assert_eq!(data.len() as u64, tensor.n_bytes);
        sum += data.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    sum
}

/// A writer of the file as it is.
pub(crate) fn rewriter(file: &quern_gguf::Gguf) -> quern_gguf::GgufWriter<'_> {
    let mut writer = quern_gguf::GgufWriter::new();
    writer.entries(file.metadata().iter());
    for tensor in file.tensors() {
        writer.tensor(&tensor.name, &tensor.dims, tensor.ty, file.data(tensor));
    }
    writer
}
