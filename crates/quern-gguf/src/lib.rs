//! Reads GGUF files: memory-mapped, every metadata type, a bounded tensor directory.
