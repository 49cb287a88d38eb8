//! The Backend trait and the plain data that crosses it: batches, shapes, contracts.
