//! The command: a CSV file in, a Parquet file out, and what a store has, beside DuckDB.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::arrival::{Arrival, Input};
use super::case::Case;
use super::process::disk_bytes;
use super::waits::milliseconds;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};
use crate::subjects::tables::{Checksum, Readings, TABLE_BASELINE, duckdb_python};

/// The program of the command, beside that of the benchmarks.
const PROGRAM: &str = "bedload-bench-command";

/// The columns of the file, for the command and for DuckDB.
const SCHEMA: &str =
    "at:timestamp(us),sensor:int32,celsius:float64,pressure:float64,humidity:float64,state:utf8";
const SCHEMA_SQL: &str = "{'at': 'TIMESTAMP', 'sensor': 'INTEGER', 'celsius': 'DOUBLE', 'pressure': 'DOUBLE', \
                          'humidity': 'DOUBLE', 'state': 'VARCHAR'}";

/// Runs of a command that takes milliseconds; their median counts.
const SHORT_RUNS: usize = 9;

/// Files of a turn.
struct Files<'f> {
    csv: &'f Path,
    store: &'f Path,
    parquet: &'f Path,
}

type Measure = fn(&Plan, &Files<'_>) -> Vec<Figure>;

fn entrants() -> Vec<Entrant<Measure>> {
    let ours = Entrant::ours(TABLE_BASELINE, bedload as Measure);
    let peer = Entrant {
        name: "duckdb",
        is_peer: true,
        make: duckdb as Measure,
    };
    let is_there = duckdb_python().is_some();
    [ours].into_iter().chain(is_there.then_some(peer)).collect()
}

/// Returns the names of the programs that can run here.
pub(super) fn subjects() -> Vec<&'static str> {
    entrants().iter().map(|entrant| entrant.name).collect()
}

/// Measures reading a CSV file into a store, and writing the store as a Parquet file.
pub(super) fn command(plan: &Plan) -> Vec<Record> {
    let rows = plan.entries_of(2_000_000, 10_000_000);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let csv = dir.path().join("readings.csv");
    let input = Case::new(Arrival::SecondLate).input(rows, 0);
    let expected = write_csv(&csv, &input);
    let trial = Trial::new("table-command", TABLE_BASELINE, plan)
        .param("degree", input.arrival)
        .param("rows", rows);
    trial.run_each(&entrants(), |entrant, _| {
        let of_turn = tempfile::tempdir().expect("a temporary directory");
        let (store, parquet) = (of_turn.path().join("store"), of_turn.path().join("rows.parquet"));
        let files = Files {
            csv: &csv,
            store: &store,
            parquet: &parquet,
        };
        let measured = entrant.unless_it_panics(|| (entrant.make)(plan, &files));
        if measured.is_some() {
            assert_eq!(
                rows_of(&parquet),
                expected,
                "{}: the rows of the file",
                entrant.name
            );
        }
        measured.unwrap_or_default()
    })
}

/// Writes rows as CSV; returns their expected checksum.
fn write_csv(path: &Path, input: &Input) -> Checksum {
    let mut file = BufWriter::new(File::create(path).expect("creates"));
    writeln!(file, "at,sensor,celsius,pressure,humidity,state").expect("writes");
    let mut sum = Checksum::default();
    let rows = 65_536;
    for (number, times) in input.times().chunks(rows).enumerate() {
        let readings = Readings::new(number * rows, times);
        readings.write_csv(&mut file, |time| {
            // With as many digits each, as DuckDB takes one format for all.
            let (second, part) = (time.div_euclid(1_000_000), time.rem_euclid(1_000_000));
            let second = timestamp_s_to_datetime(second).expect("a time of this century");
            format!("{second}.{part:06}")
        });
        sum.add(readings.batch());
    }
    file.flush().expect("writes");
    sum
}

/// Returns the rows of a Parquet file.
fn rows_of(parquet: &Path) -> Checksum {
    let file = File::open(parquet).expect("opens");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let mut sum = Checksum::default();
    for batch in reader.build().expect("reads") {
        sum.add(&batch.expect("reads"));
    }
    sum
}

fn run(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let output = command.output().expect("the program starts");
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    took
}

fn bytes(path: &Path) -> u64 {
    match fs::metadata(path) {
        Ok(kind) if kind.is_dir() => disk_bytes(path),
        Ok(kind) => kind.len(),
        Err(_) => 0,
    }
}

fn figures(importing: Duration, exporting: Duration, files: &Files<'_>) -> Vec<Figure> {
    vec![
        Figure::new("CSV into a store", "ms", milliseconds(importing)),
        Figure::new("the store into Parquet", "ms", milliseconds(exporting)),
        Figure::new("the store", "MiB", bytes(files.store) as f64 / f64::from(1 << 20)),
        Figure::new(
            "the Parquet file",
            "MiB",
            bytes(files.parquet) as f64 / f64::from(1 << 20),
        ),
    ]
}

fn bedload(plan: &Plan, files: &Files<'_>) -> Vec<Figure> {
    let command = || Command::new(plan.command().with_file_name(PROGRAM));
    let mut ingest = command();
    ingest
        .arg("ingest")
        .arg(files.store)
        .arg("readings")
        .arg(files.csv);
    let importing = run(ingest.args(["--time", "at", "--schema", SCHEMA]));
    let mut query = command();
    query.arg("query").arg(files.store).arg("readings");
    let exporting = run(query.args(["--format", "parquet", "--output"]).arg(files.parquet));
    let mut infos: Vec<Duration> = (0..plan.tiny_or(1, SHORT_RUNS))
        .map(|_| run(command().arg("info").arg(files.store)))
        .collect();
    infos.sort_unstable();
    let info = Figure::new("info", "ms", milliseconds(infos[infos.len() / 2]));
    let mut figures = figures(importing, exporting, files);
    figures.push(info);
    figures
}

/// Prints how long DuckDB takes for a statement and for closing the database, which writes it out;
/// the start of Python does not count.
const SCRIPT: &str = "
import sys, time, duckdb
path, sql = sys.argv[1:]
begun = time.perf_counter()
database = duckdb.connect(path)
database.execute('SET enable_progress_bar = false')
database.execute(sql)
database.close()
print(time.perf_counter() - begun)
";

fn duckdb(_: &Plan, files: &Files<'_>) -> Vec<Figure> {
    let perform = |sql: String| {
        let python = duckdb_python().expect("it is listed because it is there");
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).arg(files.store).arg(&sql);
        let output = command.output().expect("Python starts");
        let [said, wrong] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let seconds = said.trim().parse();
        Duration::from_secs_f64(seconds.unwrap_or_else(|_| panic!("DuckDB failed at {sql}: {said}{wrong}")))
    };
    let (csv, parquet) = (files.csv.display(), files.parquet.display());
    let importing = perform(format!(
        "CREATE TABLE readings AS SELECT * FROM read_csv('{csv}', header = true, columns = {SCHEMA_SQL})"
    ));
    let exporting = perform(format!("COPY readings TO '{parquet}' (FORMAT parquet)"));
    figures(importing, exporting, files)
}
