//! Binding: the weights that a spec asks for, by name, each checked against the shape it must have.

use crate::delta_net::DeltaNet;
use crate::rope::RopeAngles;
use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, ModelSpec, NormPlacement};
use crate::{Header, ModelError, SequenceState};
use quern_backend::{Backend, HostBytes, KvType, Tensor, WeightUse};
use quern_gguf::{Gguf, TensorInfo, TensorType};
use std::collections::HashSet;
use std::sync::Arc;

/// A model, ready to run on a backend.
pub struct Model<B: Backend> {
    pub(crate) backend: Arc<B>,
    pub(crate) spec: ModelSpec,
    pub(crate) embedding: B::Weight,
    /// None: the embedding.
    pub(crate) head: Option<Linear<B>>,
    pub(crate) output_norm: B::Buf,
    pub(crate) ropes: Vec<RopeAngles>,
    pub(crate) layers: Vec<Layer<B>>,
}

/// The weights of a layer.
pub(crate) struct Layer<B: Backend> {
    pub(crate) mixer: MixerWeights<B>,
    pub(crate) feed_forward: Dense<B>,
    pub(crate) attention_norm: B::Buf,
    pub(crate) post_attention_norm: Option<B::Buf>,
    pub(crate) feed_forward_norm: B::Buf,
    pub(crate) post_feed_forward_norm: Option<B::Buf>,
}

/// The weights of what mixes positions.
pub(crate) enum MixerWeights<B: Backend> {
    Attention(Attention<B>),
    DeltaNet(DeltaNet<B>),
}

pub(crate) struct Attention<B: Backend> {
    pub(crate) q: Linear<B>,
    /// The gate of what is attended.
    pub(crate) gate: Option<Linear<B>>,
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

/// `x W^T * scale + bias`
pub(crate) struct Linear<B: Backend> {
    pub(crate) weight: B::Weight,
    /// Of the whole tensor, where the file has one: NVFP4 brings the second of its scales so.
    pub(crate) scale: Option<f32>,
    pub(crate) bias: Option<B::Buf>,
}

/// The embedding.
const EMBEDDING: &str = "token_embd.weight";
/// The head, where it is not the embedding.
const HEAD: &str = "output";
/// The last norm.
const OUTPUT_NORM: &str = "output_norm.weight";
/// Frequency factors of the rotary embedding, which the family has read.
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// A tensor of an open container.
struct FileTensor {
    file: Arc<Gguf>,
    info: TensorInfo,
}

impl HostBytes for FileTensor {
    fn bytes(&self) -> &[u8] {
        self.file.data(&self.info)
    }
    fn release(&self) {
        // Memory that is not a mapped file's has no other copy to come back from.
        if self.file.is_mapped(&self.info) {
            // Advice: where it cannot be taken, nothing is lost but memory.
            let _ = quern_platform::release_pages(self.bytes());
        }
    }
}

/// Rows picked from a tensor.
struct OwnedTensor(Vec<u8>);

impl HostBytes for OwnedTensor {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn release(&self) {}
}

/// A small float tensor as host values.
pub(crate) fn vector(file: &Gguf, tensor: &TensorInfo) -> Result<Vec<f32>, ModelError> {
    float_values(&tensor.name, tensor.ty, file.data(tensor))
}

/// The values of a float tensor.
pub(crate) fn float_values(name: &str, ty: TensorType, bytes: &[u8]) -> Result<Vec<f32>, ModelError> {
    let Some(format) = quern_kernels::formats::format(ty).filter(|f| f.unit_k == 1) else {
        return Err(ModelError::TensorShape {
            name: name.into(),
            found: ty.name().into(),
            expected: "F32, F16 or BF16".into(),
        });
    };
    let mut values = vec![0.0; bytes.len() / ty.bytes_per_block() as usize];
    format.decode_row(bytes, &mut values);
    Ok(values)
}

/// Finds tensors, checks shapes, and remembers what was used.
pub(crate) struct Binder<'a, B: Backend> {
    backend: &'a B,
    file: &'a Arc<Gguf>,
    used: HashSet<String>,
    /// Layers behind the last that predict further tokens.
    n_ahead: usize,
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

    fn find_matrix(&mut self, name: &str, n_rows: usize, n_cols: usize) -> Result<TensorInfo, ModelError> {
        let info = self.find(name)?;
        if info.dims.len() != 2 || info.row_len() != n_cols as u64 || info.n_rows() != n_rows as u64 {
            return Err(shape_error(&info, &[n_cols, n_rows]));
        }
        Ok(info)
    }

    fn matrix(
        &mut self,
        name: &str,
        n_rows: usize,
        n_cols: usize,
        uses: WeightUse,
    ) -> Result<B::Weight, ModelError> {
        let info = self.find_matrix(name, n_rows, n_cols)?;
        let (name, ty) = (info.name.clone(), info.ty);
        let data = Arc::new(FileTensor { file: self.file.clone(), info });
        let tensor = Tensor { name, ty, n_rows, n_cols, data };
        Ok(self.backend.weight(&tensor, uses)?)
    }

    /// A matrix whose rows hold two in turn, `part` rows of the first and `part` of the second: both, apart.
    fn interleaved(
        &mut self,
        name: &str,
        part: usize,
        n_rows: usize,
        n_cols: usize,
    ) -> Result<[Linear<B>; 2], ModelError> {
        let info = self.find_matrix(&format!("{name}.weight"), 2 * n_rows, n_cols)?;
        let scale = self.scale(name)?;
        let bytes = self.file.data(&info);
        let part_bytes = bytes.len() / (2 * n_rows) * part;
        let weight = |half: usize| {
            let rows = bytes.chunks_exact(part_bytes).skip(half).step_by(2).flatten().copied();
            let data = Arc::new(OwnedTensor(rows.collect()));
            let tensor = Tensor { name: info.name.clone(), ty: info.ty, n_rows, n_cols, data };
            let weight = self.backend.weight(&tensor, WeightUse::Linear)?;
            Ok::<_, ModelError>(Linear { weight, scale, bias: None })
        };
        Ok([weight(0)?, weight(1)?])
    }

    fn buffer(&self, values: &[f32]) -> B::Buf {
        let mut buf = self.backend.alloc(values.len());
        self.backend.write(&mut buf, values);
        buf
    }

    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<B::Buf, ModelError> {
        let info = self.find(name)?;
        if info.n_elements() != len as u64 {
            return Err(shape_error(&info, &[len]));
        }
        Ok(self.buffer(&vector(self.file, &info)?))
    }

    /// A small float matrix, column by column.
    pub(crate) fn transposed(
        &mut self,
        name: &str,
        n_rows: usize,
        n_cols: usize,
    ) -> Result<B::Buf, ModelError> {
        let info = self.find_matrix(name, n_rows, n_cols)?;
        let values = vector(self.file, &info)?;
        let columns = (0..n_cols).flat_map(|c| values.iter().skip(c).step_by(n_cols).copied());
        Ok(self.buffer(&columns.collect::<Vec<_>>()))
    }

    /// The vector of the first of these names that the file has.
    fn first_vector(&mut self, names: &[String], len: usize) -> Result<B::Buf, ModelError> {
        let name = names.iter().find(|name| self.file.tensor(name).is_some()).unwrap_or(&names[0]);
        self.vector(name, len)
    }

    /// `NAME.scale`, where the file has it. `NAME.input_scale` beside it is for devices that compute with four-bit
    /// activations: it changes no weight.
    fn scale(&mut self, name: &str) -> Result<Option<f32>, ModelError> {
        let mut single = |part: &str| {
            let name = format!("{name}.{part}");
            if self.file.tensor(&name).is_none() {
                return Ok(None);
            }
            let info = self.find(&name)?;
            match vector(self.file, &info)?[..] {
                [scale] if scale.is_finite() => Ok(Some(scale)),
                [scale] => Err(ModelError::TensorShape {
                    name,
                    found: scale.to_string(),
                    expected: "a finite number".into(),
                }),
                _ => Err(shape_error(&info, &[1])),
            }
        };
        single("input_scale")?;
        single("scale")
    }

    /// `NAME.weight` with its scale, and `NAME.bias` where the spec has one.
    pub(crate) fn linear(
        &mut self,
        name: &str,
        n_rows: usize,
        n_cols: usize,
        bias: bool,
    ) -> Result<Linear<B>, ModelError> {
        let weight = self.matrix(&format!("{name}.weight"), n_rows, n_cols, WeightUse::Linear)?;
        let scale = self.scale(name)?;
        let bias = bias.then(|| self.vector(&format!("{name}.bias"), n_rows)).transpose()?;
        Ok(Linear { weight, scale, bias })
    }

    fn layer(&mut self, l: usize, spec: &LayerSpec, hidden: usize) -> Result<Layer<B>, ModelError> {
        let name = |part: &str| format!("blk.{l}.{part}");
        let FeedForward::Dense(dense) = &spec.feed_forward;
        let sandwich = spec.norms == NormPlacement::Sandwich;
        let mut after = |part: &str| sandwich.then(|| self.vector(&name(part), hidden)).transpose();
        let post_attention_norm = after("post_attention_norm.weight")?;
        let post_feed_forward_norm = after("post_ffw_norm.weight")?;
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"), hidden)?,
            post_attention_norm,
            // Qwen 3.5 files give the norm in front of the feed-forward the name that others give the one after the mixer.
            feed_forward_norm: match spec.norms {
                NormPlacement::Pre => {
                    self.first_vector(&["ffn_norm.weight", "post_attention_norm.weight"].map(name), hidden)?
                }
                NormPlacement::Sandwich => self.vector(&name("ffn_norm.weight"), hidden)?,
            },
            post_feed_forward_norm,
            mixer: match &spec.mixer {
                Mixer::Attention(a) => MixerWeights::Attention(self.attention(&name, a, hidden)?),
                Mixer::DeltaNet(d) => MixerWeights::DeltaNet(DeltaNet::bind(self, &name, d, hidden)?),
            },
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
        let (query, gate) = if a.output_gate {
            let [query, gate] = self.interleaved(&name("attn_q"), a.head_dim, q, hidden)?;
            (query, Some(gate))
        } else {
            (self.linear(&name("attn_q"), q, hidden, a.qkv_bias)?, None)
        };
        Ok(Attention {
            q: query,
            gate,
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

    /// A tensor left over would mean that the file is another model than the one that runs. Layers behind the last that
    /// predict further tokens ([`Header::n_layers`](crate::Header::n_layers)) are not run.
    fn refuse_unused(&self, spec: &ModelSpec) -> Result<(), ModelError> {
        let predicts = |name: &str| {
            let layer =
                name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
            layer.is_some_and(|l| (spec.layers.len()..spec.layers.len() + self.n_ahead).contains(&l))
        };
        let names = self.file.tensors().iter().map(|t| t.name.as_str());
        let unused: Vec<_> = names.filter(|n| !self.used.contains(*n) && !predicts(n)).collect();
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
        Model::load_as(backend, file, ModelSpec::from_gguf(file)?, progress)
    }

    /// The same for a file that is to be run as `spec` says, which is the file's own with changes.
    pub fn load_as(
        backend: Arc<B>,
        file: &Arc<Gguf>,
        spec: ModelSpec,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model<B>, ModelError> {
        spec.validate()?;
        let mut binder = Binder {
            backend: &*backend,
            file,
            used: HashSet::new(),
            n_ahead: Header::new(file)?.opt_count("nextn_predict_layers")?.unwrap_or(0),
            progress,
            done: 0,
            total: file.tensors().iter().map(|t| t.n_bytes).sum(),
        };
        binder.used.insert(ROPE_FACTORS.into());
        let uses = if spec.tied_head { WeightUse::Tied } else { WeightUse::Embedding };
        let embedding = binder.matrix(EMBEDDING, spec.n_vocab, spec.hidden, uses)?;
        let head = match spec.tied_head {
            true => None,
            false => Some(binder.linear(HEAD, spec.n_vocab, spec.hidden, false)?),
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

    /// An empty sequence of at most `context` positions, of a cache type that [fits](ModelSpec::check_cache).
    pub fn sequence(&self, kv: KvType, context: usize) -> SequenceState<B> {
        SequenceState::new(&*self.backend, &self.spec, kv, context)
    }

    /// Bytes of weights on the device, beside the mapped file.
    pub fn weight_bytes(&self) -> usize {
        let bytes = |w: &B::Weight| self.backend.weight_bytes(w);
        let of_layer = |l: &Layer<B>| {
            let mixer: Vec<_> = match &l.mixer {
                MixerWeights::Attention(a) => {
                    [&a.q, &a.k, &a.v, &a.output].into_iter().chain(&a.gate).collect()
                }
                MixerWeights::DeltaNet(d) => d.linears().into(),
            };
            let f = &l.feed_forward;
            let linears = mixer.into_iter().chain([&f.gate, &f.up, &f.down]);
            linears.map(|l| bytes(&l.weight)).sum::<usize>()
        };
        bytes(&self.embedding)
            + self.head.as_ref().map_or(0, |head| bytes(&head.weight))
            + self.layers.iter().map(of_layer).sum::<usize>()
    }
}
