//! The operating system as Quern needs it: affinity, memory advice, float modes, signals, paths.
//!
//! One file per topic, each with a safe API over the few system calls it makes. Linux is the first home; macOS and
//! Windows get what they offer through plain calls, and a documented fallback (`None`, or no effect) for the rest,
//! never an invented number.
//!
//! Deliberately absent: file mapping (the GGUF reader owns its maps), NUMA placement, priorities, and anything that
//! computes. Every file that needs `unsafe` says so in its head and nowhere else.

mod advice;
mod cgroup;
mod cpus;
mod error;
mod facts;
mod float;
mod memory;
mod paths;
mod signals;

pub use advice::{advise_sequential, advise_willneed, release_pages};
pub use cpus::{affinity, available_cpus, available_threads, pin_current_thread};
pub use error::PlatformError;
pub use facts::{MemoryFacts, current_rss, memory_facts, peak_rss};
pub use float::FloatMode;
pub use memory::{AlignedBytes, Plain};
pub use paths::{cache_dir, config_dir, data_dir};
pub use signals::{InterruptGuard, catch_interrupts, reset_sigpipe};
