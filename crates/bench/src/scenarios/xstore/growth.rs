//! The cost of a point read as a table grows, with a constant working set: narrow rows of a second
//! and one number.
//!
//! The rows read are in a constant number of stretches of equal length, spread evenly over the
//! table. So the blocks or leaves in use are equally many at every size, and only the path to them
//! grows.

use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Layout, Table, Value};
use bedload_testkit::Rng;

use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};
use crate::subjects::{Lmdb, ROW_BASELINE, every_second, names, table};

/// Rows of a batch; enough for pages to be written in order.
const BATCH: i64 = 1 << 20;
/// The number of stretches to read, and the rows of each.
const STRETCHES: i64 = 40;
const STRETCH: i64 = 64;
/// Reads timed together.
const READS: usize = 200_000;

/// A store of seconds with one number each.
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
    let (store, table) = table(dir, columns(), layout);
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

impl Growing for Lmdb {
    fn append(&mut self, seconds: Range<i64>) {
        self.put(seconds.map(|second| (second, value_of(second).to_le_bytes())));
    }

    fn settle(&mut self) {}

    fn get(&self, second: i64) -> Option<f64> {
        let number = |bytes: &[u8]| f64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
        self.read(second, number)
    }
}

type Make = fn(&Path) -> Box<dyn Growing>;

const fn entrant(name: &'static str, make: Make) -> Entrant<Make> {
    Entrant {
        name,
        is_peer: false,
        make,
    }
}

const ALL: &[Entrant<Make>] = &[
    entrant("sparse", |dir| ours(dir, every_second())),
    entrant("indexed", |dir| ours(dir, Layout::Indexed)),
    entrant(ROW_BASELINE, |dir| Box::new(Lmdb::durable(dir))),
];

/// Returns the stores of this scenario.
pub(super) fn subjects() -> Vec<&'static str> {
    names(ALL)
}

/// Grows tables tenfold up to the requested size; reports the cost of reading a row, and its ratio
/// to the cost in the smallest table.
pub(super) fn growth(plan: &Plan) -> Vec<Record> {
    let rows = i64::try_from(plan.entries_of(10_000_000, 100_000_000)).expect("fewer than 2^63");
    let first = rows.min(100_000);
    let sizes: Vec<i64> = std::iter::successors(Some(first), |size| Some(size * 10))
        .take_while(|&size| size <= rows)
        .collect();
    Trial::new("sparse-growth", ROW_BASELINE, plan)
        .param("entries", rows)
        .run_each(ALL, |entrant, round| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            grow((entrant.make)(dir.path()).as_mut(), &sizes, &mut Rng::new(round))
        })
}

fn grow(store: &mut dyn Growing, sizes: &[i64], rng: &mut Rng) -> Vec<Figure> {
    let (mut figures, mut loaded): (Vec<Figure>, i64) = (Vec::new(), 0);
    for &size in sizes {
        while loaded < size {
            let end = size.min(loaded + BATCH);
            store.append(loaded..end);
            loaded = end;
        }
        store.settle();
        let nanoseconds = read(store, size, rng);
        let of_first = figures.first().map_or(nanoseconds, |figure| figure.value);
        figures.push(Figure::new(format!("read a row of {size}"), "ns", nanoseconds));
        let times = nanoseconds / of_first;
        figures.push(Figure::new(format!("{size} to {}", sizes[0]), "times", times));
    }
    figures
}

fn index(rng: &mut Rng, below: i64) -> i64 {
    let below = usize::try_from(below).expect("few");
    i64::try_from(rng.index(below)).expect("few")
}

/// Reads random rows of the stretches; returns the nanoseconds per read, the least of three passes
/// after a warm-up.
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
