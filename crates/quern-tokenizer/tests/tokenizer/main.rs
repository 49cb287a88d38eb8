//! Tokenizers of published models, through the public API.

mod suites;
mod support;
