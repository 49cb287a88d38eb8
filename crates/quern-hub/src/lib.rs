//! Model references, verified downloads and the local cache.
