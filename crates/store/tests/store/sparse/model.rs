//! Random operations against a map of times, with heads so small that flushes happen all the time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bedload::{Grid, Layout, Options, Result, Scan, Snap, Snapshot, Store, Table, Value};
use proptest::prelude::*;

use crate::rows::{TestRow, batch, rows_without_sequence, schema};

#[derive(Debug, Clone)]
enum Op {
    /// Rows at these ticks, in this order.
    Append {
        ticks: Vec<i64>,
    },
    /// Rows at neighbouring ticks; many of them are written as blocks.
    Fill {
        from: i64,
        rows: i64,
    },
    /// Rows at any times, moved to the grid.
    Snapped {
        times: Vec<i64>,
        snap: Snap,
    },
    Delete {
        times: RangeInclusive<i64>,
    },
    Flush,
    /// The store is dropped without a flush, and opened again.
    Reopen,
    Snapshot,
    Check {
        times: RangeInclusive<i64>,
        limit: u32,
    },
}

/// A grid, and what ticks are written to.
#[derive(Debug, Clone, Copy)]
struct Setting {
    interval: i64,
    epoch: i64,
}

impl Setting {
    fn grid(self) -> Grid {
        Grid::every(self.interval).expect("positive").from(self.epoch)
    }

    fn time(self, tick: i64) -> i64 {
        self.epoch + tick * self.interval
    }

    /// The tick at or before a time.
    fn down(self, time: i64) -> i64 {
        (time - self.epoch).div_euclid(self.interval)
    }
}

fn op() -> impl Strategy<Value = Op> {
    let tick = prop_oneof![6 => -300..300i64, 1 => -5000..5000i64, 1 => prop_oneof![Just(-900_000i64), Just(900_000)]];
    let times = (-40_000..40_000i64, 0..30_000i64).prop_map(|(from, len)| from..=from + len);
    let snap = prop_oneof![Just(Snap::Nearest), Just(Snap::Down)];
    let all = Just(i64::MIN..=i64::MAX);
    prop_oneof![
        4 => prop::collection::vec(tick.clone(), 1..60).prop_map(|ticks| Op::Append { ticks }),
        4 => (tick, 1..700i64).prop_map(|(from, rows)| Op::Fill { from, rows }),
        1 => (prop::collection::vec(-3000..3000i64, 1..40), snap)
            .prop_map(|(times, snap)| Op::Snapped { times, snap }),
        1 => (-20_000..20_000i64, 12_500..14_000i64).prop_map(|(from, rows)| Op::Fill { from, rows }),
        2 => times.clone().prop_map(|times| Op::Delete { times }),
        1 => all.prop_map(|times| Op::Delete { times }),
        3 => Just(Op::Flush),
        1 => Just(Op::Reopen),
        1 => Just(Op::Snapshot),
        3 => (times, 0..500u32).prop_map(|(times, limit)| Op::Check { times, limit }),
    ]
}

type Rows = BTreeMap<i64, TestRow>;

struct Subject {
    setting: Setting,
    dir: tempfile::TempDir,
    options: Options,
    open: Option<(Store, Table)>,
    rows: Rows,
    number: i32,
    snapshots: Vec<(Snapshot, Rows)>,
}

impl Subject {
    fn new(setting: Setting, background: bool) -> Self {
        let options = Options::new()
            .create(true)
            .page_bytes(4096)
            .head_bytes(64 << 10)
            .cache_bytes(1 << 20)
            .background(background);
        let mut subject = Self {
            setting,
            dir: tempfile::tempdir().expect("a temporary directory"),
            options,
            open: None,
            rows: Rows::new(),
            number: 0,
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
            Err(_) => store
                .create_table_as("t", schema(), Layout::Sparse(self.setting.grid()))
                .expect("a fresh table"),
        };
        assert_eq!(table.layout(), Layout::Sparse(self.setting.grid()));
        self.open = Some((store, table));
    }

    fn store(&self) -> &Store {
        &self.open.as_ref().expect("open between operations").0
    }

    fn table(&self) -> &Table {
        &self.open.as_ref().expect("open between operations").1
    }

    fn numbered(&mut self, times: impl Iterator<Item = i64>) -> Vec<TestRow> {
        let row = |time| {
            self.number += 1;
            TestRow::numbered(time, self.number)
        };
        times.map(row).collect()
    }

    fn append(&mut self, ticks: impl Iterator<Item = i64>) -> Result<(), TestCaseError> {
        let setting = self.setting;
        let rows = self.numbered(ticks.map(|tick| setting.time(tick)));
        let appended = self.table().append(&batch(&rows)).expect("appends");
        let mut times: Vec<i64> = rows.iter().map(|row| row.time).collect();
        times.sort_unstable();
        times.dedup();
        prop_assert_eq!(appended.rows, rows.len() as u64);
        prop_assert_eq!(appended.collided, (rows.len() - times.len()) as u64);
        prop_assert_eq!(appended.moved, 0);
        self.rows.extend(rows.into_iter().map(|row| (row.time, row)));
        Ok(())
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        let setting = self.setting;
        match op {
            Op::Append { ticks } => self.append(ticks.into_iter())?,
            Op::Fill { from, rows } => self.append(from..from + rows)?,
            Op::Snapped { times, snap } => {
                let rows = self.numbered(times.into_iter());
                let place = |time: i64| {
                    let down = setting.time(setting.down(time));
                    match snap {
                        Snap::Down => down,
                        _ if 2 * (time - down) >= setting.interval => down + setting.interval,
                        _ => down,
                    }
                };
                let off = rows.iter().filter(|row| place(row.time) != row.time).count();
                if off > 0 {
                    let refused = self.table().append(&batch(&rows)).expect_err("off the grid");
                    prop_assert!(matches!(refused, bedload::Error::OffGrid { .. }), "{}", refused);
                }
                let table = self.table().snapping(snap);
                let appended = table.append(&batch(&rows)).expect("snapped");
                prop_assert_eq!(appended.moved, off as u64);
                for mut row in rows {
                    row.time = place(row.time);
                    self.rows.insert(row.time, row);
                }
            }
            Op::Delete { times } => {
                self.table().delete_range(times.clone()).expect("deletes");
                self.rows.retain(|time, _| !times.contains(time));
            }
            Op::Flush => self.store().flush().expect("flushes"),
            Op::Reopen => self.reopen(),
            Op::Snapshot => self.snapshots.push((self.store().snapshot(), self.rows.clone())),
            Op::Check { times, limit } => self.check(times, limit)?,
        }
        Ok(())
    }

    /// Compares ranges of the table, both ways and with a limit, single rows, and every snapshot, with the model.
    fn check(&self, times: RangeInclusive<i64>, limit: u32) -> Result<(), TestCaseError> {
        let expected = between(&self.rows, &times);
        let scan = || self.table().range(times.clone()).expect("a table");
        prop_assert_eq!(&collect(scan()), &expected);
        prop_assert_eq!(scan().count().expect("reads"), expected.len() as u64);
        let reversed: Vec<_> = expected.iter().rev().cloned().collect();
        prop_assert_eq!(&collect(scan().rev()), &reversed);
        let first: Vec<_> = expected.iter().take(limit as usize).cloned().collect();
        prop_assert_eq!(&collect(scan().limit(limit.into())), &first);
        let last: Vec<_> = reversed.into_iter().take(limit as usize).collect();
        prop_assert_eq!(&collect(scan().rev().limit(limit.into())), &last);
        for row in expected.iter().step_by(37) {
            for time in [row.time - 1, row.time, row.time + self.setting.interval] {
                let found = self.table().get(time).expect("reads");
                let found = found.map(|found| row_of(&found));
                prop_assert_eq!(found.as_ref(), self.rows.get(&time));
            }
        }
        for (snapshot, rows) in &self.snapshots {
            let scan = snapshot.range("t", times.clone()).expect("the table was there");
            prop_assert_eq!(&collect(scan), &between(rows, &times));
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
        prop_assert_eq!(
            info.tables[0].density.expect("sparse").rows,
            self.rows.len() as u64
        );
        prop_assert_eq!(info.tables[0].first, self.rows.keys().next().copied());
        prop_assert_eq!(info.tables[0].last, self.rows.keys().next_back().copied());
        Ok(())
    }
}

fn between(rows: &Rows, times: &RangeInclusive<i64>) -> Vec<TestRow> {
    rows.range(times.clone()).map(|(_, row)| row.clone()).collect()
}

fn collect(scan: Scan) -> Vec<TestRow> {
    scan.flat_map(|batch| rows_without_sequence(&batch.expect("reads")))
        .collect()
}

/// A row that was read by its time.
fn row_of(row: &bedload::Row) -> TestRow {
    let text = |column| match row.value(column) {
        Some(Value::Text(text)) => Some(text.to_owned()),
        None => None,
        other => panic!("no text: {other:?}"),
    };
    assert_eq!(row.value(1), Some(Value::Int(row.time())));
    TestRow {
        time: row.time(),
        number: match row.value(0) {
            Some(Value::Int(number)) => i32::try_from(number).expect("was one"),
            other => panic!("no number: {other:?}"),
        },
        measure: match row.value(2) {
            Some(Value::Float(measure)) => Some(measure),
            None => None,
            other => panic!("no measure: {other:?}"),
        },
        flag: match row.value(3) {
            Some(Value::Bool(flag)) => Some(flag),
            None => None,
            other => panic!("no flag: {other:?}"),
        },
        text: text(4),
        name: text(5).expect("never null"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_sparse_table_answers_like_the_model(
        ops in prop::collection::vec(op(), 1..50),
        setting in prop_oneof![
            Just(Setting { interval: 1, epoch: 0 }),
            Just(Setting { interval: 60, epoch: 0 }),
            Just(Setting { interval: 7, epoch: -23 }),
            Just(Setting { interval: 86_400_000, epoch: 3_600_000 }),
        ],
        background: bool,
    ) {
        let mut subject = Subject::new(setting, background);
        for op in ops {
            subject.apply(op)?;
        }
        subject.finish()?;
    }
}
