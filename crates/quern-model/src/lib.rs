//! Model families as data, weight binding, caches, and the one forward pass over a Backend.
