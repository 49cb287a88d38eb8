//! Model families as data, weight binding, caches, and the one forward pass over a `Backend`.
//!
//! A family is a function from a file's metadata to a [`ModelSpec`]; everything after that is the same for every
//! family: [`Model::load`] binds the weights that the spec asks for, [`Model::forward`] runs a batch. Nothing here knows
//! of requests, text or sampling.

mod delta_net;
mod error;
mod families;
mod forward;
mod header;
mod hugging_face;
mod load;
mod rope;
mod rope_overrides;
mod spec;
mod state;

pub use error::ModelError;
pub use families::{FAMILIES, Family};
pub use forward::Workspace;
pub use header::{Header, Sizes};
pub use hugging_face::{HuggingFace, is_hugging_face, open_hugging_face};
pub use load::Model;
pub use rope_overrides::{RopeOverrides, RopeReach};
pub use spec::{
    AttentionSpec, DeltaNetSpec, DenseSpec, FeedForward, LayerSpec, Mixer, ModelSpec, NormPlacement,
    RopeScaling, RopeSpec, SpecLimits,
};
pub use state::{RecurrentState, SequenceState, State, States};
