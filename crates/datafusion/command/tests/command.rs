//! The program, as `bedload sql` runs it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bedload::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampSecondArray};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Store, TableSchema};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A store with a table of readings, which the test goes on writing to.
struct Place {
    dir: TempDir,
    _writer: Store,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = Store::create(dir.path().join("store")).unwrap();
        let zoned = DataType::Timestamp(TimeUnit::Second, Some("America/New_York".into()));
        let columns = Arc::new(Schema::new(vec![
            Field::new("at", zoned, false),
            Field::new("sensor", DataType::Utf8, true),
            Field::new("celsius", DataType::Float64, true),
        ]));
        let schema = TableSchema::new(columns.clone(), "at").unwrap();
        let table = store.create_table("readings", schema).unwrap();
        let at = TimestampSecondArray::from(vec![1_360_344_600, 1_360_344_700, 1_360_344_650]);
        let values: Vec<ArrayRef> = vec![
            Arc::new(at.with_timezone("America/New_York")),
            Arc::new(StringArray::from(vec!["a", "b", "a"])),
            Arc::new(Float64Array::from(vec![Some(20.5), None, Some(21.0)])),
        ];
        table
            .append(&RecordBatch::try_new(columns, values).unwrap())
            .unwrap();
        Self { dir, _writer: store }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bedload-sql"));
        command
            .current_dir(self.dir.path())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names in the folder in which the program runs.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The line with which the program fails.
    #[track_caller]
    fn failure(&self, code: i32, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(arguments).output().unwrap();
        let error = String::from_utf8(stderr).unwrap();
        assert_eq!(
            status.code(),
            Some(code),
            "{}{error}",
            String::from_utf8_lossy(&stdout)
        );
        assert_eq!(error.lines().count(), 1, "{error}");
        error.strip_prefix("bedload: ").unwrap().to_owned()
    }
}

#[test]
fn answers_come_in_each_format() {
    let place = Place::new();
    let query = "SELECT at, sensor, celsius FROM readings WHERE at >= '2013-02-08 12:30:50' ORDER BY at DESC";
    assert_eq!(
        place.answer(&["store", query]),
        "at                         sensor  celsius\n\
         -------------------------  ------  -------\n\
         2013-02-08T12:31:40-05:00  b\n\
         2013-02-08T12:30:50-05:00  a          21.0\n\
         (2 rows)\n"
    );
    assert_eq!(
        place.answer(&["store", query, "--format", "csv", "--null", "?"]),
        "at,sensor,celsius\n2013-02-08T12:31:40-05:00,b,?\n2013-02-08T12:30:50-05:00,a,21.0\n"
    );
    let query = "SELECT sensor, avg(celsius) AS mean FROM readings GROUP BY sensor ORDER BY sensor";
    assert_eq!(
        place.answer(&["store", query, "--format", "json"]),
        "{\"sensor\":\"a\",\"mean\":20.75}\n{\"sensor\":\"b\",\"mean\":null}\n"
    );
    let nothing = "SELECT sensor FROM readings WHERE at < '2000-01-01'";
    assert_eq!(place.answer(&["store", nothing, "--format", "csv"]), "sensor\n");
}

/// The times of the table have a zone, and so have the instants: none is read off its clocks.
#[test]
fn instants_are_compared_with_times_of_a_zone() {
    let place = Place::new();
    for instant in [
        "TIMESTAMPTZ '2013-02-08 17:30:50Z'",
        "TIMESTAMP WITH TIME ZONE '2013-02-08T19:30:50+02:00'",
        "'2013-02-08T17:30:50Z'::timestamptz",
        "TIMESTAMPTZ '2013-02-08 17:30:50'",
        "'2013-02-08T17:30:50Z'",
        "to_timestamp_seconds(1360344650)",
        "to_timestamp('2013-02-08T17:30:50Z')",
    ] {
        for (operator, count) in [(">", 1), (">=", 2), ("<", 1)] {
            let query = format!("SELECT count(*) AS n FROM readings WHERE at {operator} {instant}");
            let answer = place.answer(&["store", &query, "--format", "csv"]);
            assert_eq!(answer, format!("n\n{count}\n"), "{query}");
        }
        let query = format!("EXPLAIN SELECT sensor FROM readings WHERE at >= {instant}");
        let plan = place.answer(&["store", &query, "--format", "csv"]);
        assert!(plan.contains("times=1360344650.."), "{plan}");
    }
    let query = "SELECT arrow_typeof(now()) = arrow_typeof(TIMESTAMPTZ '2013-02-08T00:00:00Z') AS same";
    assert_eq!(place.answer(&["store", query, "--format", "csv"]), "same\ntrue\n");
}

#[test]
fn a_query_comes_from_standard_input_and_its_answer_goes_to_a_file() {
    let place = Place::new();
    let mut child = place
        .command(&["store", "-", "--output", "answer.csv"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"SELECT count(*) AS n\nFROM readings").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(
        std::fs::read_to_string(place.dir.path().join("answer.csv")).unwrap(),
        "n\n3\n"
    );
}

#[test]
fn tables_and_plans_can_be_shown() {
    let place = Place::new();
    for query in ["SHOW TABLES", " show  tables ; "] {
        let tables = place.answer(&["store", query, "--format", "csv"]);
        assert_eq!(tables, "table_name\nreadings\n");
    }
    let columns = place.answer(&["store", "DESCRIBE readings", "--format", "csv"]);
    assert!(columns.contains("celsius,Float64,YES\n"), "{columns}");
    for explain in ["EXPLAIN", "EXPLAIN FORMAT INDENT"] {
        let query = format!("{explain} SELECT at FROM readings ORDER BY at DESC LIMIT 1");
        let plan = place.answer(&["store", &query]);
        let lines: Vec<&str> = plan.lines().collect();
        let scan = lines.iter().filter(|line| line.contains("BedloadExec")).count();
        assert!(scan == 1 && lines.len() > 4, "{plan}");
        assert!(!plan.contains("\\n"), "{plan}");
    }
}

#[test]
fn errors_are_one_line_with_the_exit_code_of_the_command() {
    let place = Place::new();
    let error = place.failure(1, &["store", "SELECT 1 FROM alarms"]);
    assert!(error.contains("alarms' not found"), "{error}");
    let error = place.failure(1, &["store", "SELECT temperature FROM readings"]);
    assert!(error.contains("temperature"), "{error}");
    let error = place.failure(1, &["store", "SELEKT"]);
    assert!(error.contains("SELEKT"), "{error}");
    let error = place.failure(1, &["store", "SELECT at FROM readings WHERE at > 'yesterday'"]);
    assert!(
        error.contains("yesterday") && !error.contains("Optimizer"),
        "{error}"
    );
    place.failure(2, &["store"]);
    place.failure(2, &["store", "SELECT 1", "--format", "xml"]);
    place.failure(2, &["store", "SELECT 1", "--output", "answer.parquet"]);
    place.failure(6, &["elsewhere", "SELECT 1"]);
    place.failure(5, &["store", "SELECT 1", "--output", "no/such/folder"]);
}

/// The store is open for reading alone, and files beside it are not touched.
#[test]
fn statements_that_change_something_are_refused() {
    let place = Place::new();
    for statement in [
        "INSERT INTO readings VALUES (now(), 'c', 1)",
        "DELETE FROM readings",
        "DROP TABLE readings",
        "CREATE TABLE other AS SELECT * FROM readings",
        "COPY readings TO 'copy.csv'",
        "SET datafusion.execution.batch_size = 1",
    ] {
        place.failure(1, &["store", statement]);
    }
    assert_eq!(place.names(), ["store"]);
    assert!(
        place
            .answer(&["store", "SELECT count(*) FROM readings", "--format", "csv"])
            .ends_with("\n3\n")
    );
}

/// Objects cannot have a name twice.
#[test]
fn columns_of_one_name_are_refused_in_json() {
    let place = Place::new();
    let query = "SELECT x.at, y.at FROM readings x JOIN readings y ON x.at = y.at";
    for more in [&[][..], &["--output", "answer.json"]] {
        let arguments = [&["store", query, "--format", "json"], more].concat();
        let error = place.failure(1, &arguments);
        assert_eq!(
            error,
            "two columns of the answer have the name at; name the columns with AS\n"
        );
    }
    assert_eq!(place.names(), ["store"]);
    let named = query.replacen("y.at", "y.at AS other", 1);
    let answer = place.answer(&["store", &named, "--format", "json"]);
    assert_eq!(answer.lines().count(), 3);
    assert!(
        answer.starts_with("{\"at\":\"2013-02-08T12:30:00-05:00\",\"other\":"),
        "{answer}"
    );
    // Other formats have a place for each column.
    let csv = place.answer(&["store", query, "--format", "csv"]);
    assert!(csv.starts_with("at,at\n"), "{csv}");
}

/// The files to which it spills have no names.
#[test]
fn a_long_chain_of_conditions_is_answered() {
    let place = Place::new();
    let condition = |value| format!("celsius <> {}", 100 + value);
    let conditions: Vec<String> = (0..2_000).map(condition).collect();
    let query = format!(
        "SELECT count(*) AS n FROM readings WHERE {}",
        conditions.join(" AND ")
    );
    assert_eq!(place.answer(&["store", &query, "--format", "csv"]), "n\n2\n");
}

#[test]
fn a_sort_beyond_the_limit_of_memory_spills() {
    let place = Place::new();
    std::fs::create_dir(place.dir.path().join("spilled")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let output = command.env("TMPDIR", "spilled").output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            output.stderr,
        )
    };
    // About 30 MB.
    let rows =
        "SELECT value, lpad(reverse(CAST(value AS TEXT)), 60, 'x') AS text FROM generate_series(1, 300000)";
    let sorted = format!("SELECT text FROM ({rows}) ORDER BY text");
    let (_, whole, _) = run(&["store", &sorted, "--format", "csv"]);
    let (code, spilled, error) = run(&["store", &sorted, "--format", "csv", "--memory", "8M"]);
    assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&error));
    assert_eq!(whole.lines().count(), 300_001);
    assert!(whole == spilled);
    let explained = format!("EXPLAIN ANALYZE {sorted}");
    let (_, plan, _) = run(&["store", &explained, "--format", "csv", "--memory", "8M"]);
    assert!(
        plan.contains("spill_count=") && !plan.contains("spill_count=0"),
        "{plan}"
    );
    assert_eq!(
        std::fs::read_dir(place.dir.path().join("spilled"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_query_that_cannot_spill_fails_at_the_limit_of_memory() {
    let place = Place::new();
    let rows =
        "(SELECT value, lpad(reverse(CAST(value AS TEXT)), 60, 'x') AS text FROM generate_series(1, 200000))";
    let query = format!("SELECT count(*) FROM {rows} x JOIN {rows} y ON x.text = y.text");
    let answer = place.answer(&["store", &query, "--format", "csv", "--memory", "1G"]);
    assert_eq!(answer, "count(*)\n200000\n");
    let error = place.failure(1, &["store", &query, "--memory", "1M"]);
    assert!(error.starts_with("Resources exhausted: "), "{error}");
    assert!(error.ends_with("; --memory allows more\n"), "{error}");
    place.failure(2, &["store", "SELECT 1", "--memory", "much"]);
}

/// A file to spill to cannot be created.
#[test]
fn a_failure_of_the_disk_is_one_of_the_system() {
    let place = Place::new();
    let query = "SELECT value FROM generate_series(1, 3000000) ORDER BY value % 1000";
    let mut command = place.command(&["store", query, "--memory", "8M"]);
    let output = command.env("TMPDIR", "nowhere").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert_eq!(error, "bedload: nowhere: no such file or directory\n");
}

/// A signal ends a query that writes and one that computes, and nothing is left of the file.
#[test]
fn a_signal_leaves_no_unfinished_file() {
    let place = Place::new();
    std::fs::write(place.dir.path().join("answer"), "of before").unwrap();
    let writes = "SELECT value FROM generate_series(1, 1000000000000)";
    let computes = "SELECT x.value FROM generate_series(1, 1000000) x, generate_series(1, 1000000) y \
                    WHERE x.value + y.value < 0";
    for query in [writes, computes] {
        for (signal, code, name) in [
            (Signal::INT, 130, "SIGINT"),
            (Signal::TERM, 143, "SIGTERM"),
            (Signal::HUP, 129, "SIGHUP"),
        ] {
            // The test may run where signals are ignored.
            let mut child = Command::new("env")
                .current_dir(place.dir.path())
                .args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_bedload-sql")])
                .args(["store", query, "--format", "csv", "--output", "answer"])
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            while !place.names().iter().any(|name| name.contains("unfinished")) {
                assert_eq!(child.try_wait().unwrap(), None, "{query}");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
            let began = Instant::now();
            while child.try_wait().unwrap().is_none() {
                if began.elapsed() > Duration::from_secs(60) {
                    child.kill().unwrap();
                    panic!("{name} does not end {query}");
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let output = child.wait_with_output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(error, format!("bedload: ended by {name}\n"), "{query}");
            assert_eq!(output.status.code(), Some(code), "{query}");
            assert_eq!(place.names(), ["answer", "store"], "{query}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(place.dir.path().join("answer")).unwrap(),
        "of before"
    );
}

/// Nothing is to be undone where the answer goes to a pipe: the first signal ends the wait for its
/// reader.
#[test]
fn a_signal_ends_the_wait_for_the_reader_of_a_pipe() {
    let place = Place::new();
    let pipe = place.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Command::new("env")
        .current_dir(place.dir.path())
        .args(["--default-signal=TERM", env!("CARGO_BIN_EXE_bedload-sql")])
        .args(["store", "SELECT value FROM generate_series(1, 1000000000000)"])
        .args(["--format", "csv", "--output", "pipe"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = std::fs::File::open(&pipe).unwrap();
    reader.read_exact(&mut [0]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.wait().unwrap().code(), None);
}

/// The end of a pipe that nobody reads any more is no failure.
#[test]
fn a_reader_that_has_enough_ends_the_answer() {
    let place = Place::new();
    let query = "SELECT x.at FROM readings x, readings y, readings z";
    let mut child = place
        .command(&["store", query])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
