//! Reading one row, among many of its time: in heads, in runs and across intervals of the tree.

use std::collections::BTreeMap;

use bedload_testkit::Rng;

use super::workload::{columns, open, options, rows};
use crate::Value;
use crate::disk::sim::SimDisk;
use crate::rows::TableSchema;
use crate::store::Table;

/// Appends rows of some ids and times.
fn append(table: &Table, of: &[(i64, i64)]) {
    let of: Vec<(i64, i64)> = of.iter().map(|&(id, time)| (time, id)).collect();
    let batch = rows(&of, |id| (id % 3 > 0).then(|| id.to_string()));
    table.append(&batch).expect("a sound disk");
}

/// The id that a table has for a time.
fn id_at(table: &Table, time: i64) -> Option<i64> {
    let row = table.get(time).expect("a sound disk")?;
    assert_eq!((row.time(), row.value(0)), (time, Some(Value::Int(time))));
    let Some(Value::Int(id)) = row.value(1) else {
        panic!("a row without an id");
    };
    let text = (id % 3 > 0).then(|| id.to_string());
    assert_eq!(row.value(2), text.as_deref().map(Value::Text));
    assert_eq!(row.value(3), None);
    Some(id)
}

#[test]
fn the_row_of_a_time_that_arrived_last_is_found() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
        let schema = TableSchema::new(columns(), "at").expect("storable");
        let table = store.create_table("t", schema).expect("fresh");
        // So few times that a leaf of the tree is split among rows of one.
        let times = [3, 40, 2000][(seed % 3) as usize];
        let mut model: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let mut marks = Vec::new();
        let mut next = 0;
        for _ in 0..40 {
            match rng.below(10) {
                0..=5 => {
                    let most = [5, 900][rng.index(2)];
                    let rows = 1 + rng.below(most);
                    let ids = next..next + rows.cast_signed();
                    let rows: Vec<_> = ids.map(|id| (id, rng.below(times).cast_signed())).collect();
                    append(&table, &rows);
                    next += i64::try_from(rows.len()).expect("few");
                    for (id, time) in rows {
                        model.entry(time).or_default().push(id);
                    }
                }
                6 => {
                    let from = rng.below(times).cast_signed();
                    let to = from + rng.below(times / 3 + 1).cast_signed();
                    table.delete_range(from..=to).expect("a sound disk");
                    model.retain(|time, _| !(from..=to).contains(time));
                }
                7 => marks.push((table.mark(), next)),
                8 => {
                    if let Some((mark, first)) = marks.pop() {
                        table.retract_since(mark).expect("a sound disk");
                        for ids in model.values_mut() {
                            ids.retain(|&id| id < first);
                        }
                    }
                }
                _ => store.flush().expect("a sound disk"),
            }
            for time in (-1..=times.cast_signed()).step_by(if times > 100 { 41 } else { 1 }) {
                let expected = model.get(&time).and_then(|ids| ids.last()).copied();
                assert_eq!(id_at(&table, time), expected, "seed {seed}, time {time}");
            }
        }
    }
}

/// A run of late rows that waits above a leaf interval may have rows before it.
#[test]
fn an_older_row_before_the_interval_of_a_time_is_not_its_newest() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options().head_bytes(8 << 20)).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let flushed = |rows: &[(i64, i64)]| {
        append(&table, rows);
        store.flush().expect("a sound disk");
    };
    // A leaf is nearly full of rows up to 50, and a row at 100 makes the next one at 50 late.
    let mut rows: Vec<(i64, i64)> = (0..250).map(|id| (id, id / 5)).collect();
    rows.push((250, 100));
    flushed(&rows);
    flushed(&[(251, 50)]);
    table.delete_range(51..).expect("a sound disk");
    store.flush().expect("a sound disk");
    flushed(&[(252, 50)]);
    let mark = table.mark();
    // The leaf is split among rows at 50, and the later part loses its rows.
    for part in 0..4 {
        let ids = 253 + 100 * part..353 + 100 * part;
        flushed(&ids.map(|id| (id, 50)).collect::<Vec<_>>());
    }
    table.retract_since(mark).expect("a sound disk");
    assert_eq!(id_at(&table, 50), Some(252));
    store.flush().expect("a sound disk");
    assert_eq!(id_at(&table, 50), Some(252));
}
