//! Which files of a repository a reference means.

use serde::{Deserialize, Serialize};

use crate::HubError;
use crate::cache::{Hash, HashKind};
use crate::reference::{Reference, is_gguf, is_safe_path};

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// None where the server does not say it.
    pub(crate) hash: Option<RepoHash>,
}

/// What a server says that a file hashes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepoHash {
    pub(crate) kind: HashKind,
    pub(crate) hex: String,
}

impl RepoHash {
    pub(crate) fn new(kind: HashKind, hex: &str) -> RepoHash {
        RepoHash { kind, hex: hex.to_ascii_lowercase() }
    }

    pub(crate) fn as_ref(&self) -> Hash<'_> {
        Hash { kind: self.kind, hex: &self.hex }
    }
}

/// Names listed in a refusal.
const SHOWN: usize = 40;

/// Files beside a model that are no model: the vision part of a multimodal one, and measurements for quantising.
const COMPANIONS: [&str; 2] = ["mmproj", "imatrix"];

/// One model: its file, or the parts of its set in order.
#[derive(Debug)]
struct Candidate<'a> {
    parts: Vec<&'a RepoFile>,
    /// Parts that the names speak of.
    total: usize,
}

/// The configuration: its folder is the model.
pub(crate) const CONFIG: &str = "config.json";

/// What a folder of a model holds besides, where it does.
const BESIDES: [&str; 4] =
    ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/// Weights in one file, and what lists those in several.
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The files of the one model that is meant, first part first; or those of its folder, the configuration first.
pub(crate) fn choose(reference: &Reference, files: &[RepoFile]) -> Result<Vec<RepoFile>, HubError> {
    let candidates = candidates(files);
    if reference.picks_folder() || candidates.is_empty() {
        return folder(reference, files);
    }
    let meant: Vec<&Candidate<'_>> =
        candidates.iter().filter(|candidate| candidate.is_meant(reference)).collect();
    let list = |of: &mut dyn Iterator<Item = &Candidate<'_>>| {
        let names: Vec<_> = of.map(|candidate| candidate.parts[0].path.as_str()).collect();
        let more = names.len().saturating_sub(SHOWN);
        let shown = names[..names.len() - more].join(", ");
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    };
    let refuse = |what: &str, files: String| HubError::Choice {
        reference: reference.to_string(),
        what: what.to_owned(),
        files,
        repo: reference.repo(),
    };
    match meant[..] {
        [] => Err(refuse("no file of the repository is meant", list(&mut candidates.iter()))),
        [one] if one.parts.len() != one.total => {
            let held = format!("{} of the {} parts of the set are there", one.parts.len(), one.total);
            Err(refuse(&held, list(&mut candidates.iter())))
        }
        [one] => Ok(one.parts.iter().map(|file| (*file).clone()).collect()),
        ref several => Err(refuse(
            &format!("{} files could be meant", several.len()),
            list(&mut several.iter().copied()),
        )),
    }
}

/// The files of a model as transformers writes it, out of the repository's root.
fn folder(reference: &Reference, files: &[RepoFile]) -> Result<Vec<RepoFile>, HubError> {
    let named = |name: &str| files.iter().find(|file| file.path == name).cloned();
    let refuse =
        |holds: &str| Err(HubError::NoModel { reference: reference.to_string(), holds: holds.into() });
    if !files.iter().any(|file| file.path.ends_with(".safetensors")) {
        return refuse("no GGUF file and no safetensors");
    }
    if reference.pick.is_some() && !reference.picks_folder() {
        return refuse("safetensors and no GGUF file: there is nothing to pick, leave out what follows `:`");
    }
    let Some(config) = named(CONFIG) else { return refuse("safetensors without a config.json") };
    let weights = match (named(INDEX), named(WEIGHTS)) {
        (Some(index), _) => {
            let mut parts: Vec<_> = files
                .iter()
                .filter_map(|file| Some((split(file.path.strip_suffix(".safetensors")?)?, file)))
                .filter(|((stem, ..), _)| *stem == "model")
                .collect();
            parts.sort_by_key(|((_, part, _), _)| *part);
            let total = parts.first().map_or(0, |((_, _, total), _)| *total);
            let is_whole =
                parts.len() == total && parts.iter().zip(1..).all(|(((_, part, _), _), n)| *part == n);
            if !is_whole || total == 0 {
                return refuse(&format!("{} of the {total} parts of the model", parts.len()));
            }
            std::iter::once(index).chain(parts.into_iter().map(|(_, file)| file.clone())).collect()
        }
        (None, Some(weights)) => vec![weights],
        (None, None) => return refuse("safetensors under other names than model.safetensors"),
    };
    let besides = BESIDES.into_iter().filter_map(named);
    Ok(std::iter::once(config).chain(besides).chain(weights).collect())
}

/// GGUF files that can be named in a path, with the parts of a set put together.
fn candidates(files: &[RepoFile]) -> Vec<Candidate<'_>> {
    let mut files: Vec<_> =
        files.iter().filter(|file| is_gguf(&file.path) && is_safe_path(&file.path)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for file in files {
        let set = split_gguf(&file.path);
        let total = set.map_or(1, |(_, _, total)| total);
        // Sorted by name, the parts of a set follow each other.
        match (set, candidates.last_mut()) {
            (Some((stem, part, total)), Some(last))
                if split_gguf(&last.parts[0].path).is_some_and(|(s, _, t)| (s, t) == (stem, total))
                    && part == last.parts.len() + 1 =>
            {
                last.parts.push(file);
            }
            _ => candidates.push(Candidate { parts: vec![file], total }),
        }
    }
    candidates
}

impl Candidate<'_> {
    fn is_meant(&self, reference: &Reference) -> bool {
        let path = self.parts[0].path.as_str();
        let base = |path: &'_ str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match &reference.pick {
            Some(pick) if reference.picks_file() => {
                self.parts.iter().any(|part| part.path == *pick || base(&part.path) == *pick)
            }
            _ if COMPANIONS.iter().any(|word| base(path).to_ascii_lowercase().contains(word)) => false,
            Some(quant) => names_quant(path, quant),
            None => true,
        }
    }
}

fn split_gguf(path: &str) -> Option<(&str, usize, usize)> {
    split(&path[..path.len().checked_sub(5)?])
}

/// The stem, the part and the number of parts of a file of a split set: `model-00001-of-00003`.
fn split(stem: &str) -> Option<(&str, usize, usize)> {
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        let plain = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
        if plain { digits.parse::<usize>().ok() } else { None }
    };
    Some((stem, number(part)?, number(total)?))
}

/// Whether a path names a quantisation: in any case, and not as a part of a longer name (Q4_K is not in Q4_K_M).
fn names_quant(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    path.match_indices(&quant).any(|(at, _)| {
        let before = path[..at].chars().next_back();
        let after = path[at + quant.len()..].chars().next();
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
            && after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<RepoFile> {
        names.iter().map(|name| RepoFile { path: (*name).into(), bytes: 1, hash: None }).collect()
    }

    fn chosen(reference: &str, names: &[&str]) -> Result<Vec<String>, String> {
        let reference = Reference::parse(reference).unwrap();
        let chosen = choose(&reference, &files(names)).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|file| file.path).collect())
    }

    /// Names as three publishers of GGUF files write them.
    const NAMES: [&str; 11] = [
        "README.md",
        "SmolLM2-135M-Instruct-IQ4_XS.gguf",
        "SmolLM2-135M-Instruct-Q4_K_M.gguf",
        "SmolLM2-135M-Instruct-Q4_K_S.gguf",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "SmolLM2-135M-Instruct-UD-Q4_K_XL.gguf",
        "BF16/SmolLM2-135M-Instruct-BF16-00001-of-00002.gguf",
        "BF16/SmolLM2-135M-Instruct-BF16-00002-of-00002.gguf",
        "mmproj-BF16.gguf",
        "q8_0/model.gguf",
        "broken-Q2_K-00001-of-00003.gguf",
    ];

    #[test]
    fn a_quantisation_finds_its_file() {
        for (pick, expected) in [
            ("Q4_K_M", NAMES[2]),
            ("q4_k_m", NAMES[2]),
            ("IQ4_XS", NAMES[1]),
            ("Q4_1", NAMES[4]),
            ("Q4_K_XL", NAMES[5]),
            ("UD-Q4_K_XL", NAMES[5]),
            ("Q8_0", NAMES[9]),
            ("mmproj-BF16.gguf", NAMES[8]),
            ("model.gguf", NAMES[9]),
            ("q8_0/model.gguf", NAMES[9]),
        ] {
            assert_eq!(chosen(&format!("hf:a/b:{pick}"), &NAMES), Ok(vec![expected.to_owned()]), "{pick}");
        }
        assert_eq!(chosen("hf:a/b", &["x.gguf", "mmproj-x.gguf"]), Ok(vec!["x.gguf".to_owned()]));
    }

    #[test]
    fn a_set_is_whole_or_refused() {
        let set = vec![NAMES[6].to_owned(), NAMES[7].to_owned()];
        assert_eq!(chosen("hf:a/b:BF16", &NAMES), Ok(set.clone()));
        assert_eq!(chosen(&format!("hf:a/b:{}", NAMES[6]), &NAMES), Ok(set));
        assert!(chosen("hf:a/b:Q2_K", &NAMES).unwrap_err().contains("1 of the 3 parts"));
    }

    /// Names as the repositories of SmolLM2 and Qwen2.5 have them, with what is left where it is.
    #[test]
    fn a_folder_brings_what_a_model_needs() {
        let small = ["model.safetensors", "tokenizer.json", "config.json", "README.md", "onnx/model.onnx"];
        let expected = ["config.json", "tokenizer.json", "model.safetensors"].map(String::from).to_vec();
        assert_eq!(chosen("hf:a/b", &small), Ok(expected.clone()));
        assert_eq!(chosen("hf:a/b:safetensors", &[&small[..], &["a.gguf"]].concat()), Ok(expected));
        let large = [
            "config.json",
            "generation_config.json",
            "model-00002-of-00002.safetensors",
            "model-00001-of-00002.safetensors",
            "model.safetensors.index.json",
            "consolidated.safetensors",
            "original/model-00001-of-00001.safetensors",
            "merges.txt",
        ];
        let expected = [0, 1, 4, 3, 2].map(|i| large[i].to_owned()).to_vec();
        assert_eq!(chosen("hf:a/b", &large), Ok(expected));
        for (names, expected) in [
            (&large[..3], "other names"),
            (&["config.json", "model.safetensors.index.json", large[2]], "1 of the 2 parts"),
            (&["config.json", "x.safetensors"], "other names"),
            (&["config.json", "model.bin"], "no GGUF file and no safetensors"),
        ] {
            let error = chosen("hf:a/b", names).unwrap_err();
            assert!(error.contains(expected), "{names:?}: {error}");
        }
        assert!(chosen("hf:a/b:Q4_K_M", &small).unwrap_err().contains("nothing to pick"));
    }

    #[test]
    fn what_is_not_one_model_is_refused_with_the_list() {
        let several = chosen("hf:a/b", &NAMES).unwrap_err();
        assert!(several.contains("files could be meant") && several.contains(NAMES[2]), "{several}");
        for pick in ["Q4_K", "Q4", "Q4_XS"] {
            let error = chosen(&format!("hf:a/b:{pick}"), &NAMES).unwrap_err();
            assert!(error.contains("no file") && error.contains(NAMES[2]), "{pick}: {error}");
        }
        assert!(chosen("hf:a/b", &["model.safetensors"]).unwrap_err().contains("without a config.json"));
        assert!(chosen("hf:a/b", &["README.md"]).unwrap_err().contains("no GGUF file"));
        assert!(chosen("hf:a/b", &["../x.gguf", "/y.gguf"]).unwrap_err().contains("no GGUF file"));
    }
}
