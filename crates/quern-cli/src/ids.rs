//! Token ids on the command line and in files.

use crate::exit::refuse;
use crate::text;
use std::path::Path;

/// Ids as a person or a program writes them: a JSON array, or numbers with commas or white space between.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<u32>> {
    let trimmed = text.trim();
    let list = match trimmed.strip_prefix('[') {
        None => trimmed,
        Some(rest) => match rest.strip_suffix(']') {
            Some(list) => list,
            None => return refuse("the list of ids opens with [ and is not closed"),
        },
    };
    let words = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let ids = words.map(|word| match word.parse() {
        Ok(id) => Ok(id),
        Err(_) => {
            let shown: String = word.chars().take(20).flat_map(char::escape_default).collect();
            refuse(format!("`{shown}` is not a token id: ids are whole numbers from 0"))
        }
    });
    let ids: Vec<u32> = ids.collect::<anyhow::Result<_>>()?;
    if ids.is_empty() { refuse("there is no token id in it") } else { Ok(ids) }
}

/// Ids from a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u32>> {
    parse(&text::read(path)?).map_err(|error| error.context(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_list() {
        for list in ["1,2,3", "[1, 2, 3]", " 1 2\n3\n", "1,\t2 3,"] {
            assert_eq!(parse(list).unwrap(), [1, 2, 3], "{list:?}");
        }
        assert_eq!(parse("4294967295").unwrap(), [u32::MAX]);
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        for (list, part) in [
            ("1,x", "`x`"),
            ("-1", "`-1`"),
            ("4294967296", "`4294967296`"),
            ("1.0", "`1.0`"),
            ("[1", "not closed"),
        ] {
            assert!(parse(list).unwrap_err().to_string().contains(part), "{list}");
        }
        assert!(parse("[]").is_err() && parse(" ").is_err());
    }
}
