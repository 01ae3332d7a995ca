//! DuckDB from its Python wheel, in its own process, served by a script (`duckdb.py`, which
//! documents its settings).
//!
//! Rows and answers pass through a socket as Arrow; only DuckDB's own time counts. It has no
//! relaxed durability. It needs a Python with `duckdb` and `pyarrow`: `target/bench-python`, or the
//! one that `BEDLOAD_BENCH_PYTHON` names:
//!
//! ```sh
//! python3 -m venv target/bench-python && target/bench-python/bin/pip install duckdb pyarrow
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::contract::leave_out;
use super::readings::{Checksum, Readings, RowId, schema};
use super::{TableOptions, TableStore};

pub(super) const NAME: &str = "duckdb";
const SCRIPT: &str = include_str!("duckdb.py");
/// With less memory, DuckDB fails on more rows than fit in it.
const MEMORY_BYTES_MIN: usize = 256 << 20;

fn python() -> PathBuf {
    let of_repository = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/bench-python/bin/python"
    );
    std::env::var_os("BEDLOAD_BENCH_PYTHON").map_or_else(|| of_repository.into(), PathBuf::from)
}

/// Returns a Python with DuckDB, if there is one.
pub(crate) fn duckdb_python() -> Option<PathBuf> {
    is_there().then(python)
}

/// Returns whether a Python with DuckDB exists; reports it if not.
pub(super) fn is_there() -> bool {
    static IS_THERE: LazyLock<bool> = LazyLock::new(|| {
        let python = python();
        let import = Command::new(&python)
            .args(["-c", "import duckdb, pyarrow"])
            .output();
        let is_there = import.is_ok_and(|output| output.status.success());
        if !is_there {
            eprintln!(
                "duckdb is left out: {} has no duckdb and pyarrow; install them there, or name another in \
                 BEDLOAD_BENCH_PYTHON",
                python.display()
            );
        }
        is_there
    });
    *IS_THERE
}

struct DuckDb {
    server: Child,
    socket: PathBuf,
    idle: Mutex<Vec<BufReader<UnixStream>>>,
}

#[derive(Deserialize)]
struct Reply {
    seconds: f64,
    bytes: Option<usize>,
    number: Option<u64>,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let begun = Instant::now();
    let socket = dir.join("duckdb.socket");
    // A killed process leaves its socket.
    let _ = std::fs::remove_file(&socket);
    let memory_bytes = (options.cache_bytes + options.buffer_bytes).max(MEMORY_BYTES_MIN);
    let mut server = Command::new(python())
        .args(["-c", SCRIPT])
        .args([socket.as_os_str(), dir.join("duckdb").as_os_str()])
        .arg(memory_bytes.to_string())
        .arg(if options.has_key { "key" } else { "none" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut ready = String::new();
    let said = server.stdout.as_mut().expect("piped");
    BufReader::new(said).read_line(&mut ready).expect("reads");
    let seconds = ready
        .trim()
        .strip_prefix("ready ")
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_else(|| panic!("the script of DuckDB says {ready:?}"));
    // The start of Python and its imports are not DuckDB's.
    leave_out(begun.elapsed().saturating_sub(Duration::from_secs_f64(seconds)));
    Box::new(DuckDb {
        server,
        socket,
        idle: Mutex::default(),
    })
}

impl DuckDb {
    fn ask(&self, mut request: Value, rows: Option<&RecordBatch>) -> (Reply, Vec<RecordBatch>) {
        let begun = Instant::now();
        let idle = self.idle.lock().pop();
        let mut connection = idle.unwrap_or_else(|| {
            BufReader::new(UnixStream::connect(&self.socket).expect("the script listens"))
        });
        let mut stream = Vec::new();
        if let Some(rows) = rows {
            let mut writer = StreamWriter::try_new(&mut stream, &schema()).expect("begins");
            writer.write(rows).expect("writes");
            writer.finish().expect("ends");
            drop(writer);
            request["bytes"] = stream.len().into();
        }
        let mut sent = request.to_string().into_bytes();
        sent.push(b'\n');
        sent.append(&mut stream);
        connection.get_mut().write_all(&sent).expect("the script listens");
        let mut line = String::new();
        connection.read_line(&mut line).expect("the script answers");
        let reply: Reply =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("DuckDB failed at {request}: {error}"));
        let mut found = vec![0; reply.bytes.unwrap_or(0)];
        connection.read_exact(&mut found).expect("the script answers");
        self.idle.lock().push(connection);
        let batches = if found.is_empty() {
            Vec::new()
        } else {
            let reader = StreamReader::try_new(&*found, None).expect("begins");
            reader.map(|batch| batch.expect("reads")).collect()
        };
        leave_out(
            begun
                .elapsed()
                .saturating_sub(Duration::from_secs_f64(reply.seconds)),
        );
        (reply, batches)
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // The server ends at the end of its input.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

impl TableStore for DuckDb {
    fn append(&self, rows: &Readings) {
        self.ask(json!({"do": "append"}), Some(rows.batch()));
    }

    fn flush(&self) {
        self.ask(json!({"do": "flush"}), None);
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let request = if (from, to) == (i64::MIN, i64::MAX) {
            json!({"do": "all"})
        } else {
            json!({"do": "range", "from": from, "to": to})
        };
        self.ask(request, None).1.iter().for_each(show);
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let (_, batches) = self.ask(json!({"do": "point", "time": row.time}), None);
        let mut checksum = Checksum::default();
        batches.iter().for_each(|batch| checksum.add(batch));
        (checksum.rows > 0).then_some(checksum.sum)
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        let request = json!({"do": "newest", "rows": rows});
        self.ask(request, None).1.iter().for_each(show);
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let request = match times {
            None => json!({"do": "count"}),
            Some((from, to)) => json!({"do": "count between", "from": from, "to": to}),
        };
        self.ask(request, None).0.number.expect("a count is a number")
    }

    fn cold(&self, celsius: f64, show: &mut dyn FnMut(&RecordBatch)) {
        let request = json!({"do": "cold", "celsius": celsius});
        self.ask(request, None).1.iter().for_each(show);
    }

    fn delete(&self, from: i64, to: i64) {
        // The least time that DuckDB has is greater than that of 64 bits.
        let request = if from == i64::MIN {
            json!({"do": "delete before", "time": to})
        } else {
            json!({"do": "delete", "from": from, "to": to})
        };
        self.ask(request, None);
    }

    fn reclaim(&self) {
        self.ask(json!({"do": "reclaim"}), None);
    }

    fn process(&self) -> u32 {
        self.server.id()
    }
}
