//! How many commits of a single row a disk takes, each durable when it returns, from ever more
//! threads: commits that run at the same time share a sync.
//!
//! ```sh
//! cargo run --release -p bedload --example durable_commits -- DIRECTORY
//! ```
//!
//! The directory must be on the disk to be measured. Rounds are interleaved, and medians printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Result, Store, TableSchema};

const THREADS: [i64; 4] = [1, 2, 4, 16];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mut rates = vec![Vec::new(); THREADS.len()];
    for round in 0..ROUNDS {
        for (rates, threads) in rates.iter_mut().zip(THREADS) {
            let path = dir.join(format!(
                "durable-commits-{}-{round}-{threads}",
                std::process::id()
            ));
            rates.push(rate(&path, threads)?);
            std::fs::remove_dir_all(&path).map_err(|source| bedload::Error::Io {
                path,
                action: "remove",
                source,
            })?;
        }
    }
    let medians = rates.into_iter().map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[ROUNDS / 2]
    });
    let mut one = None;
    for (median, threads) in medians.zip(THREADS) {
        let ratio = median / *one.get_or_insert(median);
        println!("{threads:2} threads {median:9.0} commits/s {ratio:6.1} times those of one");
    }
    Ok(())
}

/// Commits a second to a new store, all of which are found in it afterwards.
fn rate(path: &Path, threads: i64) -> Result<f64> {
    let columns = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("value", DataType::Int64, false),
    ]));
    let store = Store::create(path)?;
    let table = store.create_table("t", TableSchema::new(columns.clone(), "at")?)?;
    let committed = AtomicI64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let commit = |thread: i64| -> Result<()> {
            for row in 0.. {
                let row = RecordBatch::try_new(
                    columns.clone(),
                    vec![
                        Arc::new(TimestampMillisecondArray::from(vec![row])),
                        Arc::new(Int64Array::from(vec![thread])),
                    ],
                )
                .expect("columns of one length");
                table.append(&row)?;
                committed.fetch_add(1, Ordering::Relaxed);
                if start.elapsed() >= ROUND {
                    break;
                }
            }
            Ok(())
        };
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || commit(thread)))
            .collect();
        handles
            .into_iter()
            .try_for_each(|handle| handle.join().expect("no thread panics"))
    })?;
    let rate = committed.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    drop((table, store));
    let found = Store::open(path)?.table("t")?.range(..)?.count()?;
    assert_eq!(
        found,
        committed.load(Ordering::Relaxed).unsigned_abs(),
        "every commit is there"
    );
    Ok(rate)
}
