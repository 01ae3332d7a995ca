//! The contract of tables: random operations against a map, with heads and pages so small that
//! everything happens all the time. The core is the same for every layout; what a layout does in
//! its own way stands in its own file.

mod indexed;
mod sparse;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use arrow_array::{Int32Array, StringArray};
use bedload::{
    Appended, Grid, Layout, Mark, Operator, Options, Predicate, Scan, Snap, Snapshot, Store, Table, Value,
};
use proptest::prelude::*;

use crate::rows::{self, TestRow, batch, rows_without_sequence, schema};

/// A layout, and which times there are.
#[derive(Debug, Clone, Copy)]
enum Setting {
    Indexed,
    Sparse { interval: i64, epoch: i64 },
}

impl Setting {
    fn layout(self) -> Layout {
        match self {
            Self::Indexed => Layout::Indexed,
            Self::Sparse { interval, epoch } => {
                Layout::Sparse(Grid::every(interval).expect("positive").from(epoch))
            }
        }
    }

    /// The time of a tick, before and after 1970.
    fn time(self, tick: i64) -> i64 {
        match self {
            Self::Indexed => tick,
            Self::Sparse { interval, epoch } => epoch + tick * interval,
        }
    }

    fn times(self, ticks: &RangeInclusive<i64>) -> RangeInclusive<i64> {
        self.time(*ticks.start())..=self.time(*ticks.end())
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// Rows at these ticks, in this order, some of them at the same.
    Append {
        ticks: Vec<i64>,
    },
    /// Rows at neighbouring ticks.
    Fill {
        from: i64,
        rows: i64,
    },
    Delete {
        ticks: RangeInclusive<i64>,
    },
    DeleteAll,
    Flush,
    /// The store is dropped without a flush, and opened again.
    Reopen,
    Snapshot,
    /// The store is copied, and the copy looked at.
    Backup,
    Check {
        ticks: RangeInclusive<i64>,
        limit: u32,
    },
    Own(Own),
}

/// The features of a layout.
#[derive(Debug, Clone)]
enum Own {
    Mark,
    Retract,
    /// Rows at any times.
    AppendAt {
        times: Vec<i64>,
    },
    DeleteBetween {
        times: RangeInclusive<i64>,
    },
    /// Rows at any times, moved to the grid.
    Snapped {
        times: Vec<i64>,
        snap: Snap,
    },
}

fn op(own: impl Strategy<Value = Op> + 'static) -> impl Strategy<Value = Op> {
    let tick = prop_oneof![
        4 => 0..200i64,
        4 => -300..300i64,
        1 => -5000..5000i64,
        1 => prop_oneof![Just(-900_000i64), Just(900_000)],
    ];
    let ticks = (tick.clone(), tick.clone()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    prop_oneof![
        6 => prop::collection::vec(tick.clone(), 1..60).prop_map(|ticks| Op::Append { ticks }),
        1 => (tick, 1..400i64).prop_map(|(from, rows)| Op::Fill { from, rows }),
        1 => ticks.clone().prop_map(|ticks| Op::Delete { ticks }),
        1 => prop_oneof![5 => Just(Op::Flush), 1 => Just(Op::DeleteAll), 1 => Just(Op::Backup)],
        1 => Just(Op::Flush),
        1 => Just(Op::Reopen),
        1 => Just(Op::Snapshot),
        3 => (ticks, 0..500u32).prop_map(|(ticks, limit)| Op::Check { ticks, limit }),
        3 => own,
    ]
}

/// By time and, where a time may have several rows, by sequence number.
type Rows = BTreeMap<(i64, u64), TestRow>;

struct Subject {
    setting: Setting,
    dir: tempfile::TempDir,
    options: Options,
    open: Option<(Store, Table)>,
    rows: Rows,
    number: i32,
    backups: u32,
    /// A mark, and the sequence number of the first row behind it.
    mark: Option<(Mark, u64)>,
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
            backups: 0,
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
        let layout = self.setting.layout();
        let table = match store.table("t") {
            Ok(table) => table,
            Err(_) => store
                .create_table_as("t", schema(), layout)
                .expect("a fresh table"),
        };
        assert_eq!(table.layout(), layout);
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

    fn append(&mut self, times: impl Iterator<Item = i64>) -> Result<(), TestCaseError> {
        let rows = self.numbered(times);
        let appended = self.table().append(&batch(&rows)).expect("appends");
        prop_assert_eq!(appended.moved, 0);
        self.appended(rows, appended)
    }

    /// Takes note of rows that were appended.
    fn appended(&mut self, rows: Vec<TestRow>, appended: Appended) -> Result<(), TestCaseError> {
        prop_assert_eq!(appended.rows, rows.len() as u64);
        let collided = self.collided(&rows);
        prop_assert_eq!(appended.collided, collided);
        for (row, sequence) in rows.into_iter().zip(appended.first_sequence..) {
            self.rows.insert((row.time, self.order(sequence)), row);
        }
        Ok(())
    }

    fn delete(&mut self, times: RangeInclusive<i64>) {
        self.table().delete_range(times.clone()).expect("deletes");
        self.rows.retain(|(time, _), _| !times.contains(time));
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        let setting = self.setting;
        match op {
            Op::Append { ticks } => self.append(ticks.into_iter().map(|tick| setting.time(tick)))?,
            Op::Fill { from, rows } => self.append((from..from + rows).map(|tick| setting.time(tick)))?,
            Op::Delete { ticks } => self.delete(setting.times(&ticks)),
            Op::DeleteAll => self.delete(i64::MIN..=i64::MAX),
            Op::Flush => self.store().flush().expect("flushes"),
            Op::Reopen => self.reopen(),
            Op::Snapshot => self.snapshots.push((self.store().snapshot(), self.rows.clone())),
            Op::Backup => self.backup()?,
            Op::Check { ticks, limit } => self.check(setting.times(&ticks), limit)?,
            Op::Own(own) => self.apply_own(own)?,
        }
        Ok(())
    }

    fn backup(&mut self) -> Result<(), TestCaseError> {
        self.backups += 1;
        let to = self.dir.path().join(format!("copy {}", self.backups));
        let report = self.store().backup(&to).expect("copies");
        prop_assert_eq!(report.rows, self.rows.len() as u64);
        let copy = self.options.clone().create(false).open(&to).expect("a store");
        let table = copy.table("t").expect("copied");
        prop_assert_eq!(table.layout(), self.setting.layout());
        let all = i64::MIN..=i64::MAX;
        prop_assert_eq!(
            &self.collect(table.range(..).expect("there")),
            &self.between(&all)
        );
        Ok(())
    }

    /// Compares ranges of the table, both ways and with a limit, single rows, and every snapshot,
    /// with the model.
    fn check(&self, times: RangeInclusive<i64>, limit: u32) -> Result<(), TestCaseError> {
        let expected = self.between(&times);
        let scan = || self.table().range(times.clone()).expect("a table");
        prop_assert_eq!(&self.collect(scan()), &expected);
        prop_assert_eq!(scan().count().expect("reads"), expected.len() as u64);
        let reversed: Vec<_> = expected.iter().rev().cloned().collect();
        prop_assert_eq!(&self.collect(scan().rev()), &reversed);
        let first: Vec<_> = expected.iter().take(limit as usize).cloned().collect();
        prop_assert_eq!(&self.collect(scan().limit(limit.into())), &first);
        let last: Vec<_> = reversed.into_iter().take(limit as usize).collect();
        prop_assert_eq!(&self.collect(scan().rev().limit(limit.into())), &last);
        self.check_filters(scan, &expected, limit)?;
        let next = self.setting.time(1) - self.setting.time(0);
        for (_, row) in expected.iter().step_by(37) {
            for time in [row.time.wrapping_sub(1), row.time, row.time.wrapping_add(next)] {
                let found = self.table().get(time).expect("reads");
                let found = found.map(|found| row_of(&found));
                let last = self.between(&(time..=time)).pop().map(|(_, row)| row);
                prop_assert_eq!(found, last);
            }
        }
        for (snapshot, rows) in &self.snapshots {
            let scan = snapshot.range("t", times.clone()).expect("the table was there");
            prop_assert_eq!(&self.collect(scan), &between(rows, &times));
        }
        Ok(())
    }

    /// Compares filtered scans with the model.
    fn check_filters(
        &self,
        scan: impl Fn() -> Scan,
        all: &[(u64, TestRow)],
        limit: u32,
    ) -> Result<(), TestCaseError> {
        let number = limit.cast_signed() * 3;
        let from =
            || Predicate::compare(Operator::GtEq, &Int32Array::from(vec![number])).expect("comparable");
        let missing = Predicate::is_null();
        let names = StringArray::from(vec!["row 5".to_owned(), format!("row {number}"), "no row".into()]);
        let named = Predicate::is_in(&names).expect("comparable");
        let is_named = |row: &TestRow| names.iter().flatten().any(|name| row.name == name);
        let of = |keep: &dyn Fn(&TestRow) -> bool| -> Vec<(u64, TestRow)> {
            all.iter().filter(|(_, row)| keep(row)).cloned().collect()
        };
        let rows = |scan: Scan| self.collect(scan);
        let filtered = || scan().filter("number", from()).expect("it fits");
        let expected = of(&|row| row.number >= number);
        prop_assert_eq!(&rows(filtered()), &expected);
        prop_assert_eq!(filtered().count().expect("reads"), expected.len() as u64);
        let mut reversed = expected;
        reversed.reverse();
        prop_assert_eq!(&rows(filtered().rev()), &reversed);
        reversed.truncate(limit as usize);
        prop_assert_eq!(&rows(filtered().rev().limit(limit.into())), &reversed);
        let both = filtered().filter("measure", missing).expect("it fits");
        prop_assert_eq!(
            &rows(both),
            &of(&|row| row.number >= number && row.measure.is_none())
        );
        prop_assert_eq!(
            &rows(scan().filter("name", named).expect("it fits")),
            &of(&is_named)
        );
        // The column that is compared is not asked for.
        let flags = filtered().columns(&["flag"]).expect("there").map(|batch| {
            let batch = batch.expect("reads");
            prop_assert_eq!(batch.num_columns(), 1);
            Ok(batch.num_rows())
        });
        let flags = flags.sum::<Result<usize, TestCaseError>>()?;
        prop_assert_eq!(flags, of(&|row| row.number >= number).len());
        Ok(())
    }

    fn between(&self, times: &RangeInclusive<i64>) -> Vec<(u64, TestRow)> {
        between(&self.rows, times)
    }

    fn finish(mut self) -> Result<(), TestCaseError> {
        let all = i64::MIN..=i64::MAX;
        self.check(all.clone(), 10)?;
        self.reopen();
        self.check(all.clone(), 10)?;
        self.store().flush().expect("flushes");
        self.check(all, 10)?;
        let rows = self.rows.len() as u64;
        let report = self.store().verify().expect("reads");
        prop_assert_eq!(&report.problems, &[]);
        prop_assert_eq!(report.rows, rows);
        let info = self.store().info().expect("reads");
        prop_assert_eq!(info.tables[0].rows, rows);
        let density = info.tables[0].density.map_or(rows, |density| density.rows);
        prop_assert_eq!(density, rows);
        prop_assert_eq!(info.tables[0].first, self.rows.keys().next().map(|key| key.0));
        prop_assert_eq!(info.tables[0].last, self.rows.keys().next_back().map(|key| key.0));
        if self.number % 4 == 0 {
            self.backup()
        } else {
            Ok(())
        }
    }
}

fn between(rows: &Rows, times: &RangeInclusive<i64>) -> Vec<(u64, TestRow)> {
    let range = rows.range((*times.start(), 0)..=(*times.end(), u64::MAX));
    range.map(|(&(_, order), row)| (order, row.clone())).collect()
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

/// The answers in which layouts differ.
impl Subject {
    /// The column that tells rows of one time apart.
    fn order(&self, sequence: u64) -> u64 {
        match self.setting {
            Setting::Indexed => sequence,
            Setting::Sparse { .. } => 0,
        }
    }

    /// Rows of a batch whose place a later one of it takes.
    fn collided(&self, rows: &[TestRow]) -> u64 {
        match self.setting {
            Setting::Indexed => 0,
            Setting::Sparse { .. } => sparse::repeated(rows),
        }
    }

    /// The rows of a scan, by what tells those of one time apart.
    fn collect(&self, scan: Scan) -> Vec<(u64, TestRow)> {
        match self.setting {
            Setting::Indexed => rows::collect(scan).expect("reads"),
            Setting::Sparse { .. } => scan
                .flat_map(|batch| rows_without_sequence(&batch.expect("reads")))
                .map(|row| (0, row))
                .collect(),
        }
    }

    fn apply_own(&mut self, own: Own) -> Result<(), TestCaseError> {
        match own {
            Own::Mark => self.mark(),
            Own::Retract if matches!(self.setting, Setting::Indexed) => self.retract(),
            Own::Retract => {
                let mark = self.table().mark();
                let refused = self.table().retract_since(mark);
                prop_assert!(
                    matches!(refused, Err(bedload::Error::Schema { .. })),
                    "{:?}",
                    refused
                );
                Ok(())
            }
            Own::AppendAt { times } => self.append(times.into_iter()),
            Own::DeleteBetween { times } => {
                self.delete(times);
                Ok(())
            }
            Own::Snapped { times, snap } => self.append_snapped(times, snap),
        }
    }
}
