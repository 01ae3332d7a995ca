//! What a point read costs as a table grows, with as much of it read: narrow rows, a second and one number.
//!
//! The rows that are read stand in as many stretches of the same length whatever the size, evenly over the table: as
//! many blocks, or leaves, are in use in all sizes. What grows is what leads there.

use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Grid, Layout, Options, Table, TableSchema, Value};
use bedload_testkit::Rng;

use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};
use crate::stores::{BASELINE, CACHE_BYTES, Narrow};

/// Rows of a batch; enough for the pages to be written in order.
const BATCH: i64 = 1 << 20;
/// Where rows are read, and how many stand together there.
const STRETCHES: i64 = 40;
const STRETCH: i64 = 64;
/// Reads that are timed together.
const READS: usize = 200_000;

/// A store of seconds with a number each.
trait Growing {
    fn append(&mut self, seconds: Range<i64>);
    fn settle(&mut self);
    fn get(&self, second: i64) -> Option<f64>;
}

fn value_of(second: i64) -> f64 {
    second as f64 / 7.0
}

struct Ours {
    store: bedload::Store,
    table: Table,
}

fn ours(dir: &Path, layout: Layout) -> Box<dyn Growing> {
    let options = Options::new().create(true).cache_bytes(CACHE_BYTES);
    let store = options.open(dir.join("store")).expect("a fresh directory");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table_as("t", schema, layout).expect("fresh");
    Box::new(Ours { store, table })
}

fn columns() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("x", DataType::Float64, false),
    ]))
}

impl Growing for Ours {
    fn append(&mut self, seconds: Range<i64>) {
        let times = TimestampSecondArray::from_iter_values(seconds.clone());
        let values = Float64Array::from_iter_values(seconds.map(value_of));
        let batch = RecordBatch::try_new(columns(), vec![Arc::new(times), Arc::new(values)]);
        self.table.append(&batch.expect("fits")).expect("appends");
    }

    fn settle(&mut self) {
        self.store.flush().expect("flushes");
    }

    fn get(&self, second: i64) -> Option<f64> {
        match self.table.get(second).expect("reads")?.value(1) {
            Some(Value::Float(value)) => Some(value),
            other => panic!("a column of numbers has {other:?}"),
        }
    }
}

impl Growing for Narrow {
    fn append(&mut self, seconds: Range<i64>) {
        self.put(seconds.map(|second| (second, value_of(second).to_le_bytes())));
    }

    fn settle(&mut self) {}

    fn get(&self, second: i64) -> Option<f64> {
        Self::get(self, second).map(f64::from_le_bytes)
    }
}

type Make = fn(&Path) -> Box<dyn Growing>;

const ALL: [(&str, Make); 3] = [
    ("sparse", |dir| {
        ours(dir, Layout::Sparse(Grid::every(1).expect("positive")))
    }),
    ("indexed", |dir| ours(dir, Layout::Indexed)),
    (BASELINE, |dir| Box::new(Narrow::open(dir))),
];

/// The stores of this scenario.
pub(super) fn subjects() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// Tables of ten times as many rows each time, up to as many as are asked for: what reading a row costs, and how much
/// that is of what it was in the first.
pub(super) fn growth(plan: &Plan) -> Vec<Record> {
    let rows = i64::try_from(plan.entries_of(10_000_000, 100_000_000)).expect("fewer than 2^63");
    let first = rows.min(100_000);
    let sizes: Vec<i64> = std::iter::successors(Some(first), |size| Some(size * 10))
        .take_while(|&size| size <= rows)
        .collect();
    let mut samples = Samples::new();
    for round in 0..plan.rounds() {
        for (name, make) in ALL.iter().filter(|(name, _)| plan.takes(name, BASELINE)) {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let mut store = make(dir.path());
            let mut rng = Rng::new(round as u64);
            let (mut figures, mut loaded) = (Vec::new(), 0);
            for &size in &sizes {
                while loaded < size {
                    let end = size.min(loaded + BATCH);
                    store.append(loaded..end);
                    loaded = end;
                }
                store.settle();
                let nanoseconds = read(store.as_ref(), size, &mut rng);
                let of_first = figures
                    .first()
                    .map_or(nanoseconds, |figure: &Figure| figure.value);
                figures.push(Figure {
                    metric: format!("read a row of {size}"),
                    unit: "ns",
                    value: nanoseconds,
                });
                figures.push(Figure {
                    metric: format!("{size} to {first}"),
                    unit: "times",
                    value: nanoseconds / of_first,
                });
            }
            samples.add(name, figures);
        }
    }
    summarise(
        "sparse-growth",
        BASELINE,
        &[("entries", rows.to_string())],
        &samples,
    )
}

fn index(rng: &mut Rng, below: i64) -> i64 {
    let below = usize::try_from(below).expect("few");
    i64::try_from(rng.index(below)).expect("few")
}

/// Reads rows of the stretches at random; returns the nanoseconds of a read, the least of three passes behind one that
/// warms.
fn read(store: &dyn Growing, rows: i64, rng: &mut Rng) -> f64 {
    let stretch = STRETCH.min(rows / STRETCHES).max(1);
    let times: Vec<i64> = (0..READS)
        .map(|_| {
            let (number, within) = (index(rng, STRETCHES), index(rng, stretch));
            rows / STRETCHES * number + within
        })
        .collect();
    for &time in times.iter().take(1000) {
        assert_eq!(store.get(time), Some(value_of(time)), "the row of {time}");
    }
    let pass = || {
        let begun = Instant::now();
        for &time in &times {
            black_box(store.get(time));
        }
        begun.elapsed().as_secs_f64() * 1e9 / times.len() as f64
    };
    pass();
    (0..3).map(|_| pass()).fold(f64::INFINITY, f64::min)
}
