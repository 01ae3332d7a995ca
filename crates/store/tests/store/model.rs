//! Random operations against a model, with heads and pages so small that everything happens all the time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bedload::{Mark, Options, Snapshot, Store, Table};
use proptest::prelude::*;

use crate::rows::{TestRow, batch, collect, schema};

#[derive(Debug, Clone)]
enum Op {
    Append {
        times: Vec<i64>,
    },
    Delete {
        times: RangeInclusive<i64>,
    },
    Mark,
    Retract,
    Flush,
    /// The store is dropped without a flush, and opened again.
    Reopen,
    Snapshot,
    Check {
        times: RangeInclusive<i64>,
        limit: u32,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let time =
        prop_oneof![4 => 0..200i64, 1 => -50..1000i64, 1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)]];
    let range = (time.clone(), time.clone()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    prop_oneof![
        6 => prop::collection::vec(time, 1..60).prop_map(|times| Op::Append { times }),
        1 => (0..200i64, 0..400usize).prop_map(|(from, n)| Op::Append { times: (from..).take(n).collect() }),
        1 => range.clone().prop_map(|times| Op::Delete { times }),
        1 => Just(Op::Mark),
        1 => Just(Op::Retract),
        1 => Just(Op::Flush),
        1 => Just(Op::Reopen),
        1 => Just(Op::Snapshot),
        3 => (range, 0..100u32).prop_map(|(times, limit)| Op::Check { times, limit }),
    ]
}

type Rows = BTreeMap<(i64, u64), TestRow>;

struct Subject {
    dir: tempfile::TempDir,
    options: Options,
    open: Option<(Store, Table)>,
    rows: Rows,
    number: i32,
    /// A mark, and the sequence number of the first row behind it.
    mark: Option<(Mark, u64)>,
    snapshots: Vec<(Snapshot, Rows)>,
}

impl Subject {
    fn new(background: bool) -> Self {
        let options = Options::new()
            .create(true)
            .page_bytes(4096)
            .head_bytes(64 << 10)
            .cache_bytes(1 << 20);
        let mut subject = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            options: options.background(background),
            open: None,
            rows: Rows::new(),
            number: 0,
            mark: None,
            snapshots: Vec::new(),
        };
        subject.reopen();
        subject
    }

    fn reopen(&mut self) {
        self.open = None;
        self.snapshots.clear();
        let store = self.options.open(self.dir.path().join("store")).expect("opens");
        let table = match store.table("t") {
            Ok(table) => table,
            Err(_) => store.create_table("t", schema()).expect("a fresh table"),
        };
        self.open = Some((store, table));
    }

    fn store(&self) -> &Store {
        &self.open.as_ref().expect("open between operations").0
    }

    fn table(&self) -> &Table {
        &self.open.as_ref().expect("open between operations").1
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Append { times } => {
                let rows: Vec<TestRow> = times
                    .iter()
                    .map(|&time| {
                        self.number += 1;
                        TestRow::numbered(time, self.number)
                    })
                    .collect();
                if rows.is_empty() {
                    return Ok(());
                }
                let appended = self.table().append(&batch(&rows)).expect("appends");
                prop_assert_eq!(appended.rows, rows.len() as u64);
                for (row, sequence) in rows.into_iter().zip(appended.first_sequence..) {
                    self.rows.insert((row.time, sequence), row);
                }
            }
            Op::Delete { times } => {
                self.table().delete_range(times.clone()).expect("deletes");
                self.rows.retain(|(time, _), _| !times.contains(time));
            }
            Op::Mark => {
                let mark = self.table().mark();
                self.number += 1;
                let row = TestRow::numbered(1, self.number);
                let appended = self
                    .table()
                    .append(&batch(std::slice::from_ref(&row)))
                    .expect("appends");
                self.rows.insert((row.time, appended.first_sequence), row);
                self.mark = Some((mark, appended.first_sequence));
            }
            Op::Retract => {
                if let Some((mark, first)) = self.mark.take() {
                    self.table().retract_since(mark).expect("retracts");
                    self.rows.retain(|(_, sequence), _| *sequence < first);
                }
            }
            Op::Flush => self.store().flush().expect("flushes"),
            Op::Reopen => self.reopen(),
            Op::Snapshot => self.snapshots.push((self.store().snapshot(), self.rows.clone())),
            Op::Check { times, limit } => self.check(times, limit)?,
        }
        Ok(())
    }
}

impl Subject {
    /// Compares ranges of the table, both ways and with a limit, and every snapshot, with the model.
    fn check(&self, times: RangeInclusive<i64>, limit: u32) -> Result<(), TestCaseError> {
        let expected: Vec<(u64, TestRow)> = between(&self.rows, &times);
        let scan = || self.table().range(times.clone()).expect("a table");
        prop_assert_eq!(&collect(scan()).expect("reads"), &expected);
        prop_assert_eq!(scan().count().expect("reads"), expected.len() as u64);
        let reversed: Vec<_> = expected.iter().rev().cloned().collect();
        prop_assert_eq!(&collect(scan().rev()).expect("reads"), &reversed);
        let first: Vec<_> = expected.iter().take(limit as usize).cloned().collect();
        prop_assert_eq!(&collect(scan().limit(limit.into())).expect("reads"), &first);
        let last: Vec<_> = reversed.into_iter().take(limit as usize).collect();
        prop_assert_eq!(&collect(scan().rev().limit(limit.into())).expect("reads"), &last);
        for (snapshot, rows) in &self.snapshots {
            let scan = snapshot.range("t", times.clone()).expect("the table was there");
            prop_assert_eq!(&collect(scan).expect("reads"), &between(rows, &times));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), TestCaseError> {
        let all = i64::MIN..=i64::MAX;
        self.check(all.clone(), 10)?;
        self.reopen();
        self.check(all.clone(), 10)?;
        self.store().flush().expect("flushes");
        self.check(all, 10)?;
        let report = self.store().verify().expect("reads");
        prop_assert_eq!(&report.problems, &[]);
        prop_assert_eq!(report.rows, self.rows.len() as u64);
        let info = self.store().info().expect("reads");
        prop_assert_eq!(info.tables[0].rows, self.rows.len() as u64);
        prop_assert_eq!(info.tables[0].first, self.rows.keys().next().map(|key| key.0));
        prop_assert_eq!(info.tables[0].last, self.rows.keys().next_back().map(|key| key.0));
        Ok(())
    }
}

fn between(rows: &Rows, times: &RangeInclusive<i64>) -> Vec<(u64, TestRow)> {
    let range = rows.range((*times.start(), 0)..=(*times.end(), u64::MAX));
    range
        .map(|(&(_, sequence), row)| (sequence, row.clone()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn store_answers_like_the_model(ops in prop::collection::vec(op(), 1..80), background: bool) {
        let mut subject = Subject::new(background);
        for op in ops {
            subject.apply(op)?;
        }
        subject.finish()?;
    }
}
