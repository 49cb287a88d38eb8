//! Binding: the weights that a spec asks for, by name, each checked against the shape it must have.

use crate::rope::RopeAngles;
use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, ModelSpec, NormPlacement};
use crate::{ModelError, SequenceState};
use quern_backend::{Backend, HostBytes, KvType, Tensor, WeightUse};
use quern_gguf::{Gguf, TensorInfo};
use std::collections::HashSet;
use std::sync::Arc;

/// A model, ready to run on a backend.
pub struct Model<B: Backend> {
    pub(crate) backend: Arc<B>,
    pub(crate) spec: ModelSpec,
    pub(crate) embedding: B::Weight,
    /// None: the embedding.
    pub(crate) head: Option<B::Weight>,
    pub(crate) output_norm: B::Buf,
    pub(crate) ropes: Vec<RopeAngles>,
    pub(crate) layers: Vec<Layer<B>>,
}

/// The weights of a layer.
pub(crate) struct Layer<B: Backend> {
    pub(crate) attention: Attention<B>,
    pub(crate) feed_forward: Dense<B>,
    pub(crate) attention_norm: B::Buf,
    pub(crate) post_attention_norm: Option<B::Buf>,
    pub(crate) feed_forward_norm: B::Buf,
    pub(crate) post_feed_forward_norm: Option<B::Buf>,
}

pub(crate) struct Attention<B: Backend> {
    pub(crate) q: Linear<B>,
    pub(crate) k: Linear<B>,
    pub(crate) v: Linear<B>,
    pub(crate) output: Linear<B>,
    pub(crate) q_norm: Option<B::Buf>,
    pub(crate) k_norm: Option<B::Buf>,
}

pub(crate) struct Dense<B: Backend> {
    pub(crate) gate: Linear<B>,
    pub(crate) up: Linear<B>,
    pub(crate) down: Linear<B>,
}

/// `x W^T + bias`
pub(crate) struct Linear<B: Backend> {
    pub(crate) weight: B::Weight,
    pub(crate) bias: Option<B::Buf>,
}

/// The embedding.
const EMBEDDING: &str = "token_embd.weight";
/// The head, where it is not the embedding.
const HEAD: &str = "output.weight";
/// The last norm.
const OUTPUT_NORM: &str = "output_norm.weight";
/// Frequency factors of the rotary embedding, which the family has read.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// A tensor of a mapped file.
struct MappedTensor {
    file: Arc<Gguf>,
    info: TensorInfo,
}

impl HostBytes for MappedTensor {
    fn bytes(&self) -> &[u8] {
        self.file.data(&self.info)
    }
    fn release(&self) {
        // Advice: where it cannot be taken (a file held in memory), nothing is lost but memory.
        let _ = quern_platform::release_pages(self.bytes());
    }
}

/// A small float tensor as host values.
pub(crate) fn vector(file: &Gguf, tensor: &TensorInfo) -> Result<Vec<f32>, ModelError> {
    let n = tensor.n_elements() as usize;
    let Some(format) = quern_kernels::formats::format(tensor.ty).filter(|f| f.unit_k == 1) else {
        return Err(ModelError::TensorShape {
            name: tensor.name.clone(),
            found: tensor.ty.name().into(),
            expected: "F32, F16 or BF16".into(),
        });
    };
    let mut values = vec![0.0; n];
    format.decode_row(file.data(tensor), &mut values);
    Ok(values)
}

/// Finds tensors, checks shapes, and remembers what was used.
struct Binder<'a, B: Backend> {
    backend: &'a B,
    file: &'a Arc<Gguf>,
    used: HashSet<String>,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

impl<B: Backend> Binder<'_, B> {
    fn find(&mut self, name: &str) -> Result<TensorInfo, ModelError> {
        let info = self.file.tensor(name).ok_or_else(|| ModelError::MissingTensor(name.into()))?;
        if self.used.insert(name.into()) {
            self.done += info.n_bytes;
            (self.progress)(self.done, self.total);
        }
        Ok(info.clone())
    }

    fn matrix(
        &mut self,
        name: &str,
        n_rows: usize,
        n_cols: usize,
        uses: WeightUse,
    ) -> Result<B::Weight, ModelError> {
        let info = self.find(name)?;
        if info.dims.len() != 2 || info.row_len() != n_cols as u64 || info.n_rows() != n_rows as u64 {
            return Err(shape_error(&info, &[n_cols, n_rows]));
        }
        let (name, ty) = (info.name.clone(), info.ty);
        let data = Arc::new(MappedTensor { file: self.file.clone(), info });
        let tensor = Tensor { name, ty, n_rows, n_cols, data };
        Ok(self.backend.weight(&tensor, uses)?)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<B::Buf, ModelError> {
        let info = self.find(name)?;
        if info.n_elements() != len as u64 {
            return Err(shape_error(&info, &[len]));
        }
        let values = vector(self.file, &info)?;
        let mut buf = self.backend.alloc(len);
        self.backend.write(&mut buf, &values);
        Ok(buf)
    }

    /// `NAME.weight`, and `NAME.bias` where the spec has one.
    fn linear(
        &mut self,
        name: &str,
        n_rows: usize,
        n_cols: usize,
        bias: bool,
    ) -> Result<Linear<B>, ModelError> {
        let weight = self.matrix(&format!("{name}.weight"), n_rows, n_cols, WeightUse::Linear)?;
        let bias = bias.then(|| self.vector(&format!("{name}.bias"), n_rows)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn layer(&mut self, l: usize, spec: &LayerSpec, hidden: usize) -> Result<Layer<B>, ModelError> {
        let name = |part: &str| format!("blk.{l}.{part}");
        let Mixer::Attention(a) = &spec.mixer;
        let FeedForward::Dense(dense) = &spec.feed_forward;
        let sandwich = spec.norms == NormPlacement::Sandwich;
        let mut after = |part: &str| sandwich.then(|| self.vector(&name(part), hidden)).transpose();
        let post_attention_norm = after("post_attention_norm.weight")?;
        let post_feed_forward_norm = after("post_ffw_norm.weight")?;
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"), hidden)?,
            post_attention_norm,
            feed_forward_norm: self.vector(&name("ffn_norm.weight"), hidden)?,
            post_feed_forward_norm,
            attention: self.attention(&name, a, hidden)?,
            feed_forward: self.dense(&name, dense, hidden)?,
        })
    }

    fn attention(
        &mut self,
        name: &dyn Fn(&str) -> String,
        a: &AttentionSpec,
        hidden: usize,
    ) -> Result<Attention<B>, ModelError> {
        let (q, kv) = (a.n_heads * a.head_dim, a.n_kv_heads * a.head_dim);
        let mut norm = |part: &str| a.qk_norm.then(|| self.vector(&name(part), a.head_dim)).transpose();
        let (q_norm, k_norm) = (norm("attn_q_norm.weight")?, norm("attn_k_norm.weight")?);
        Ok(Attention {
            q: self.linear(&name("attn_q"), q, hidden, a.qkv_bias)?,
            k: self.linear(&name("attn_k"), kv, hidden, a.qkv_bias)?,
            v: self.linear(&name("attn_v"), kv, hidden, a.qkv_bias)?,
            output: self.linear(&name("attn_output"), hidden, q, a.output_bias)?,
            q_norm,
            k_norm,
        })
    }

    fn dense(
        &mut self,
        name: &dyn Fn(&str) -> String,
        dense: &DenseSpec,
        hidden: usize,
    ) -> Result<Dense<B>, ModelError> {
        Ok(Dense {
            gate: self.linear(&name("ffn_gate"), dense.width, hidden, dense.bias)?,
            up: self.linear(&name("ffn_up"), dense.width, hidden, dense.bias)?,
            down: self.linear(&name("ffn_down"), hidden, dense.width, dense.bias)?,
        })
    }

    /// A tensor left over would mean that the file is another model than the one that runs.
    fn refuse_unused(&self, spec: &ModelSpec) -> Result<(), ModelError> {
        let unused: Vec<_> =
            self.file.tensors().iter().map(|t| t.name.as_str()).filter(|n| !self.used.contains(*n)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let first: Vec<_> = unused.iter().take(3).map(|n| n.escape_default().to_string()).collect();
        Err(ModelError::UnusedTensors {
            arch: spec.arch.clone(),
            count: unused.len(),
            names: first.join(", "),
        })
    }
}

fn shape_error(info: &TensorInfo, expected: &[usize]) -> ModelError {
    ModelError::TensorShape {
        name: info.name.clone(),
        found: format!("{:?}", info.dims),
        expected: format!("{expected:?}"),
    }
}

impl<B: Backend> Model<B> {
    /// Binds the weights of a file. `progress` hears bytes done and bytes in all.
    pub fn load(
        backend: Arc<B>,
        file: &Arc<Gguf>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model<B>, ModelError> {
        let spec = ModelSpec::from_gguf(file)?;
        let mut binder = Binder {
            backend: &*backend,
            file,
            used: HashSet::new(),
            progress,
            done: 0,
            total: file.tensors().iter().map(|t| t.n_bytes).sum(),
        };
        binder.used.insert(ROPE_FACTORS.into());
        let uses = if spec.tied_head { WeightUse::Tied } else { WeightUse::Embedding };
        let embedding = binder.matrix(EMBEDDING, spec.n_vocab, spec.hidden, uses)?;
        let head = match spec.tied_head {
            true => None,
            false => Some(binder.matrix(HEAD, spec.n_vocab, spec.hidden, WeightUse::Linear)?),
        };
        let output_norm = binder.vector(OUTPUT_NORM, spec.hidden)?;
        let layers = spec.layers.iter().enumerate().map(|(l, layer)| binder.layer(l, layer, spec.hidden));
        let layers = layers.collect::<Result<_, _>>()?;
        binder.refuse_unused(&spec)?;
        let ropes = spec.ropes.iter().map(RopeAngles::new).collect();
        Ok(Model { backend, spec, embedding, head, output_norm, ropes, layers })
    }

    /// What it is made of.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// What it runs on.
    pub fn backend(&self) -> &Arc<B> {
        &self.backend
    }

    /// An empty sequence of at most `context` positions.
    pub fn sequence(&self, kv: KvType, context: usize) -> SequenceState<B> {
        SequenceState::new(&self.spec, kv, context)
    }

    /// Bytes of weights on the device, beside the mapped file.
    pub fn weight_bytes(&self) -> usize {
        let bytes = |w: &B::Weight| self.backend.weight_bytes(w);
        let of_layer = |l: &Layer<B>| {
            let (a, f) = (&l.attention, &l.feed_forward);
            [&a.q, &a.k, &a.v, &a.output, &f.gate, &f.up, &f.down]
                .into_iter()
                .map(|l| bytes(&l.weight))
                .sum::<usize>()
        };
        bytes(&self.embedding)
            + self.head.as_ref().map_or(0, bytes)
            + self.layers.iter().map(of_layer).sum::<usize>()
    }
}
