//! A table that two threads write to and another one reads, while something happens to it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use bedload::{Store, Table};

/// How many rows a writer appends at a time: one, or many.
fn rows_of_turn(turn: i64) -> i64 {
    if turn % 3 == 0 { 1 } else { 100 }
}

/// Calls `change` while two threads append rows to table `t` and a third one calls `read` with the
/// table again and again. Each row has a number that no other has. Writers keep a handle for a few
/// appends, so some are older than the change. Then checks that all rows are there.
pub(crate) fn beside_writers(
    store: &Store,
    append: impl Fn(&Table, Range<i64>) + Sync,
    mut read: impl FnMut(&Table) + Send,
    change: impl FnOnce(),
) {
    let table = || store.table("t").expect("there");
    let is_over = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let (append, table, is_over) = (&append, &table, &is_over);
            scope.spawn(move || {
                let mut turn = writer;
                let mut handle = table();
                while !is_over.load(Ordering::Relaxed) {
                    append(&handle, turn * 1000..turn * 1000 + rows_of_turn(turn));
                    turn += 2;
                    if turn % 10 < 2 {
                        handle = table();
                    }
                }
                turn
            })
        });
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                read(&table());
            }
        });
        change();
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("it reads");
        writers.map(|writer| writer.join().expect("it writes"))
    });
    let turns = (0..).zip(ends).flat_map(|(first, end)| (first..end).step_by(2));
    let appended: i64 = turns.map(rows_of_turn).sum();
    let found = table().range(..).expect("there").count().expect("reads");
    assert_eq!(found, appended.unsigned_abs());
    assert_eq!(store.verify().expect("reads").problems, []);
}
