//! Where Quern keeps its files: cache, configuration and data.
//!
//! An override (`QUERN_CACHE`, `QUERN_DATA`) names the directory itself. Without one the system's own
//! convention decides: the XDG base directories on Linux and other Unixes, `~/Library` on macOS, `%LOCALAPPDATA%` and
//! `%APPDATA%` on Windows. Nothing is created here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::PlatformError;

const APP: &str = "quern";

/// Files that can be fetched or made again: models, compiled artefacts.
///
/// # Errors
/// Where `QUERN_CACHE` is relative, or no home directory is known.
pub fn cache_dir() -> Result<PathBuf, PlatformError> {
    Host::current().directory(&CACHE)
}

/// What the user wrote: settings. `QUERN_CONFIG` names the file itself, wherever it lies, and does not count here.
///
/// # Errors
/// Where no home directory is known.
pub fn config_dir() -> Result<PathBuf, PlatformError> {
    Host::current().directory(&CONFIG)
}

/// What Quern made and cannot make again: stored chats, adapters, keys.
///
/// # Errors
/// Where `QUERN_DATA` is relative, or no home directory is known.
pub fn data_dir() -> Result<PathBuf, PlatformError> {
    Host::current().directory(&DATA)
}

/// One kind of directory, and its place in each convention.
struct Kind {
    what: &'static str,
    variable: &'static str,
    /// Whether the variable names the directory, and not something in it.
    names_directory: bool,
    xdg: (&'static str, &'static str),
    mac: &'static str,
    windows: (&'static str, &'static str),
    /// Windows keeps kinds apart inside one application folder, as `%LOCALAPPDATA%` is not only for caches.
    windows_leaf: &'static str,
}

const CACHE: Kind = Kind {
    what: "cache",
    variable: "QUERN_CACHE",
    names_directory: true,
    xdg: ("XDG_CACHE_HOME", ".cache"),
    mac: "Library/Caches",
    windows: ("LOCALAPPDATA", "AppData/Local"),
    windows_leaf: "cache",
};

const CONFIG: Kind = Kind {
    what: "config",
    variable: "QUERN_CONFIG",
    names_directory: false,
    xdg: ("XDG_CONFIG_HOME", ".config"),
    mac: "Library/Application Support",
    windows: ("APPDATA", "AppData/Roaming"),
    windows_leaf: "config",
};

const DATA: Kind = Kind {
    what: "data",
    variable: "QUERN_DATA",
    names_directory: true,
    xdg: ("XDG_DATA_HOME", ".local/share"),
    mac: "Library/Application Support",
    windows: ("LOCALAPPDATA", "AppData/Local"),
    windows_leaf: "data",
};

enum Convention {
    Xdg,
    Mac,
    Windows,
}

/// What the answer depends on, so that every convention can be tested anywhere.
struct Host<'a> {
    convention: Convention,
    env: &'a dyn Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
}

impl Host<'_> {
    fn current() -> Host<'static> {
        let convention = if cfg!(windows) {
            Convention::Windows
        } else if cfg!(target_os = "macos") {
            Convention::Mac
        } else {
            Convention::Xdg
        };
        Host { convention, env: &|name| std::env::var_os(name), home: std::env::home_dir() }
    }

    fn directory(&self, kind: &Kind) -> Result<PathBuf, PlatformError> {
        let Kind { what, variable, .. } = *kind;
        if kind.names_directory
            && let Some(value) = self.path(variable)
        {
            if !value.is_absolute() {
                return Err(PlatformError::RelativePath { what, variable, value });
            }
            return Ok(value);
        }
        let home = |below: &str| self.home.as_deref().filter(|h| h.is_absolute()).map(|h| h.join(below));
        // The base directory specification says that a relative value is to be ignored.
        let base =
            |(name, below): (&str, &str)| self.path(name).filter(|p| p.is_absolute()).or_else(|| home(below));
        let found = match self.convention {
            Convention::Xdg => base(kind.xdg).map(|dir| dir.join(APP)),
            Convention::Mac => home(kind.mac).map(|dir| dir.join(APP)),
            Convention::Windows => base(kind.windows).map(|dir| dir.join(APP).join(kind.windows_leaf)),
        };
        found.ok_or(PlatformError::NoHome { what, variable })
    }

    /// A variable that is set but empty counts as not set.
    fn path(&self, variable: &str) -> Option<PathBuf> {
        (self.env)(variable).filter(|v| !v.is_empty()).map(|v| Path::new(&v).to_path_buf())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn resolve(convention: Convention, env: &[(&str, &str)], kind: &Kind) -> Result<PathBuf, PlatformError> {
        let lookup = |name: &str| env.iter().find(|(k, _)| *k == name).map(|(_, v)| OsString::from(v));
        let home = lookup("HOME").map(PathBuf::from);
        Host { convention, env: &lookup, home }.directory(kind)
    }

    fn ok(convention: Convention, env: &[(&str, &str)], kind: &Kind) -> PathBuf {
        resolve(convention, env, kind).unwrap()
    }

    #[test]
    fn defaults_follow_each_systems_convention() {
        let env = [("HOME", "/home/ada")];
        // XDG Base Directory Specification: the defaults of the three variables.
        assert_eq!(ok(Convention::Xdg, &env, &CACHE), Path::new("/home/ada/.cache/quern"));
        assert_eq!(ok(Convention::Xdg, &env, &CONFIG), Path::new("/home/ada/.config/quern"));
        assert_eq!(ok(Convention::Xdg, &env, &DATA), Path::new("/home/ada/.local/share/quern"));
        assert_eq!(ok(Convention::Mac, &env, &CACHE), Path::new("/home/ada/Library/Caches/quern"));
        assert_eq!(
            ok(Convention::Mac, &env, &DATA),
            Path::new("/home/ada/Library/Application Support/quern")
        );
        assert_eq!(ok(Convention::Windows, &env, &CACHE), Path::new("/home/ada/AppData/Local/quern/cache"));
        assert_eq!(
            ok(Convention::Windows, &env, &CONFIG),
            Path::new("/home/ada/AppData/Roaming/quern/config")
        );
        assert_ne!(ok(Convention::Windows, &env, &CACHE), ok(Convention::Windows, &env, &DATA));
    }

    #[test]
    fn the_systems_variables_count_when_absolute() {
        let env = [
            ("HOME", "/home/ada"),
            ("XDG_CACHE_HOME", "/big"),
            ("XDG_DATA_HOME", "rel"),
            ("XDG_CONFIG_HOME", ""),
        ];
        assert_eq!(ok(Convention::Xdg, &env, &CACHE), Path::new("/big/quern"));
        assert_eq!(ok(Convention::Xdg, &env, &DATA), Path::new("/home/ada/.local/share/quern"));
        assert_eq!(ok(Convention::Xdg, &env, &CONFIG), Path::new("/home/ada/.config/quern"));
        assert_eq!(ok(Convention::Mac, &env, &CACHE), Path::new("/home/ada/Library/Caches/quern"));
    }

    #[test]
    fn our_own_override_is_the_directory_itself() {
        let env = [("HOME", "/home/ada"), ("QUERN_CACHE", "/models"), ("XDG_CACHE_HOME", "/big")];
        for convention in [Convention::Xdg, Convention::Mac, Convention::Windows] {
            assert_eq!(ok(convention, &env, &CACHE), Path::new("/models"));
        }
        let error = resolve(Convention::Xdg, &[("QUERN_DATA", "here")], &DATA).unwrap_err().to_string();
        assert!(error.contains("QUERN_DATA") && error.contains("here"), "{error}");
    }

    #[test]
    fn no_home_names_the_way_out() {
        for convention in [Convention::Xdg, Convention::Mac, Convention::Windows] {
            let error = resolve(convention, &[], &CONFIG).unwrap_err().to_string();
            assert!(error.contains("QUERN_CONFIG"), "{error}");
        }
    }
}
