//! A directory of its own for each test, and the command run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// A directory in which the command runs.
pub(crate) struct Place {
    dir: TempDir,
}

/// The outcome of a run of the command.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    /// A directory within `dir`.
    pub(crate) fn within(dir: &Path) -> Self {
        Self {
            dir: TempDir::new_in(dir).unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn write_gzip(&self, name: &str, contents: impl AsRef<[u8]>) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(contents.as_ref()).unwrap();
        self.write(name, encoder.finish().unwrap());
    }

    /// The command with arguments separated by blanks, to be run in this directory.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        self.command_of(&arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn command_of(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bedload"));
        command
            .current_dir(self.dir.path())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Outcome {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn run_with(&self, arguments: &[&str]) -> Outcome {
        self.command_of(arguments).output().unwrap().into()
    }

    /// Runs the command with at most so much address space.
    pub(crate) fn run_within(&self, kibibytes: u32, arguments: &[&str]) -> Outcome {
        let command = self.command_of(arguments);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh"])
            .arg(kibibytes.to_string())
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(self.dir.path());
        limited.output().unwrap().into()
    }

    /// Runs the command with `input` on its standard input.
    pub(crate) fn run_fed(&self, arguments: &str, input: &[u8]) -> Outcome {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The command may end before it has read everything.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let outcome = child.wait_with_output().unwrap().into();
        feeder.join().unwrap();
        outcome
    }

    /// Returns what the command prints; it must succeed.
    pub(crate) fn output(&self, arguments: &str) -> String {
        self.run(arguments).succeeds()
    }

    /// Returns what the command prints, as JSON.
    pub(crate) fn json(&self, arguments: &str) -> serde_json::Value {
        serde_json::from_str(&self.output(arguments)).unwrap()
    }

    /// All that can be read from a store: its description, and the rows of its tables. `None` if
    /// there is nothing.
    pub(crate) fn contents(&self, store: &str) -> Option<String> {
        if !self.path(store).exists() {
            return None;
        }
        let info = self.json(&format!("info {store} --json"));
        let mut contents = String::new();
        for table in info["tables"].as_array().unwrap() {
            let name = table["name"].as_str().unwrap();
            let columns = &table["columns"];
            let query = ["query", store, name, "--format", "csv", "--null", "NULL"];
            let rows = self.run_with(&query).succeeds();
            contents += &format!("{name} {columns} {}\n{rows}", table["rows"]);
        }
        Some(contents)
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Outcome {
    /// The output of a run that went well.
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// The message of a run that failed with this exit code: a single line.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        let line = self.stderr.strip_suffix('\n').unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        line.strip_prefix("bedload: ").unwrap().to_owned()
    }
}

/// The departures that come with the project.
pub(crate) fn flights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/flights.csv.gz")
}

/// The lines of the departures, without the header.
pub(crate) fn flight_lines() -> Vec<String> {
    let mut text = String::new();
    let file = std::fs::File::open(flights()).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Rows `t,n` whose times are nearly in order, `rows` of them, with a header.
pub(crate) fn near_sorted_csv(rows: u64) -> String {
    let mut text = "t,n\n".to_owned();
    for i in 0..rows {
        // A delay that repeats with a period that no batch has.
        text += &format!("{},{i}\n", 1_000_000 + i + (i * i) % 37);
    }
    text
}
