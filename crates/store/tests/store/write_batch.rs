//! Commits over several tables, and appends that are waited for later.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Error, Grid, Layout, Options, Store, Table, TableSchema};

fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let fields = vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("n", DataType::Int64, false),
    ];
    let times = rows.iter().map(|row| row.0);
    let numbers = rows.iter().map(|row| row.1);
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        vec![
            Arc::new(TimestampSecondArray::from_iter_values(times)),
            Arc::new(Int64Array::from_iter_values(numbers)),
        ],
    )
    .expect("columns of one length")
}

fn numbers(table: &Table) -> Vec<i64> {
    let mut numbers = Vec::new();
    for batch in table.range(..).expect("there") {
        let batch = batch.expect("reads");
        numbers.extend(batch.column(1).as_primitive::<Int64Type>().values());
    }
    numbers
}

fn create(store: &Store, name: &str, layout: Layout) -> Table {
    let schema = TableSchema::new(batch(&[]).schema(), "at").expect("storable");
    store.create_table_as(name, schema, layout).expect("fresh")
}

#[test]
fn changes_count_in_their_order_and_survive_the_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s");
    {
        let store = Store::create(&path).expect("creates");
        let a = create(&store, "a", Layout::Indexed);
        let grid = Grid::every(10).expect("positive");
        let b = create(&store, "b", Layout::Sparse(grid));
        a.append(&batch(&[(1, 100), (2, 200)])).expect("appends");
        let before = store.snapshot();
        let mut changes = store.write_batch();
        assert!(changes.is_empty());
        changes.append(&a, &batch(&[(2, 201), (0, 1)])).expect("fits");
        changes.delete_range(&a, 2..3).expect("of this store");
        changes.append(&a, &batch(&[(2, 202)])).expect("fits");
        changes
            .append(&b, &batch(&[(20, 1), (10, 2), (20, 3)]))
            .expect("on the grid");
        changes.delete_range(&b, 5..5).expect("of this store");
        assert_eq!(changes.len(), 4, "a deletion of no time is none");
        assert_eq!((numbers(&a), numbers(&b)), (vec![100, 200], vec![]));
        let appended = changes.commit().expect("commits");
        assert_eq!(
            (appended.rows, appended.collided, appended.first_sequence),
            (6, 1, 2)
        );
        assert_eq!((numbers(&a), numbers(&b)), (vec![1, 100, 202], vec![2, 3]));
        let old = before.range("a", ..).expect("there").count().expect("reads");
        assert_eq!(old, 2, "a snapshot sees nothing of it");
        // Without a flush: the log has it.
        std::mem::forget((store, a, b, before));
    }
    std::fs::remove_file(path.join("lock")).expect("the lock of a process that is gone");
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).expect("creates");
    for name in ["data", "log", "sparse"] {
        copy_all(&path.join(name), &copy.join(name));
    }
    let store = Store::open(&copy).expect("recovers");
    let table = |name| store.table(name).expect("there");
    assert_eq!(
        (numbers(&table("a")), numbers(&table("b"))),
        (vec![1, 100, 202], vec![2, 3])
    );
    assert!(store.verify().expect("reads").problems.is_empty());
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    if from.is_dir() {
        std::fs::create_dir(to).expect("creates");
        for entry in std::fs::read_dir(from).expect("reads") {
            let entry = entry.expect("reads");
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else if from.exists() {
        std::fs::copy(from, to).expect("copies");
    }
}

#[test]
fn what_cannot_be_committed_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).head_bytes(64 << 10);
    let store = options.open(dir.path().join("s")).expect("creates");
    let other = Store::create(dir.path().join("other")).expect("creates");
    let (a, b) = (
        create(&store, "a", Layout::Indexed),
        create(&store, "b", Layout::Indexed),
    );
    let foreign = create(&other, "a", Layout::Indexed);
    let mut changes = store.write_batch();
    changes.append(&a, &batch(&[(1, 1)])).expect("fits");
    changes
        .append(&foreign, &batch(&[(1, 1)]))
        .expect_err("another store");
    changes.delete_range(&foreign, ..).expect_err("another store");
    let narrow = batch(&[(1, 1)]).project(&[0]).expect("a column");
    changes.append(&b, &narrow).expect_err("a column is missing");
    let many: Vec<(i64, i64)> = (0..10_000).map(|n| (n, n)).collect();
    let refused = changes.append(&b, &batch(&many)).expect_err("too many");
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    changes
        .append(&b, &batch(&[(2, 2)]))
        .expect("what was refused left no trace");
    store.drop_table("b").expect("drops");
    let refused = changes.commit().expect_err("a table is gone");
    assert!(matches!(refused, Error::NoSuchTable { .. }), "{refused}");
    assert_eq!(numbers(&a), Vec::<i64>::new());
    assert_eq!(store.write_batch().commit().expect("nothing to do").rows, 0);
}

#[test]
fn one_sync_serves_all_appends_that_were_begun() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true).background(false);
    let store = options.open(dir.path().join("s")).expect("creates");
    let table = create(&store, "t", Layout::Indexed);
    let before = store.metrics().log_syncs;
    let mut begun: Vec<_> = (0..100)
        .map(|n| table.begin_append(&batch(&[(n, n)])).expect("begins"))
        .collect();
    assert_eq!(store.metrics().log_syncs, before);
    assert_eq!(numbers(&table), Vec::<i64>::new(), "nothing is durable yet");
    let middle = begun.swap_remove(49);
    assert_eq!(middle.wait().expect("a sound disk").first_sequence, 49);
    // Whoever waits makes everything durable that was begun; what came after the commit is visible
    // later.
    assert_eq!(store.metrics().log_syncs, before + 1);
    assert_eq!(numbers(&table).len(), 50);
    let last = begun.pop().expect("begun");
    drop(begun);
    last.wait().expect("a sound disk");
    assert_eq!(store.metrics().log_syncs, before + 1);
    store.flush().expect("flushes");
    assert_eq!(numbers(&table), (0..100).collect::<Vec<_>>());
}
