//! A model's file: what can be known and done without its weights in memory.

use crate::Error;
use quern_chat::{ChatTemplate, TemplateTokens};
use quern_gguf::{Gguf, Metadata};
use quern_hub::{Hub, Progress};
use quern_model::{ModelSpec, is_hugging_face, open_hugging_face};
use quern_tokenizer::{SharedTokenizer, SpecialIds, from_json, from_metadata};
use std::path::Path;
use std::sync::Arc;

/// Values of `tokenizer.ggml.model` by which a file says that it has no tokenizer.
const NO_TOKENIZER: [&str; 2] = ["none", "no_vocab"];

/// The tokenizer of a Hugging Face folder.
const TOKENIZER: &str = "tokenizer.json";

/// An open model file. Its header is checked; its tensors stay on disk.
#[derive(Clone, Debug)]
pub struct ModelFile {
    name: String,
    system: Option<&'static str>,
    gguf: Arc<Gguf>,
}

/// A GGUF file, or a Hugging Face folder as one.
fn open(path: &Path) -> Result<Gguf, Error> {
    if is_hugging_face(path) {
        return open_hugging_face(path).map_err(|error| Error::model(path, error));
    }
    Ok(Gguf::open(path)?)
}

impl ModelFile {
    /// Opens what a reference means: a path, or a short name or a repository, whose file is fetched if need be.
    pub fn open(reference: &str, progress: &mut dyn Progress) -> Result<ModelFile, Error> {
        ModelFile::open_from(&Hub::from_env(), reference, progress)
    }

    /// The same from a hub of the caller's choice.
    pub fn open_from(hub: &Hub, reference: &str, progress: &mut dyn Progress) -> Result<ModelFile, Error> {
        let found = hub.resolve(reference, progress)?;
        Ok(ModelFile { name: found.name, system: found.system, gguf: Arc::new(open(&found.path)?) })
    }

    /// The short name, or the file's name without its extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Instructions that the built-in list recommends for its short name, to be used where nobody gives any.
    pub fn recommended_system(&self) -> Option<&'static str> {
        self.system
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.gguf.path()
    }

    /// The container: metadata and tensors.
    pub fn gguf(&self) -> &Arc<Gguf> {
        &self.gguf
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        self.gguf.metadata()
    }

    /// What the model is made of; an error says why it cannot be run.
    pub fn spec(&self) -> Result<ModelSpec, Error> {
        ModelSpec::from_gguf(&self.gguf).map_err(|error| Error::model(self.path(), error))
    }

    /// The tokenizer; None for a file without one.
    pub fn opt_tokenizer(&self) -> Result<Option<SharedTokenizer>, Error> {
        if is_hugging_face(self.path()) {
            return self.opt_json_tokenizer();
        }
        match self.metadata().opt_str("tokenizer.ggml.model")? {
            None => Ok(None),
            Some(model) if NO_TOKENIZER.contains(&model) => Ok(None),
            Some(_) => {
                let tokenizer = from_metadata(self.metadata());
                tokenizer.map(Some).map_err(|error| Error::tokenizer(self.path(), error))
            }
        }
    }

    /// The tokenizer of a Hugging Face folder.
    fn opt_json_tokenizer(&self) -> Result<Option<SharedTokenizer>, Error> {
        let folder = if self.path().is_dir() { Some(self.path()) } else { self.path().parent() };
        let path = folder.unwrap_or(Path::new("")).join(TOKENIZER);
        if !path.is_file() {
            return Ok(None);
        }
        let json = std::fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let ids = SpecialIds::from_metadata(self.metadata());
        let tokenizer = ids.and_then(|ids| from_json(&json, &ids));
        tokenizer.map(Some).map_err(|error| Error::tokenizer(&path, error))
    }

    /// The tokenizer; an error for a file without one.
    pub fn tokenizer(&self) -> Result<SharedTokenizer, Error> {
        self.opt_tokenizer()?.ok_or_else(|| Error::NoTokenizer { path: self.path().into() })
    }

    /// The file's chat template, or the built-in one that fits it.
    pub fn template(&self, tokenizer: &SharedTokenizer) -> Result<ChatTemplate, Error> {
        let special = tokenizer.special();
        let spelling = |id: Option<u32>| id.map(|id| tokenizer.token_text(id).into_owned());
        let tokens = TemplateTokens { bos: spelling(special.bos), eos: spelling(special.eos) };
        Ok(ChatTemplate::from_metadata(self.metadata(), &tokens, tokenizer.control_spellings().to_vec())?)
    }
}
