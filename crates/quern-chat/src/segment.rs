/// temporary
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedSegment {
    /// t
    Trusted(String),
    /// p
    Plain(String),
}
