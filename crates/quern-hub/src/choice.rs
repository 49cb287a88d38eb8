//! Which files of a repository a reference means.

use crate::HubError;
use crate::reference::{Reference, is_gguf, is_safe_path};

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Of the contents; None where the server does not say it.
    pub(crate) sha256: Option<String>,
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

/// The files of the one model that is meant, first part first.
pub(crate) fn choose(reference: &Reference, files: &[RepoFile]) -> Result<Vec<RepoFile>, HubError> {
    let candidates = candidates(files);
    if candidates.is_empty() {
        let has = |extension: &str| files.iter().any(|file| file.path.ends_with(extension));
        let holds =
            if has(".safetensors") { "safetensors files, which cannot be run yet" } else { "no GGUF file" };
        return Err(HubError::NotGguf { reference: reference.to_string(), holds });
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

/// GGUF files that can be named in a path, with the parts of a set put together.
fn candidates(files: &[RepoFile]) -> Vec<Candidate<'_>> {
    let mut files: Vec<_> =
        files.iter().filter(|file| is_gguf(&file.path) && is_safe_path(&file.path)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for file in files {
        let set = split(&file.path);
        let total = set.map_or(1, |(_, _, total)| total);
        // Sorted by name, the parts of a set follow each other.
        match (set, candidates.last_mut()) {
            (Some((stem, part, total)), Some(last))
                if split(&last.parts[0].path).is_some_and(|(s, _, t)| (s, t) == (stem, total))
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

/// The stem, the part and the number of parts of a file of a split set: `model-00001-of-00003.gguf`.
fn split(path: &str) -> Option<(&str, usize, usize)> {
    let stem = &path[..path.len().checked_sub(5)?];
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
        names.iter().map(|name| RepoFile { path: (*name).into(), bytes: 1, sha256: None }).collect()
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

    #[test]
    fn what_is_not_one_model_is_refused_with_the_list() {
        let several = chosen("hf:a/b", &NAMES).unwrap_err();
        assert!(several.contains("files could be meant") && several.contains(NAMES[2]), "{several}");
        for pick in ["Q4_K", "Q4", "Q4_XS"] {
            let error = chosen(&format!("hf:a/b:{pick}"), &NAMES).unwrap_err();
            assert!(error.contains("no file") && error.contains(NAMES[2]), "{pick}: {error}");
        }
        assert!(chosen("hf:a/b", &["model.safetensors"]).unwrap_err().contains("safetensors"));
        assert!(chosen("hf:a/b", &["README.md"]).unwrap_err().contains("no GGUF file"));
        assert!(chosen("hf:a/b", &["../x.gguf", "/y.gguf"]).unwrap_err().contains("no GGUF file"));
    }
}
