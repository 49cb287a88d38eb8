//! References to repositories of Hugging Face: `hf:owner/name[:quant|:file][@revision]`.

use std::fmt;

use crate::HubError;

/// How a reference to a repository begins.
pub(crate) const SCHEME: &str = "hf:";

/// The revision of a reference that names none.
const MAIN: &str = "main";

/// A reference, taken apart and checked: each part can stand in a path and in an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) owner: String,
    pub(crate) name: String,
    /// A quantisation's name, or a file's.
    pub(crate) pick: Option<String>,
    pub(crate) revision: String,
}

impl Reference {
    pub(crate) fn parse(text: &str) -> Result<Reference, HubError> {
        let refuse = |why: &str| HubError::BadReference { reference: text.into(), why: why.into() };
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (rest, revision) = match rest.split_once('@') {
            Some((rest, revision)) => (rest, revision),
            None => (rest, MAIN),
        };
        let (repo, pick) = match rest.split_once(':') {
            Some((repo, pick)) => (repo, Some(pick)),
            None => (rest, None),
        };
        let Some((owner, name)) = repo.split_once('/') else {
            return Err(refuse("a repository is owner/name"));
        };
        for (part, what) in [(owner, "the owner"), (name, "the name")] {
            if !is_repo_word(part) {
                return Err(refuse(&format!("{what} must be letters, digits, `-`, `_` and `.`")));
            }
        }
        if !is_safe_path(revision) {
            return Err(refuse("what follows `@` must be a branch, a tag or a commit"));
        }
        if pick.is_some_and(|pick| !is_safe_path(pick)) {
            return Err(refuse(
                "what follows `:` must be a quantisation such as Q4_K_M, or a file of the repository",
            ));
        }
        let owned = str::to_owned;
        Ok(Reference {
            owner: owned(owner),
            name: owned(name),
            pick: pick.map(owned),
            revision: owned(revision),
        })
    }

    /// `owner/name`.
    pub(crate) fn repo(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Whether the folder is picked where there are GGUF files too.
    pub(crate) fn picks_folder(&self) -> bool {
        self.pick.as_deref().is_some_and(|pick| pick.eq_ignore_ascii_case("safetensors"))
    }

    /// Whether a file is picked by its own name.
    pub(crate) fn picks_file(&self) -> bool {
        self.pick.as_deref().is_some_and(is_gguf)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.owner, self.name)?;
        if let Some(pick) = &self.pick {
            write!(f, ":{pick}")?;
        }
        if self.revision != MAIN {
            write!(f, "@{}", self.revision)?;
        }
        Ok(())
    }
}

pub(crate) fn is_gguf(path: &str) -> bool {
    path.len() > 5 && path.as_bytes()[path.len() - 5..].eq_ignore_ascii_case(b".gguf")
}

fn is_repo_word(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    plain && !word.is_empty() && word.len() <= 96 && !word.starts_with('.') && !word.ends_with('.')
}

/// Whether a path stays below the folder it is put in, on every system, and needs no escaping in an address.
pub(crate) fn is_safe_path(path: &str) -> bool {
    path.len() <= 512
        && path.split('/').all(|part| {
            let plain = part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+' | b'='));
            plain && !part.is_empty() && part.len() <= 200 && !part.starts_with('.') && !part.ends_with('.')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        for (text, pick, revision) in [
            ("hf:someone/Model-GGUF", None, "main"),
            ("hf:someone/Model-GGUF:Q4_K_M", Some("Q4_K_M"), "main"),
            ("hf:someone/Model-GGUF:sub/model.gguf@v1.0", Some("sub/model.gguf"), "v1.0"),
            ("hf:someone/Model-GGUF@refs/pr/1", None, "refs/pr/1"),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!((reference.pick.as_deref(), &*reference.revision), (pick, revision), "{text}");
            assert_eq!(
                (reference.repo(), reference.to_string()),
                ("someone/Model-GGUF".into(), text.to_owned())
            );
        }
        assert!(Reference::parse("hf:a/b:X.GGUF").unwrap().picks_file());
        assert!(Reference::parse("hf:a/b:.gguf2").is_err());
    }

    #[test]
    fn nothing_leaves_its_folder() {
        for text in [
            "hf:",
            "hf:a",
            "hf:/b",
            "hf:a/",
            "hf:../b",
            "hf:a/..",
            "hf:a/b/c",
            "hf:a/b:",
            "hf:a/b@",
            "hf:a/b:../c.gguf",
            "hf:a/b:c//d",
            "hf:a/b@../x",
            "hf:a/b@x/../y",
            "hf:a/b:c\\d",
            "hf:a/b:x y",
            "hf:a/b:C:d",
            "hf:a b/c",
            "hf:é/b",
            "hf:a/b:x?y",
            "hf:a/b:%2e%2e",
        ] {
            let error = Reference::parse(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
