//! Pieces of text and where they came from.

/// A piece of a text to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Text of our own making, such as a template's: control tokens in it are found.
    Trusted(&'a str),
    /// Text from outside: no part of it ever becomes a control token.
    Plain(&'a str),
}

impl<'a> Segment<'a> {
    /// The text.
    pub fn text(self) -> &'a str {
        match self {
            Segment::Trusted(text) | Segment::Plain(text) => text,
        }
    }

    /// Whether control tokens in the text count.
    pub fn is_trusted(self) -> bool {
        matches!(self, Segment::Trusted(_))
    }
}

/// A [`Segment`] that owns its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedSegment {
    /// See [`Segment::Trusted`].
    Trusted(String),
    /// See [`Segment::Plain`].
    Plain(String),
}

impl OwnedSegment {
    /// The segment, borrowed.
    pub fn as_ref(&self) -> Segment<'_> {
        match self {
            OwnedSegment::Trusted(text) => Segment::Trusted(text),
            OwnedSegment::Plain(text) => Segment::Plain(text),
        }
    }
}
