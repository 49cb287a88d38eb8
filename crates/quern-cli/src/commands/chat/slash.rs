//! What a line that begins with a slash asks for: one table, which reads them and explains them.

/// A command within a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    System(String),
    /// The settings in force.
    Show,
    Set(String, String),
    Reset,
    Save(String),
    Load(String),
    Regen,
    Exit,
}

struct Row {
    names: &'static [&'static str],
    takes: &'static str,
    does: &'static str,
    /// From what follows the name, without the white space around it; None where that does not fit.
    read: fn(&str) -> Option<Slash>,
}

const ROWS: [Row; 8] = [
    Row { names: &["help", "?"], takes: "", does: "show this list", read: |rest| alone(rest, Slash::Help) },
    Row {
        names: &["system"],
        takes: "TEXT",
        does: "give other instructions from here on; without a text, the template's own",
        read: |rest| Some(Slash::System(rest.to_owned())),
    },
    Row {
        names: &["set"],
        takes: "NAME VALUE",
        does: "change a sampling setting, by the name of its flag; without a name, show what is in force",
        read: |rest| match rest.split_once(char::is_whitespace) {
            Some((name, value)) => Some(Slash::Set(name.to_owned(), value.trim().to_owned())),
            None => alone(rest, Slash::Show),
        },
    },
    Row {
        names: &["reset"],
        takes: "",
        does: "forget what was said; instructions and settings stay",
        read: |rest| alone(rest, Slash::Reset),
    },
    Row { names: &["save"], takes: "FILE", does: "write the conversation to a file", read: |rest| file(rest, Slash::Save) },
    Row { names: &["load"], takes: "FILE", does: "go on with a conversation from a file", read: |rest| file(rest, Slash::Load) },
    Row {
        names: &["regen"],
        takes: "",
        does: "answer the last message again; a fixed seed gives the same answer",
        read: |rest| alone(rest, Slash::Regen),
    },
    Row { names: &["exit", "bye"], takes: "", does: "leave, as Ctrl-D does", read: |rest| alone(rest, Slash::Exit) },
];

fn alone(rest: &str, command: Slash) -> Option<Slash> {
    rest.is_empty().then_some(command)
}

fn file(rest: &str, command: fn(String) -> Slash) -> Option<Slash> {
    (!rest.is_empty()).then(|| command(rest.to_owned()))
}

impl Slash {
    /// Reads a line that begins with a slash; an error is one sentence.
    pub(super) fn parse(line: &str) -> Result<Slash, String> {
        let line = line.trim();
        let line = line.strip_prefix('/').unwrap_or(line);
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match ROWS.iter().find(|row| row.names.contains(&name)) {
            Some(row) => (row.read)(rest.trim()).ok_or_else(|| match row.takes {
                "" => format!("/{name} takes nothing after it"),
                takes => format!("it is /{name} {takes}"),
            }),
            None => {
                let shown: String = name.chars().take(20).flat_map(char::escape_default).collect();
                Err(format!(
                    "there is no command /{shown} (/help lists them); a message that begins with a slash goes between \
                     \"\"\" and \"\"\""
                ))
            }
        }
    }
}

/// The commands for people.
pub(super) fn help() -> String {
    let rows = ROWS.iter().map(|row| {
        let names: Vec<_> = row.names.iter().map(|name| format!("/{name}")).collect();
        format!("\n  {:<20} {}", format!("{} {}", names.join(" "), row.takes), row.does)
    });
    format!(
        "the commands are:{}\n  Ctrl-C stops an answer; a line that ends in \\ goes on; \"\"\" begins and ends a message of several \
         lines",
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_reads_its_names() {
        for row in &ROWS {
            for name in row.names {
                let rest = if row.takes.is_empty() { "" } else { "a b" };
                assert!(Slash::parse(&format!("/{name} {rest}")).is_ok(), "{name}");
            }
            assert!(help().contains(row.names[0]));
        }
        assert_eq!(Slash::parse("/set temp 0.5"), Ok(Slash::Set("temp".into(), "0.5".into())));
        assert_eq!(Slash::parse("/set"), Ok(Slash::Show));
        assert_eq!(Slash::parse("/save my file.json "), Ok(Slash::Save("my file.json".into())));
        assert_eq!(Slash::parse("/system"), Ok(Slash::System(String::new())));
    }

    #[test]
    fn what_is_no_command_is_refused_by_name() {
        for (line, part) in [("/walk", "/walk"), ("/reset now", "/reset"), ("/save", "FILE"), ("/set temp", "NAME VALUE")] {
            assert!(Slash::parse(line).unwrap_err().contains(part), "{line}");
        }
    }
}
