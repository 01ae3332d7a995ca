//! DuckDB over the same rows, through its Python package.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Fills a database and answers queries: a list of rows for each.
const PROGRAM: &str = "
import datetime, json, re, sys
import duckdb

def plain(value):
    if isinstance(value, datetime.datetime):
        return {'micros': (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)}
    return value

def quoted(query):
    # The name is a keyword there.
    return re.sub(r'\\bat\\b', '\"at\"', query)

given = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute(quoted(given['setup']))
for query in given['queries']:
    rows = connection.execute(quoted(query)).fetchall()
    print(json.dumps([[plain(value) for value in row] for row in rows]))
";

/// The rows of each query.
///
/// # Panics
///
/// `BEDLOAD_DUCKDB` does not name a Python that has the package `duckdb`.
pub(crate) fn answers(setup: &str, queries: &[String]) -> Vec<Vec<Value>> {
    let python = std::env::var_os("BEDLOAD_DUCKDB")
        .expect("BEDLOAD_DUCKDB names a Python with the package duckdb: `make sql-test` sets it");
    let mut child = Command::new(&python)
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let given = json!({ "setup": setup, "queries": queries }).to_string();
    let feeder = std::thread::spawn(move || input.write_all(given.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
