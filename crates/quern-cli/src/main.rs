//! The `quern` command.
fn main() {}
