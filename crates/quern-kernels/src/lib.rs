//! Number formats, dot products, attention, norms, RoPE, the thread pool and the ISA layer.
