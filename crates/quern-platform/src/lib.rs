//! The operating system as Quern needs it: affinity, memory advice, float modes, paths.
