//! A tensor as a file holds it.

use quern_gguf::TensorType;
use std::sync::Arc;

/// The bytes of a tensor, wherever they live: a mapped file, or memory.
pub trait HostBytes: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];
    /// Says that they will not be read again soon, so that mapped pages may go.
    fn release(&self);
}

/// A matrix of a model file: n_rows rows of n_cols values.
#[derive(Clone)]
pub struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// Its number format.
    pub ty: TensorType,
    /// Rows.
    pub n_rows: usize,
    /// Values in a row.
    pub n_cols: usize,
    /// Its bytes.
    pub data: Arc<dyn HostBytes>,
}
