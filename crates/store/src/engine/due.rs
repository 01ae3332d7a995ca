//! When a flush in the background is due.
//!
//! Rows in order are written once, however few a flush has. The sooner it begins, the longer it
//! runs beside the writers, and the less is left for the flush at the end. Late rows become a run
//! at the root, which is merged with others: the fewer and longer these runs are, the less is
//! written. So rows in order are flushed when a quarter of the memory for rows is used, and others
//! when half of it is.

use std::sync::atomic::{AtomicBool, Ordering};

use super::state::Engine;
use crate::rows::{DELETION_WEIGHT, Generation};
use crate::table::View;

/// Bytes of blocks in memory at which a flush begins: it takes no work but writing them, and the
/// sooner segments of the log end, the sooner they are written over.
const BLOCKS_FLUSHED: usize = 6 << 20;

/// The weight of deletions at which a flush begins: each state of them that a reader wants is made
/// of all those before it.
const DELETIONS_FLUSHED: usize = DELETION_WEIGHT * if cfg!(any(test, fuzzing)) { 64 } else { 1024 };

/// Rows are in order if at most one in this many is late.
const LATE_ROWS: usize = 16;

/// With fewer bytes a table, rows in order wait for half: a flush writes some pages for each table.
const TABLE_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    1 << 10
} else {
    512 << 10
};

/// Whether the rows in memory were seen not to be in order: then commits need not ask again.
#[derive(Debug, Default)]
pub(super) struct FlushDue {
    waits: AtomicBool,
}

impl FlushDue {
    /// The present rows were sealed, and others begin.
    pub(super) fn sealed(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }
}

impl Engine {
    /// Whether writers have to wait for a flush.
    pub(super) fn lacks_room(&self, active: &Generation) -> bool {
        active.bytes() >= self.options.head_bytes || active.deletions_weight() >= 2 * DELETIONS_FLUSHED
    }

    /// Whether the background thread is to look if a flush is due. Called by each commit.
    pub(super) fn may_be_due(&self, active: &Generation) -> bool {
        let limit = self.options.head_bytes;
        let may_be_early = active.bytes() >= limit / 4 && !self.flush_due.waits.load(Ordering::Relaxed);
        may_be_early || is_half_full(active, limit)
    }

    /// Whether a flush is due. Rows that are not in order wait until there are more.
    pub(super) fn is_due(&self) -> bool {
        let view = self.view();
        if !self.may_be_due(view.active()) {
            return false;
        }
        let is_due = is_half_full(view.active(), self.options.head_bytes) || is_in_order(&view);
        if !is_due {
            self.flush_due.waits.store(true, Ordering::Relaxed);
        }
        is_due
    }
}

/// Whether there is enough to flush, whatever its order.
fn is_half_full(active: &Generation, limit: usize) -> bool {
    active.bytes() >= limit / 2
        || active.block_bytes() >= BLOCKS_FLUSHED
        || active.deletions_weight() >= DELETIONS_FLUSHED
}

/// Whether few rows in memory are late, and a flush would make few of the next ones late.
fn is_in_order(view: &View) -> bool {
    let active = view.active();
    let tables = active.tables();
    if active.bytes() / TABLE_BYTES_MIN < tables.len() {
        return false;
    }
    let (mut rows, mut late) = (0, 0);
    for id in tables {
        let table = view.catalogue.get(id);
        let (Some(head), Some(order)) = (active.head(id), table.and_then(|table| table.order())) else {
            // A sparse table writes whole blocks: fewer, the more rows a flush has.
            return false;
        };
        rows += head.len();
        late += head.late_rows(order.stored());
    }
    late <= rows / LATE_ROWS
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampSecondArray};
    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use bedload_testkit::Rng;

    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::options::Options;
    use crate::rows::TableSchema;
    use crate::table::{Grid, Snap};

    const LIMIT: usize = 256 << 10;

    fn engine(grid: Option<Grid>) -> Engine {
        let options = Options::new().create(true).background(false).head_bytes(LIMIT);
        let disk = Arc::new(SimDisk::new(1));
        let engine = Engine::open(disk, Path::new("/store"), options).expect("creates");
        let time = DataType::Timestamp(TimeUnit::Second, None);
        let fields = vec![
            Field::new("at", time, false),
            Field::new("x", DataType::Int64, false),
        ];
        let schema = TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable");
        engine.create_table("t", Arc::new(schema), grid).expect("fresh");
        engine
    }

    fn append(engine: &Engine, times: impl Iterator<Item = i64>) {
        let times: Vec<i64> = times.collect();
        let numbers: ArrayRef = Arc::new(Int64Array::from(times.clone()));
        let times: ArrayRef = Arc::new(TimestampSecondArray::from(times));
        let table = engine.view().catalogue.named("t").expect("there").clone();
        let batch = RecordBatch::try_new(table.entry.schema.arrow().clone(), vec![times, numbers]);
        engine
            .append(&table, &batch.expect("columns"), Snap::default())
            .expect("a sound disk");
    }

    /// Appends batches of `times` until a flush may be due; tells whether it is, and how many bytes
    /// there are.
    fn fill(engine: &Engine, mut times: impl FnMut(i64) -> i64) -> (bool, usize) {
        for batch in 0.. {
            append(engine, (batch * 100..(batch + 1) * 100).map(&mut times));
            let view = engine.view();
            if engine.may_be_due(view.active()) {
                return (engine.is_due(), view.active().bytes());
            }
        }
        unreachable!("memory is finite")
    }

    #[test]
    fn rows_in_order_are_flushed_sooner_than_late_ones() {
        let early = LIMIT / 4..LIMIT / 2;
        let engine = engine(None);
        let mut from = 0;
        // Each row is up to nine places late.
        let (is_due, bytes) = fill(&engine, |row| row / 10 * 10 + 9 - row % 10);
        assert!(is_due && early.contains(&bytes), "{bytes}");
        engine.flush().expect("a sound disk");
        from += 1 << 20;
        let (is_due, bytes) = fill(&engine, |row| from + row);
        assert!(is_due && early.contains(&bytes), "{bytes}");
        engine.flush().expect("a sound disk");
        // Those before what was flushed, though in order.
        let (is_due, bytes) = fill(&engine, |row| from - 100_000 + row);
        assert!(!is_due && early.contains(&bytes), "{bytes}");
        let (is_due, bytes) = fill(&engine, |row| from - 50_000 + row);
        assert!(is_due && !early.contains(&bytes), "{bytes}");
        engine.flush().expect("a sound disk");
        // Those that a flush would make late: two writers, one of them behind.
        from += 1 << 20;
        let (is_due, _) = fill(&engine, |row| from + row + row / 100 % 2 * 100_000);
        assert!(!is_due);
        engine.flush().expect("a sound disk");
        let mut rng = Rng::new(1);
        let (is_due, _) = fill(&engine, |_| from + rng.below(1 << 20).cast_signed());
        assert!(!is_due);
    }

    #[test]
    fn rows_of_sparse_tables_wait_for_whole_blocks() {
        let engine = engine(Some(Grid::every(1).expect("positive")));
        let mut batch = 0;
        while engine.view().active().bytes() < LIMIT / 4 {
            append(&engine, (0..10).map(|row| batch * 100_000 + row));
            batch += 1;
        }
        assert!(!engine.is_due());
    }
}
