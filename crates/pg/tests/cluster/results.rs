//! Figures, printed and stored in the form in which `bedload-bench report` reads them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// The figures of one scenario.
pub(crate) struct Results {
    file: Option<File>,
    rows: u64,
}

/// The subject, setting and metric of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure<'a> {
    pub(crate) subject: &'a str,
    /// The setting of the run, if there are several.
    pub(crate) setting: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
}

/// Returns the output of a program without its last line end.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The revision of the code, with a suffix if sources differ from it.
fn commit() -> String {
    let revision = output_of("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = ["status", "--porcelain", "--", "../..", ":!../../bench/results"];
    let suffix = if output_of("git", &changed).is_empty() {
        ""
    } else {
        "-dirty"
    };
    revision + suffix
}

/// The machine: processors, memory, system.
fn machine() -> String {
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.split_once(':'));
        line.map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let memory = field("/proc/meminfo", "MemTotal");
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    format!(
        "{} processors of {}, {} GiB, Linux {}",
        std::thread::available_parallelism().map_or(1, usize::from),
        field("/proc/cpuinfo", "model name"),
        kib >> 20,
        output_of("uname", &["-r"])
    )
}

impl Results {
    /// Stores figures of tables of so many rows in a file of this name, if `BEDLOAD_PG_RESULTS` is
    /// a directory; `command` repeats them.
    pub(crate) fn open(name: &str, rows: u64, command: &str) -> Self {
        let file = std::env::var_os("BEDLOAD_PG_RESULTS").map(|directory| {
            let path = PathBuf::from(directory).join(format!("{name}.jsonl"));
            let mut file = File::create(path).expect("a file of results");
            let note = std::env::var("BEDLOAD_PG_NOTE").unwrap_or_default();
            let origin = format!(
                r#"{{"command":"{command}","date":"{}","commit":"{}","machine":"{}","note":"{note}"}}"#,
                output_of("date", &["-u", "+%Y-%m-%d %H:%M"]),
                commit(),
                machine(),
            );
            writeln!(file, "{origin}").expect("written");
            file
        });
        Self { file, rows }
    }

    /// Adds the median of some rounds: of an even number, the mean of the middle two.
    pub(crate) fn add(&mut self, figure: Figure<'_>, mut rounds: Vec<f64>) {
        rounds.sort_by(f64::total_cmp);
        let last = rounds.len() - 1;
        let median = f64::midpoint(rounds[last / 2], rounds[last.div_ceil(2)]);
        let (min, max) = (rounds[0], rounds[last]);
        let Figure {
            subject,
            setting,
            metric,
            unit,
        } = figure;
        println!("{subject:9} {setting:24} {metric:34} {median:12.2} {unit} ({min:.2} to {max:.2})");
        if let Some(file) = &mut self.file {
            let line = format!(
                r#"{{"subject":"{subject}","metric":"{metric}","unit":"{unit}","median":{median},"min":{min},"max":{max},"rounds":{},"params":{{"degree":"{setting}","rows":"{}"}}}}"#,
                rounds.len(),
                self.rows,
            );
            writeln!(file, "{line}").expect("written");
        }
    }
}
