//! What a file that is not GGUF seems to be: the person who named it wants to know.

use crate::text::quote;

/// Continues the sentence "it ...".
pub(crate) fn looks_like(file: &[u8]) -> String {
    let text = file.trim_ascii_start();
    let tag = text.get(..9).unwrap_or(text).to_ascii_lowercase();
    let known = if tag.starts_with(b"<!doctype") || tag.starts_with(b"<html") {
        "looks like a web page: the download got an error or log-in page, fetch the file again"
    } else if file.starts_with(b"version https://git-lfs") {
        "is a Git LFS pointer: run `git lfs pull` to fetch the model itself"
    } else if is_safetensors(file) {
        "looks like a safetensors file: convert it with convert_hf_to_gguf.py from llama.cpp"
    } else if text.starts_with(b"{") {
        "looks like JSON, perhaps the error answer to a download"
    } else if file.starts_with(b"PK\x03\x04") {
        "looks like a zip archive, perhaps a PyTorch checkpoint: convert it to GGUF"
    } else if file.starts_with(b"\x80\x02") {
        "looks like a Python pickle, perhaps a PyTorch checkpoint: convert it to GGUF"
    } else if file.starts_with(b"\x1f\x8b") || file.starts_with(b"\x28\xb5\x2f\xfd") {
        "looks like a compressed file: unpack it"
    } else if file.starts_with(b"FUGG") {
        "starts with the magic number of GGUF backwards: its byte order was swapped"
    } else if [b"lmgg", b"fmgg", b"tjgg", b"algg"].iter().any(|magic| file.starts_with(*magic)) {
        "is in one of the formats of 2023 that GGUF replaced: convert the model again"
    } else if file.iter().take(4096).all(|&byte| byte == 0) {
        "starts with zeros only: the download was probably cut off"
    } else {
        return format!("starts with {} instead of \"GGUF\"", quote(&file[..file.len().min(8)]));
    };
    known.to_owned()
}

/// A length of 64 bits, then that many bytes of JSON.
fn is_safetensors(file: &[u8]) -> bool {
    match (file.first_chunk::<8>(), file.get(8)) {
        (Some(&len), Some(b'{')) => u64::from_le_bytes(len) <= file.len() as u64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes_are_recognised() {
        let safetensors = [&14u64.to_le_bytes()[..], b"{\"x\":{}}      "].concat();
        let cases: [(&[u8], &str); 14] = [
            (b"<!DOCTYPE html><html>", "web page"),
            (b"\n  <html><head>", "web page"),
            (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
            (&safetensors, "safetensors"),
            (b"{\"error\":\"not found\"}", "JSON"),
            (b"PK\x03\x04\x14\0", "zip"),
            (b"\x80\x02}q\0", "pickle"),
            (b"\x1f\x8b\x08\0", "compressed"),
            (b"\x28\xb5\x2f\xfd\x04", "compressed"),
            (b"FUGG\0\0\0\x03", "backwards"),
            (b"tjgg\x03\0\0\0", "2023"),
            (&[0; 5000], "zeros"),
            (b"hello world", "\"hello wo\""),
            (b"\x7fELF\x02\x01\x01\x00rest", r#""\u{7f}ELF\u{2}\u{1}\u{1}\0""#),
        ];
        for (file, part) in cases {
            let said = looks_like(file);
            assert!(said.contains(part), "{said:?} lacks {part:?}");
        }
    }
}
