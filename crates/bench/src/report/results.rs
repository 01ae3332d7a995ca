//! Files of results.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::figures::distinct;
use super::versions::version_of;
use crate::record::Record;

/// The origin of results: the first line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The command that was run.
    pub command: String,
    /// The time of its end, in UTC.
    pub date: String,
    /// The revision of the code, with a suffix if files were modified.
    pub commit: String,
    /// Processor, memory and system.
    pub machine: String,
    /// A remark, such as on concurrent load.
    pub note: String,
    /// The peers that took part, with their versions; set when results are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// Returns the output of a program without its last line end; empty if it fails.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Returns the value of a field in a file of `/proc`.
fn proc_field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_once(':'));
    found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// Returns the revision of the code, with a suffix if sources differ from it. Results that were
/// just measured are no sources.
fn commit() -> String {
    let revision = said("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = [
        "status",
        "--porcelain",
        "--",
        "Cargo.lock",
        "crates",
        ":!crates/bench/results",
    ];
    let suffix = if said("git", &changed).is_empty() {
        ""
    } else {
        "-dirty"
    };
    revision + suffix
}

impl Origin {
    /// Returns the origin of a run of this process.
    #[must_use]
    pub fn of_this_process(note: &str) -> Self {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        // The note has a field of its own.
        if let Some(at) = arguments.iter().position(|argument| argument == "--note") {
            arguments.drain(at..(at + 2).min(arguments.len()));
        }
        let memory = proc_field("/proc/meminfo", "MemTotal");
        let kib = memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            command: format!("bedload-bench {}", arguments.join(" ")),
            date: said("date", &["-u", "+%Y-%m-%d %H:%M"]),
            commit: commit(),
            machine: format!(
                "{processors} processors of {}, {} GiB, Linux {}",
                proc_field("/proc/cpuinfo", "model name"),
                kib >> 20,
                said("uname", &["-r"])
            ),
            note: note.to_owned(),
            peers: Vec::new(),
        }
    }
}

/// Writes results to a file with the versions of the peers that have some, but for figures of
/// nothing, such as the mean of no walks.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_results(path: &Path, origin: &Origin, records: &[Record]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut subjects = distinct(records.iter().map(|record| &*record.subject));
    subjects.sort_unstable();
    let peers = subjects.into_iter().filter_map(|subject| {
        let version = version_of(subject)?;
        Some(format!("{subject} {version}"))
    });
    let origin = Origin {
        peers: peers.collect(),
        ..origin.clone()
    };
    serde_json::to_writer(&mut file, &origin)?;
    writeln!(file)?;
    for record in records.iter().filter(|record| record.median.is_finite()) {
        serde_json::to_writer(&mut file, record)?;
        writeln!(file)?;
    }
    file.flush()
}

/// A figure of a results file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Kept {
    pub(super) subject: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) rounds: usize,
    pub(super) baseline: Option<String>,
    /// The median divided by the baseline's.
    pub(super) ratio: Option<f64>,
    pub(super) params: BTreeMap<String, String>,
}

impl Kept {
    /// Returns the setting under which it was measured: a degree of order, or a number of threads.
    pub(super) fn setting(&self) -> &str {
        let setting = self.params.get("degree").or_else(|| self.params.get("threads"));
        setting.map_or("", String::as_str)
    }
}

/// All results files.
#[derive(Debug)]
pub struct Results {
    files: BTreeMap<String, (Origin, Vec<Kept>)>,
}

impl Results {
    /// Reads the files of a directory.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not a results file.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let (origin, records) = Self::read_file(&path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), (origin, records));
        }
        Ok(Self { files })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not a results file.
    pub(super) fn read_file(path: &Path) -> io::Result<(Origin, Vec<Kept>)> {
        let wrong = |error| io::Error::other(format!("{}: {error}", path.display()));
        let mut lines = BufReader::new(File::open(path)?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let origin = serde_json::from_str(&first).map_err(wrong)?;
        let records = lines.map(|line| serde_json::from_str(&line?).map_err(wrong));
        Ok((origin, records.collect::<io::Result<_>>()?))
    }

    /// Returns the names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns the origin of a file and its figures.
    pub(super) fn file(&self, name: &str) -> Option<&(Origin, Vec<Kept>)> {
        self.files.get(name)
    }

    /// Returns a figure.
    pub(super) fn figure(&self, file: &str, setting: &str, metric: &str, subject: &str) -> Option<&Kept> {
        let (_, records) = self.files.get(file)?;
        let mut records = records.iter();
        records.find(|kept| kept.setting() == setting && kept.metric == metric && kept.subject == subject)
    }
}
