//! Run open-weight language models on your own machine: the library's front door.
//!
//! [`Quern`] is a loaded model: it continues text, chats, and scores. [`ModelFile`] is a model's file without its weights
//! in memory: enough to tokenize and to look inside. Both take a path, a short name such as `demo`, or a repository (`hf:owner/name`).
//!
//! ```no_run
//! use quern::{LoadOptions, Message, Quern, RequestOptions};
//!
//! let model = Quern::load("demo", LoadOptions::default(), &mut ())?;
//! let answer = model.chat(&[Message::user("What is the capital of France?")], &RequestOptions::default())?.output()?;
//! println!("{}", answer.text);
//! # Ok::<(), quern::Error>(())
//! ```
//!
//! The steps from a reference to a running engine are here and nowhere else; the `quern` command is built on this crate.
//! Deliberately absent: anything that computes, and HTTP.

mod capabilities;
mod error;
mod file;
mod load;
mod request;
mod sampling;
mod score;

pub use capabilities::{Capabilities, FormatCaps, IsaCaps};
pub use error::Error;
pub use file::ModelFile;
pub use load::{Facts, LoadOptions, Quern};
pub use request::RequestOptions;
pub use sampling::{SamplingChoice, SamplingDefaults};
pub use score::Scores;

pub use quern_backend::{Activation, Contract, DeltaShape, KvType};
pub use quern_chat::{ChatError, ChatTemplate, Fallback, Message, RenderOptions, TemplateOrigin};
pub use quern_cpu::ActivationMode;
pub use quern_engine::sampling::{
    Mirostat, Overrides, Resolved, STAGES, SamplingError, SamplingParams, Setting, Source, log_sum_exp,
};
pub use quern_engine::{
    EngineError, Event, Finish, FinishReason, Generation, Output, Prompt, StoppedBy, Timings, Token, Usage,
};
pub use quern_gguf::{Gguf, Metadata, TensorInfo, TensorType};
pub use quern_hub::{CachedModel, Hub, HubError, Origin, Progress, ShortName, short_names};
pub use quern_kernels::isa::Level;
pub use quern_model::{
    AttentionSpec, DeltaNetSpec, FeedForward, LayerSpec, Mixer, ModelError, ModelSpec, NormPlacement,
    RopeOverrides, RopeReach, RopeScaling, RopeSpec,
};
pub use quern_tokenizer::{EncodeOptions, OwnedSegment, Segment, SharedTokenizer, StreamDecoder, Tokenizer};
