//! Times an append of a long Arrow batch and scans of all its rows, for
//! `crates/python/bench/copies.py`, which times the same calls from Python.
//!
//! `copies DIRECTORY ROWS` writes a store into an empty directory, and prints milliseconds as JSON.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Store, TableSchema};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(rows)) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        return Err("usage: copies DIRECTORY ROWS".into());
    };
    let batch = batch(rows.parse()?)?;
    let store = Store::create(path.join("rust"))?;
    let table = store.create_table("t", TableSchema::new(batch.schema(), "at")?)?;
    let append = milliseconds(|| table.append(&batch).map(drop))?;
    store.flush()?;
    let (mut dropped, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        dropped.push(milliseconds(|| {
            table.range(..)?.try_for_each(|batch| batch.map(drop))
        })?);
        kept.push(milliseconds(|| {
            table.range(..)?.collect::<Result<Vec<_>, _>>().map(drop)
        })?);
    }
    println!("{{\"append\": {append}, \"scan\": {dropped:?}, \"scan, kept\": {kept:?}}}");
    store.close()?;
    Ok(())
}

/// Rows every 10 ms, each up to a second late, of 1,024 sensors.
fn batch(rows: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let late = |random: u64| i64::try_from(random % 1000);
    let times = (0..rows).map(|row| late(random()).map(|late| row * 10 - late));
    let times = times.collect::<Result<Vec<i64>, _>>()?;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are as many as a float has")]
    let values = (0..rows).map(|_| random() as f64 / (1_u64 << 53) as f64);
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false);
    let columns = vec![
        at,
        Field::new("sensor", DataType::Int64, true),
        Field::new("value", DataType::Float64, true),
    ];
    let values: Vec<f64> = values.collect();
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(columns)),
        vec![
            Arc::new(TimestampMillisecondArray::from(times)),
            Arc::new((0..rows).map(|row| row % 1024).collect::<Int64Array>()),
            Arc::new(Float64Array::from(values)),
        ],
    )?)
}

fn milliseconds<E>(call: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let begun = Instant::now();
    call()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
