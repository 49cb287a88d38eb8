//! From a reference to a running engine.

use crate::{Error, ModelFile, SamplingDefaults};
use quern_backend::{Backend, Contract, KvType};
use quern_chat::ChatTemplate;
use quern_cpu::{ActivationMode, CpuBackend, CpuOptions};
use quern_engine::{Engine, EngineOptions};
use quern_hub::Progress;
use quern_kernels::isa::Level;
use quern_model::{Model, ModelError, ModelSpec, RopeOverrides};
use quern_tokenizer::SharedTokenizer;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How a model is loaded and run. None of it but `activations`, `kv` and `rope` changes a bit of any
/// result.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Compute threads; None: the physical cores this process may use.
    pub threads: Option<usize>,
    /// How activations meet quantised weights.
    pub activations: ActivationMode,
    /// The instruction set; None: the best there is, or what `QUERN_ISA` names.
    pub isa: Option<Level>,
    /// How caches hold keys and values.
    pub kv: KvType,
    /// Positions of a sequence; None: what the model was trained for, times the factor of `rope`.
    pub context: Option<usize>,
    /// Changes to the file's rotary embedding.
    pub rope: RopeOverrides,
    /// Tokens of a prefill batch.
    pub prefill_chunk: usize,
    /// Read the file's tokenizer. Without it, only ids can be given.
    pub tokenizer: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        let (cpu, engine) = (CpuOptions::default(), EngineOptions::default());
        LoadOptions {
            threads: cpu.threads,
            activations: cpu.activations,
            isa: cpu.level,
            kv: engine.kv,
            context: engine.context,
            rope: RopeOverrides::default(),
            prefill_chunk: engine.prefill_chunk,
            tokenizer: true,
        }
    }
}

/// What is in force, as the parts that enforce it report it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The model's name.
    pub model: String,
    /// Its file.
    pub path: PathBuf,
    /// What computes.
    pub backend: String,
    /// What its results are worth.
    pub contract: Contract,
    /// The instruction set.
    pub isa: &'static str,
    /// Compute threads.
    pub threads: usize,
    /// How activations meet quantised weights.
    pub activations: ActivationMode,
    /// How caches hold keys and values.
    pub kv: KvType,
    /// Positions of a sequence.
    pub context: usize,
    /// Changes to the file's rotary embedding.
    pub rope: RopeOverrides,
    /// Weights in memory, beside the mapped file.
    pub weight_bytes: usize,
    /// What loading took, a download not included.
    pub load_time: Duration,
}

/// A loaded model.
pub struct Quern {
    pub(crate) file: ModelFile,
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Option<SharedTokenizer>,
    pub(crate) sampling_defaults: SamplingDefaults,
    template: OnceLock<ChatTemplate>,
    facts: Facts,
}

impl Quern {
    /// Loads a model by path, short name or repository, from which it is fetched if need be.
    pub fn load(reference: &str, options: LoadOptions, progress: &mut dyn Progress) -> Result<Quern, Error> {
        Quern::from_file(ModelFile::open(reference, progress)?, options, progress)
    }

    /// Loads the model of an open file.
    pub fn from_file(
        file: ModelFile,
        options: LoadOptions,
        progress: &mut dyn Progress,
    ) -> Result<Quern, Error> {
        let started = Instant::now();
        let tokenizer = if options.tokenizer { file.opt_tokenizer()? } else { None };
        let spec = file.spec()?;
        if let Some(tokenizer) = &tokenizer {
            check_vocabulary(&file, &spec, tokenizer.n_vocab())?;
        }
        let spec = spec.with_rope(&options.rope).map_err(|error| Error::model(file.path(), error))?;
        // The engine checks that as well, when the weights are loaded.
        spec.check_cache(options.kv).map_err(|error| Error::model(file.path(), error))?;
        let cpu =
            CpuOptions { threads: options.threads, activations: options.activations, level: options.isa };
        let backend = Arc::new(CpuBackend::new(&cpu)?);
        let model = load_weights(&file, spec, backend.clone(), progress)?;
        let weight_bytes = model.weight_bytes();
        let settings =
            EngineOptions { context: options.context, kv: options.kv, prefill_chunk: options.prefill_chunk };
        let engine = Engine::new(Arc::new(model), tokenizer.clone(), settings)?;
        let facts = Facts {
            model: file.name().into(),
            path: file.path().into(),
            backend: backend.name(),
            contract: backend.contract(),
            isa: backend.level().name(),
            threads: backend.threads(),
            activations: backend.activations(),
            kv: settings.kv,
            context: engine.context(),
            rope: options.rope,
            weight_bytes,
            load_time: started.elapsed(),
        };
        let sampling_defaults = SamplingDefaults::default();
        Ok(Quern { file, engine, tokenizer, sampling_defaults, template: OnceLock::new(), facts })
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// What the model is made of.
    pub fn spec(&self) -> &ModelSpec {
        self.engine.spec()
    }

    /// What is in force.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The tokenizer, where the file has one and it was asked for.
    pub fn tokenizer(&self) -> Option<&SharedTokenizer> {
        self.tokenizer.as_ref()
    }

    pub(crate) fn need_tokenizer(&self) -> Result<&SharedTokenizer, Error> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer { path: self.file.path().into() })
    }

    /// The chat template, compiled when it is first asked for: a broken one disturbs nobody who does not chat.
    pub fn template(&self) -> Result<&ChatTemplate, Error> {
        if let Some(template) = self.template.get() {
            return Ok(template);
        }
        let template = self.file.template(self.need_tokenizer()?)?;
        Ok(self.template.get_or_init(|| template))
    }
}

/// A tokenizer larger than the embedding would give ids that the model has no rows for (R43).
fn check_vocabulary(file: &ModelFile, spec: &ModelSpec, tokens: usize) -> Result<(), Error> {
    if tokens <= spec.n_vocab {
        return Ok(());
    }
    let reason = format!("the tokenizer has {tokens} tokens, the embedding {} rows", spec.n_vocab);
    Err(Error::model(file.path(), ModelError::Spec { arch: spec.arch.clone(), reason }))
}

fn load_weights(
    file: &ModelFile,
    spec: ModelSpec,
    backend: Arc<CpuBackend>,
    progress: &mut dyn Progress,
) -> Result<Model<CpuBackend>, Error> {
    let total = file.gguf().tensors().iter().map(|tensor| tensor.n_bytes).sum();
    progress.start(&format!("loading {}", file.name()), Some(total));
    let mut done = 0;
    let model = Model::load_as(backend, file.gguf(), spec, &mut |bytes, _| {
        progress.advance(bytes.saturating_sub(done));
        done = bytes;
    });
    progress.finish();
    model.map_err(|error| Error::model(file.path(), error))
}
