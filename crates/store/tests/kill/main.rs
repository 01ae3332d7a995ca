//! The real process, killed.
//!
//! This binary is its own victim: started with `writers PATH` it opens a store and writes from four
//! threads, telling each commit on its standard output; started by `cargo test` it starts such
//! processes, kills them with SIGKILL at random moments, opens what they leave, and looks for every
//! commit they told. `BEDLOAD_KILL_ROUNDS` sets how often.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Options, Store, TableSchema};
use bedload_testkit::Rng;

const WRITERS: usize = 4;
const ROUNDS: u64 = 20;
/// Rows of a batch.
const ROWS: i64 = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, path] = &arguments[..]
        && mode == "writers"
    {
        return write(Path::new(path));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        println!("acknowledged_batches_survive_kill: test");
        return;
    }
    println!("\nrunning 1 test");
    let rounds = std::env::var("BEDLOAD_KILL_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let mut rng = Rng::new(1);
    let mut held = [0; WRITERS];
    for round in 0..rounds {
        let acknowledged = kill_one(&path, Duration::from_micros(rng.below(60_000)));
        check(&path, &acknowledged, &mut held).unwrap_or_else(|problem| panic!("round {round}: {problem}"));
    }
    println!(
        "{rounds} processes killed, {} batches held",
        held.iter().sum::<i64>()
    );
    println!("test acknowledged_batches_survive_kill ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("id", DataType::Int64, false),
    ]))
}

fn name(writer: usize) -> String {
    format!("writer {writer}")
}

/// The time of a row: a little out of order.
fn time(id: i64) -> i64 {
    id - id * 7 % 23
}

/// Writes until killed.
fn write(path: &Path) {
    // One thread that fails ends them all, which the parent sees.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let options = Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .cache_bytes(1 << 20);
    let store = options.open(path).expect("opens");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let schema = || TableSchema::new(columns(), "at").expect("storable");
            let table = match store.table(&name(writer)) {
                Ok(table) => table,
                Err(_) => store.create_table(&name(writer), schema()).expect("fresh"),
            };
            scope.spawn(move || {
                let rows = table.range(..).expect("there").count().expect("reads");
                let first = i64::try_from(rows).expect("few") / ROWS;
                for batch in first.. {
                    let ids = batch * ROWS..(batch + 1) * ROWS;
                    let batch_of_rows = RecordBatch::try_new(
                        columns(),
                        vec![
                            Arc::new(TimestampMicrosecondArray::from_iter_values(ids.clone().map(time))),
                            Arc::new(Int64Array::from_iter_values(ids)),
                        ],
                    );
                    table
                        .append(&batch_of_rows.expect("columns of one length"))
                        .expect("appends");
                    let line = format!("{writer} {batch}\n");
                    std::io::stdout()
                        .lock()
                        .write_all(line.as_bytes())
                        .expect("the parent reads");
                }
            });
        }
    });
}

/// Starts writers and kills them some time after their first commit; returns the number of batches
/// each told.
fn kill_one(path: &Path, after: Duration) -> [i64; WRITERS] {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .arg("writers")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut told = [0; WRITERS];
    let mut hear = |line: String| {
        let mut words = line.split(' ').map(|word| word.parse::<usize>());
        // The last line may be cut off by the death of its writer: it was not told.
        if let (Some(Ok(writer)), Some(Ok(batch))) = (words.next(), words.next()) {
            told[writer] = i64::try_from(batch).expect("few") + 1;
        }
    };
    hear(lines.next().expect("a commit").expect("text"));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        child.kill().expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
    });
    lines.map_while(Result::ok).for_each(hear);
    killer.join().expect("no panic");
    told
}

/// Opens the store: each table has whole batches without a gap, every one that was told, and all it
/// had before.
fn check(path: &Path, told: &[i64; WRITERS], held: &mut [i64; WRITERS]) -> Result<(), String> {
    let text = |error: bedload::Error| error.to_string();
    let store = Store::open(path).map_err(text)?;
    for writer in 0..WRITERS {
        let Ok(table) = store.table(&name(writer)) else {
            assert_eq!(
                told[writer].max(held[writer]),
                0,
                "a table that took commits is gone"
            );
            continue;
        };
        let mut ids = Vec::new();
        for batch in table.range(..).map_err(text)?.columns(&["id"]).map_err(text)? {
            ids.extend_from_slice(
                batch
                    .map_err(text)?
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values(),
            );
        }
        ids.sort_unstable();
        let rows = i64::try_from(ids.len()).expect("few");
        if !ids.iter().copied().eq(0..rows) || rows % ROWS != 0 {
            return Err(format!(
                "writer {writer}: {rows} rows are no whole batches without a gap"
            ));
        }
        if rows / ROWS < told[writer].max(held[writer]) {
            return Err(format!(
                "writer {writer}: {} batches, {} were told",
                rows / ROWS,
                told[writer]
            ));
        }
        held[writer] = rows / ROWS;
    }
    let report = store.verify().map_err(text)?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("{:?}", report.problems))
    }
}
