//! How a long step reports itself.

/// Receives the progress of a download or a check. `()` is the silent one.
pub trait Progress {
    /// A step begins; its size in bytes, if known, is an estimate.
    fn start(&mut self, what: &str, total: Option<u64>);
    /// So many more bytes are done.
    fn advance(&mut self, bytes: u64);
    /// The step that began last is over.
    fn finish(&mut self);
    /// Something the user should know and need not act on.
    fn note(&mut self, line: &str);
}

impl Progress for () {
    fn start(&mut self, _what: &str, _total: Option<u64>) {}
    fn advance(&mut self, _bytes: u64) {}
    fn finish(&mut self) {}
    fn note(&mut self, _line: &str) {}
}
