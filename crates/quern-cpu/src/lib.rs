//! The CPU backend: the Backend trait over quern-kernels.
