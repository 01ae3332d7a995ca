//! In which order rows arrived: measured right, whatever becomes of the store meanwhile.

use bedload::{ArrivalOrder, Grid, Layout, Options, Store};
use bedload_sortedness::Sortedness;
use bedload_testkit::workload::NearlySorted;

use crate::rows::{TestRow, append, schema};

fn order(store: &Store) -> ArrivalOrder {
    store.info().expect("reads").tables[0]
        .order
        .expect("it is indexed")
}

/// Some rows far out of place.
fn arrivals() -> Vec<TestRow> {
    let spec = NearlySorted {
        swapped_percent: 5.0,
        displacement_percent: 10.0,
        ..NearlySorted::new(6_000, 3)
    };
    let ranks = spec.generate().keys;
    let time = |rank: u64| i64::try_from(rank).expect("small") - 2_000;
    (0..)
        .zip(ranks)
        .map(|(number, rank)| TestRow::numbered(time(rank), number))
        .collect()
}

#[test]
fn the_order_of_arrival_survives_flushes_and_openings() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s");
    let rows = arrivals();
    let options = || Options::new().background(false).create(true);
    let mut store = options().open(&path).expect("creates");
    store.create_table("t", schema()).expect("fresh");
    let (mut overlapping, mut flushed_max, mut unflushed) = (0, i64::MIN, Vec::new());
    for (number, part) in rows.chunks(500).enumerate() {
        let table = store.table("t").expect("there");
        append(&table, part).expect("appends");
        unflushed.extend(part.iter().map(|row| row.time));
        let arrived = &rows[..(number + 1) * 500];
        let times: Vec<i64> = arrived.iter().map(|row| row.time).collect();
        let exact = Sortedness::of_keys(&times);
        let overlap = unflushed.iter().filter(|&&time| time < flushed_max).count();
        let check = |store: &Store| {
            let total = order(store).total;
            assert_eq!((total.rows, total.k), (exact.rows, exact.k));
            assert_eq!(total.below_running_max, exact.below_running_max);
            assert_eq!(total.overlapping, overlapping + overlap as u64);
            let l_error = exact.rows / 20;
            assert!(
                total.l <= exact.l + l_error && total.l >= exact.l / 2,
                "{total:?} {exact:?}"
            );
        };
        check(&store);
        // Deleted rows have arrived all the same.
        table.delete_range(-1_990..-1_980).expect("deletes");
        drop(table);
        // Opening flushes what is found in the log.
        let is_opened = number % 3 == 1;
        if is_opened {
            drop(store);
            store = options().open(&path).expect("opens");
            check(&store);
        }
        if is_opened || number % 2 == 1 {
            store.flush().expect("flushes");
            check(&store);
            flushed_max = times.iter().copied().max().unwrap_or(i64::MIN);
            overlapping += overlap as u64;
            unflushed.clear();
        }
    }
    assert!(overlapping > 0);
    assert_eq!(order(&store).window, order(&store).total, "no window is complete");
}

#[test]
fn windows_end_and_go_on_after_an_opening() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s");
    let mut rows: Vec<TestRow> = (0..70_000)
        .map(|number| TestRow::numbered(i64::from(number), number))
        .collect();
    rows[60_000].time = 10;
    rows[69_000].time = 20;
    let store = Store::create(&path).expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    append(&table, &rows[..68_000]).expect("appends");
    drop(table);
    drop(store);
    let store = Store::open(&path).expect("opens");
    append(&store.table("t").expect("there"), &rows[68_000..]).expect("appends");
    let order = order(&store);
    assert_eq!((order.total.rows, order.total.k), (70_000, 2));
    assert_eq!((order.window.rows, order.window.k), (65_536, 1));
}

#[test]
fn a_sparse_table_has_no_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("s")).expect("creates");
    let layout = Layout::Sparse(Grid::every(1_000).expect("positive"));
    let columns = arrow_schema::Schema::new(vec![arrow_schema::Field::new(
        "at",
        arrow_schema::DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None),
        false,
    )]);
    let columns = bedload::TableSchema::new(std::sync::Arc::new(columns), "at").expect("storable");
    store.create_table_as("t", columns, layout).expect("fresh");
    assert!(store.info().expect("reads").tables[0].order.is_none());
}
