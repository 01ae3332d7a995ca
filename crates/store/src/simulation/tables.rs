//! Many tables: creating one costs as much, however many there are.

use super::workload::{columns, open, options};
use crate::disk::sim::SimDisk;
use crate::rows::TableSchema;

const TABLES: usize = 2_000;

#[test]
fn creating_a_table_writes_as_much_as_creating_the_first() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().page_bytes(16 << 10)).expect("creates");
    let schema = || TableSchema::new(columns(), "at").expect("storable");
    let create = |numbers: std::ops::Range<usize>| {
        let (calls, trace) = (disk.calls(), disk.record());
        for number in numbers {
            store
                .create_table(&format!("table {number}"), schema())
                .expect("fresh");
        }
        (disk.calls() - calls, disk.trace(trace).bytes_written())
    };
    let first = create(0..100);
    create(100..TABLES - 100);
    let last = create(TABLES - 100..TABLES);
    assert!(
        last.0 < 2 * first.0 && last.1 < 2 * first.1,
        "first {first:?}, last {last:?}: calls and bytes"
    );

    // Dropping one, or appending to one, is no matter of their number, either.
    let (trace, calls) = (disk.record(), disk.calls());
    store.drop_table("table 700").expect("drops");
    let dropped = (disk.calls() - calls, disk.trace(trace).bytes_written());
    assert!(
        dropped.0 < first.0 / 10 && dropped.1 < first.1 / 10,
        "{dropped:?}"
    );
    drop(store);
    let store = open(&disk, options()).expect("opens");
    let mut expected: Vec<String> = (0..TABLES).map(|number| format!("table {number}")).collect();
    expected.remove(700);
    assert_eq!(store.tables(), expected);
    assert_eq!(store.verify().expect("reads").problems, []);
    let (trace, calls) = (disk.record(), disk.calls());
    store
        .create_table("table 700", schema())
        .expect("the name is free");
    let created = (disk.calls() - calls, disk.trace(trace).bytes_written());
    assert!(
        created.0 < first.0 / 10 && created.1 < first.1 / 10,
        "after opening: {created:?}"
    );
}
