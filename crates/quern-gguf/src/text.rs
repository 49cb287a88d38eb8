//! Strings from the file: made safe to print, and indexed by name.

use std::fmt::Write;

/// Characters of a quoted string from a file before it is cut.
const QUOTED_CHARS: usize = 80;

/// The string in quotes, with everything that is not plainly printable escaped, cut to a bounded length. The
/// only way that text from a file gets into a message (R46).
pub(crate) fn quote(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    // No character takes more than four bytes: what is cut off here would not be printed either.
    let head = &bytes[..bytes.len().min(4 * (QUOTED_CHARS + 1))];
    let mut quoted = String::from("\"");
    let mut printed = 0;
    let mut cut = false;
    'chunks: for chunk in head.utf8_chunks() {
        let escaped = chunk.valid().chars().map(|c| c.escape_debug().to_string());
        let invalid = chunk.invalid().iter().map(|b| format!("\\x{b:02x}"));
        for piece in escaped.chain(invalid) {
            if printed == QUOTED_CHARS {
                cut = true;
                break 'chunks;
            }
            quoted.push_str(&piece);
            printed += 1;
        }
    }
    quoted.push('"');
    if cut || head.len() < bytes.len() {
        // Writing to a String cannot fail.
        let _ = write!(quoted, "... ({} bytes)", bytes.len());
    }
    quoted
}

/// Positions of unique names, sorted by name: half the memory of a hash map, and no key is stored twice.
#[derive(Debug, Clone)]
pub(crate) struct NameIndex(Box<[u32]>);

impl NameIndex {
    /// Indexes the names `name(0)` to `name(n - 1)`; `Err` holds the position of one that occurred before.
    pub(crate) fn new<'a>(n: usize, name: impl Fn(usize) -> &'a str) -> Result<NameIndex, usize> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_unstable_by(|&a, &b| name(a as usize).cmp(name(b as usize)).then(a.cmp(&b)));
        match order.windows(2).find(|pair| name(pair[0] as usize) == name(pair[1] as usize)) {
            Some(pair) => Err(pair[1] as usize),
            None => Ok(NameIndex(order.into())),
        }
    }

    /// The position of the name that was indexed.
    pub(crate) fn find<'a>(&self, wanted: &str, name: impl Fn(usize) -> &'a str) -> Option<usize> {
        let found = self.0.binary_search_by(|&i| name(i as usize).cmp(wanted)).ok()?;
        Some(self.0[found] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r46_quoted_text_is_escaped_and_bounded() {
        assert_eq!(quote("blk.0.attn_q.weight"), "\"blk.0.attn_q.weight\"");
        assert_eq!(quote("Größe"), "\"Größe\"");
        assert_eq!(quote("a\0b\n\x1b[31m\"\\"), r#""a\0b\n\u{1b}[31m\"\\""#);
        assert_eq!(quote(b"ab\xff\xc3"), r#""ab\xff\xc3""#);
        // Right-to-left override: it would turn the rest of the line around.
        assert_eq!(quote("\u{202e}x"), r#""\u{202e}x""#);
        let long = quote("\u{1}".repeat(1 << 20));
        assert!(long.ends_with("... (1048576 bytes)") && long.len() < 600, "{long}");
        assert_eq!(quote("x".repeat(QUOTED_CHARS)), format!("\"{}\"", "x".repeat(QUOTED_CHARS)));
    }

    #[test]
    fn the_index_finds_names_and_refuses_repeats() {
        let names = ["b", "", "a", "ab"];
        let index = NameIndex::new(4, |i| names[i]).unwrap();
        for (i, name) in names.iter().enumerate() {
            assert_eq!(index.find(name, |i| names[i]), Some(i));
        }
        assert_eq!(index.find("c", |i| names[i]), None);
        let twice = ["x", "y", "x"];
        assert_eq!(NameIndex::new(3, |i| twice[i]).unwrap_err(), 2);
    }
}
