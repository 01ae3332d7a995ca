//! The program, as `bedload sql` runs it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use bedload::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampSecondArray};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Store, TableSchema};
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

#[test]
fn a_query_comes_from_standard_input_and_its_answer_goes_to_a_file() {
    let place = Place::new();
    let mut child = place
        .command(&["store", "-", "--format", "csv", "--output", "answer.csv"])
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
    let tables = place.answer(&["store", "SHOW TABLES", "--format", "csv"]);
    assert!(tables.contains("store,tables,readings,BASE TABLE\n"), "{tables}");
    let columns = place.answer(&["store", "DESCRIBE readings", "--format", "csv"]);
    assert!(columns.contains("celsius,Float64,YES\n"), "{columns}");
    let plan = place.answer(&[
        "store",
        "EXPLAIN SELECT at FROM readings ORDER BY at DESC LIMIT 1",
    ]);
    assert!(plan.contains("BedloadExec"), "{plan}");
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
    assert!(error.contains("yesterday"), "{error}");
    place.failure(2, &["store"]);
    place.failure(2, &["store", "SELECT 1", "--format", "xml"]);
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
    let names = std::fs::read_dir(place.dir.path()).unwrap();
    assert_eq!(names.count(), 1);
    assert!(
        place
            .answer(&["store", "SELECT count(*) FROM readings", "--format", "csv"])
            .ends_with("\n3\n")
    );
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
