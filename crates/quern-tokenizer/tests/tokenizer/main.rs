//! Tokenizers of published models, through the public API.

mod golden;
mod hostile;
mod json;
mod linear;
mod round_trip;
mod safety;
mod suites;
mod support;
