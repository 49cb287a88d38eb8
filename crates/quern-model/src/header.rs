//! What a family reads: the metadata under its own prefix, and the shapes of the tensors.

use crate::ModelError;
use quern_backend::RopePairs;
use quern_gguf::{Gguf, GgufError, Metadata, TensorInfo, Value};

use crate::hugging_face::{HUGGING_FACE, LAYOUT};
use crate::spec::{LayerSpec, ModelSpec, RopeScaling, RopeSpec, SpecLimits};

/// The sizes of a model whose layers are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Layers that a token goes through.
    pub n_layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Length of a head.
    pub head_dim: usize,
    /// Inner width of the feed-forward.
    pub width: usize,
}

/// A file as a family sees it.
pub struct Header<'a> {
    file: &'a Gguf,
    arch: String,
}

impl<'a> Header<'a> {
    /// The header of a file.
    pub fn new(file: &'a Gguf) -> Result<Self, ModelError> {
        let arch = file.metadata().str("general.architecture")?.to_string();
        Ok(Header { file, arch })
    }

    /// `general.architecture`
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// All metadata.
    pub fn metadata(&self) -> &'a Metadata {
        self.file.metadata()
    }

    /// Whether weights lie as Hugging Face folders have them, not as GGUF files do.
    pub fn is_hugging_face(&self) -> bool {
        self.metadata().get(LAYOUT).is_some_and(|layout| *layout == Value::Str(HUGGING_FACE.into()))
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    /// A refusal.
    pub fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, ModelError> {
        Err(ModelError::Spec { arch: self.arch.clone(), reason: reason.into() })
    }

    /// A count that must be there.
    pub fn count(&self, name: &str) -> Result<usize, ModelError> {
        Ok(self.metadata().u32(&self.key(name))? as usize)
    }

    /// A count that may be missing.
    pub fn opt_count(&self, name: &str) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata().opt_u32(&self.key(name))?.map(|n| n as usize))
    }

    /// Layers that a token goes through: `block_count` without the layers behind them that predict further tokens.
    pub fn n_layers(&self) -> Result<usize, ModelError> {
        let all = self.count("block_count")?;
        let most = SpecLimits::DEFAULT.layers;
        if all > most {
            return self.refuse(format!("block_count is {all}, more than {most}"));
        }
        match self.opt_count("nextn_predict_layers")?.unwrap_or(0) {
            ahead if ahead < all => Ok(all - ahead),
            ahead => self.refuse(format!("nextn_predict_layers is {ahead} of {all} layers")),
        }
    }

    /// The sizes of a model whose layers are all alike.
    pub fn sizes(&self) -> Result<Sizes, ModelError> {
        let hidden = self.count("embedding_length")?;
        let n_heads = self.count("attention.head_count")?;
        Ok(Sizes {
            n_layers: self.n_layers()?,
            hidden,
            n_heads,
            n_kv_heads: self.opt_count("attention.head_count_kv")?.unwrap_or(n_heads),
            head_dim: self.head_dim(hidden, n_heads)?,
            width: self.count("feed_forward_length")?,
        })
    }

    /// A model of these parts with nothing out of the ordinary: what the file says of it, an embedding and logits that are
    /// not scaled, a head that is the embedding where the file has none.
    pub fn model(
        &self,
        hidden: usize,
        ropes: Vec<RopeSpec>,
        layers: Vec<LayerSpec>,
    ) -> Result<ModelSpec, ModelError> {
        Ok(ModelSpec {
            arch: self.arch().into(),
            n_vocab: self.n_vocab()?,
            hidden,
            context_length: self.count("context_length")?,
            norm_eps: self.f32("attention.layer_norm_rms_epsilon")?,
            embedding_scale: 1.0,
            tied_head: self.tensor("output.weight").is_none(),
            final_softcap: None,
            ropes,
            layers,
        })
    }

    /// A count of layer `layer`: one for all, or an array of one for each.
    pub fn layer_count(
        &self,
        name: &str,
        layer: usize,
        n_layers: usize,
    ) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata().opt_u32_at(&self.key(name), layer, n_layers)?.map(|n| n as usize))
    }

    /// Which layers slide, where the file says: a flag for each layer, or a period whose last layer does not (R47).
    pub fn sliding_layers(&self, n_layers: usize, default_period: usize) -> Result<Vec<bool>, ModelError> {
        const NAME: &str = "attention.sliding_window_pattern";
        if let Some(flags) = self.layer_flags(NAME, n_layers)? {
            return Ok(flags);
        }
        let key = self.key(NAME);
        match self.metadata().opt_u32(&key)?.map_or(default_period, |n| n as usize) {
            0 => self.refuse(format!("{key} is 0")),
            period => Ok((1..=n_layers).map(|l| !l.is_multiple_of(period)).collect()),
        }
    }

    /// Which layers are recurrent: a flag for each layer, or all but every `full_attention_interval`-th.
    pub fn recurrent_layers(
        &self,
        n_layers: usize,
        default_interval: usize,
    ) -> Result<Vec<bool>, ModelError> {
        if let Some(flags) = self.layer_flags("attention.recurrent_layers", n_layers)? {
            return Ok(flags);
        }
        match self.opt_count("full_attention_interval")?.unwrap_or(default_interval) {
            0 => self.refuse(format!("{} is 0", self.key("full_attention_interval"))),
            interval => Ok((1..=n_layers).map(|l| !l.is_multiple_of(interval)).collect()),
        }
    }

    /// A flag for each layer, where the file has an array of them.
    fn layer_flags(&self, name: &str, n_layers: usize) -> Result<Option<Vec<bool>>, ModelError> {
        let key = self.key(name);
        let Some(Value::Array(_)) = self.metadata().get(&key) else { return Ok(None) };
        let flags = self.metadata().bools(&key)?;
        match flags.len() == n_layers {
            true => Ok(Some(flags.into_owned())),
            false => self.refuse(format!("{key} has {} flags for {n_layers} layers", flags.len())),
        }
    }

    /// A number that may be missing.
    pub fn opt_f32(&self, name: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.metadata().opt_f32(&self.key(name))?)
    }

    /// A number that must be there.
    pub fn f32(&self, name: &str) -> Result<f32, ModelError> {
        Ok(self.metadata().f32(&self.key(name))?)
    }

    /// A word that may be missing.
    pub fn opt_str(&self, name: &str) -> Result<Option<&'a str>, GgufError> {
        self.file.metadata().opt_str(&self.key(name))
    }

    /// A tensor that may be missing.
    pub fn tensor(&self, name: &str) -> Option<&'a TensorInfo> {
        self.file.tensor(name)
    }

    /// Rows of the embedding: the vocabulary.
    pub fn n_vocab(&self) -> Result<usize, ModelError> {
        let Some(embedding) = self.tensor("token_embd.weight") else {
            if self.file.tensors().is_empty() {
                return self.refuse("the file holds a vocabulary only, no weights: it can tokenize, not run");
            }
            return Err(ModelError::MissingTensor("token_embd.weight".into()));
        };
        let n_vocab = embedding.n_rows() as usize;
        // A tokenizer larger than the embedding would index past the logits (R43).
        let tokens = self.metadata().opt_strings("tokenizer.ggml.tokens")?.map_or(0, |t| t.len());
        if tokens > n_vocab {
            return self.refuse(format!("the tokenizer has {tokens} tokens, the embedding {n_vocab} rows"));
        }
        Ok(n_vocab)
    }

    /// Settings that change the answer and that no family built so far honours: refused where they are set.
    pub fn refuse_unbuilt(&self) -> Result<(), ModelError> {
        for name in ["expert_count", "expert_used_count"] {
            if self.opt_count(name)?.is_some_and(|n| n > 0) {
                return self.refuse(format!("{} is set: such models cannot be run yet", self.key(name)));
            }
        }
        for name in ["logit_scale", "residual_scale", "embedding_scale", "attention.scale"] {
            if self.opt_f32(name)?.is_some_and(|x| x != 0.0 && x != 1.0) {
                return self.refuse(format!("{} is set: such models cannot be run yet", self.key(name)));
            }
        }
        Ok(())
    }

    /// The length of a head: `attention.key_length`, else the residual width over the heads.
    pub fn head_dim(&self, hidden: usize, n_heads: usize) -> Result<usize, ModelError> {
        let head_dim = self.opt_count("attention.key_length")?.unwrap_or(hidden / n_heads.max(1));
        if let Some(value) = self.opt_count("attention.value_length")?
            && value != head_dim
        {
            return self.refuse(format!("values of {value} and keys of {head_dim} differ in length"));
        }
        Ok(head_dim)
    }

    /// The file's rotary embedding: `rope.*` and `rope_freqs.weight`.
    pub fn rope(&self, head_dim: usize, pairs: RopePairs) -> Result<RopeSpec, ModelError> {
        let dims = self.opt_count("rope.dimension_count")?.unwrap_or(head_dim);
        let base = self.opt_f32("rope.freq_base")?.unwrap_or(10_000.0).into();
        let factors = match self.tensor("rope_freqs.weight") {
            None => Vec::new(),
            Some(tensor) => crate::load::vector(self.file, tensor)?,
        };
        Ok(RopeSpec { dims, base, pairs, scaling: self.rope_scaling()?, factors })
    }

    fn rope_scaling(&self) -> Result<RopeScaling, ModelError> {
        let factor = self.opt_f32("rope.scaling.factor")?.or(self.opt_f32("rope.scale_linear")?);
        let kind =
            self.opt_str("rope.scaling.type")?.unwrap_or(if factor.is_some() { "linear" } else { "none" });
        let factor = || match factor {
            Some(factor) => Ok(f64::from(factor)),
            None => self.refuse(format!("rope scaling \"{kind}\" comes without rope.scaling.factor")),
        };
        match kind {
            "none" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: factor()? }),
            "yarn" => {
                let original = self.opt_count("rope.scaling.original_context_length")?;
                let Some(original) = original.or(self.opt_count("context_length")?) else {
                    return self.refuse("yarn comes without rope.scaling.original_context_length");
                };
                let mut yarn = RopeScaling::yarn(factor()?, original as f64);
                if let RopeScaling::Yarn { beta_fast, beta_slow, attention_factor, .. } = &mut yarn {
                    let number = |name: &str| self.opt_f32(&format!("rope.scaling.{name}"));
                    *beta_fast = number("yarn_beta_fast")?.map_or(*beta_fast, f64::from);
                    *beta_slow = number("yarn_beta_slow")?.map_or(*beta_slow, f64::from);
                    *attention_factor *= number("attn_factor")?.map_or(1.0, f64::from);
                }
                Ok(yarn)
            }
            other => self.refuse(format!("rope scaling \"{}\" is not known", other.escape_default())),
        }
    }
}
