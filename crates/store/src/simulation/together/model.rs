//! Which rows a table must have, and which it may have besides, as they expire at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema};

use crate::error::Result;
use crate::rows::TableSchema;
use crate::scan::Scan;

/// How a table tells rows of one time apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It keeps them all.
    Rows,
    /// By their text.
    Keyed,
    /// Not at all: each time has one row.
    Grid,
}

/// A row. Ids ascend in the order of arrival, and all values but the time follow from the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) time: i64,
    pub(super) id: i64,
}

/// The texts of rows, by what [`text`] says of their ids.
pub(super) const TEXTS: [Option<&str>; 5] = [
    Some(""),
    Some("a"),
    Some("b"),
    Some("a text that is longer"),
    None,
];

pub(super) fn text(id: i64) -> usize {
    usize::try_from(id % 5).unwrap_or_default()
}

/// Ids are this far apart: the rest of an id says in how many of the columns that were added to its
/// table, the first ones, the row has values, unless they were dropped before.
pub(super) const ID_STEP: i64 = 8;

/// Where the columns that were added to a table begin.
pub(super) const FIRST_ADDED: usize = 3;

/// The most columns that are added to a table.
pub(super) const ADDED_MAX: usize = 7;

/// Up to which number of an added column a row may have values.
pub(super) fn width(id: i64) -> usize {
    usize::try_from(id % ID_STEP).unwrap_or_default()
}

/// The value of a row in an added column.
pub(super) fn added(id: i64, column: usize) -> Option<i64> {
    let number = i64::try_from(column).unwrap_or_default();
    let has_value = column < width(id) && id / ID_STEP % 3 != number % 3;
    has_value.then(|| id / ID_STEP % 50 * 10 + number)
}

pub(super) fn added_field(column: usize) -> Field {
    Field::new(format!("added {column}"), DataType::Int64, true)
}

/// The number of an added column, which its name tells whatever it was renamed to.
pub(super) fn number_of(name: &str) -> Option<usize> {
    let first = name.split(',').next()?;
    first.strip_prefix("added ")?.parse().ok()
}

/// The numbers of the columns that were added to a table, and not dropped since.
pub(super) fn added_columns(arrow: &Schema) -> Vec<usize> {
    let names = arrow.fields()[FIRST_ADDED..].iter().map(|field| field.name());
    names.map(|name| number_of(name).expect("it was added")).collect()
}

/// A batch of rows for a table of this schema.
pub(super) fn batch(rows: &[Row], schema: &TableSchema) -> RecordBatch {
    let times = rows.iter().map(|row| row.time);
    let texts: StringArray = rows.iter().map(|row| TEXTS[text(row.id)]).collect();
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(times)),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id))),
        Arc::new(texts),
    ];
    for number in added_columns(schema.arrow()) {
        let values = rows.iter().map(|row| added(row.id, number));
        arrays.push(Arc::new(values.collect::<Int64Array>()));
    }
    RecordBatch::try_new(schema.arrow().clone(), arrays).expect("columns of one length")
}

/// The rows of a scan, whose values must be those of their ids, and which must be in order.
pub(super) fn rows_of(scan: Scan) -> Result<Vec<Row>> {
    rows_with(scan, |_| true)
}

/// As [`rows_of`], where rows need have values only in the added columns of some numbers.
pub(super) fn rows_with(scan: Scan, is_whole: impl Fn(usize) -> bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in scan {
        let batch = batch?;
        let times = batch.column(0).as_primitive::<TimestampMillisecondType>();
        let ids = batch.column(1).as_primitive::<Int64Type>();
        let texts = batch.column(2).as_string::<i32>();
        for ((&time, &id), found) in times.values().iter().zip(ids.values()).zip(texts) {
            assert_eq!(found, TEXTS[text(id)], "the text of row {id}");
            rows.push(Row { time, id });
        }
        let added_columns = added_columns(batch.schema_ref());
        for (number, array) in added_columns.into_iter().zip(&batch.columns()[FIRST_ADDED..]) {
            for (id, found) in ids.values().iter().zip(array.as_primitive::<Int64Type>()) {
                if found.is_some() || is_whole(number) {
                    assert_eq!(found, added(*id, number), "row {id} in the added column {number}");
                }
            }
        }
    }
    assert!(rows.is_sorted(), "rows of one time stand as they arrived");
    Ok(rows)
}

/// Its time, and what tells it from others of that time.
type Key = (i64, usize);

/// The rows that a table must have, and those that it may have besides.
#[derive(Debug, Clone)]
pub(super) struct Model {
    kind: Kind,
    /// The number of the table, which another one of its name does not have.
    pub(super) table: u32,
    kept: BTreeMap<Key, i64>,
    /// Rows that were too old at some time, so that a flush may have removed them.
    expired: BTreeMap<Key, i64>,
    keep: Option<i64>,
    pub(super) is_paused: bool,
    /// How many columns were added to the table.
    pub(super) columns_added: usize,
    /// The numbers of those that were not dropped.
    pub(super) columns: Vec<usize>,
}

impl Model {
    pub(super) fn new(kind: Kind, table: u32) -> Self {
        Self {
            kind,
            table,
            kept: BTreeMap::new(),
            expired: BTreeMap::new(),
            keep: None,
            is_paused: false,
            columns_added: 0,
            columns: Vec::new(),
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    fn key(&self, row: Row) -> Key {
        let tells = match self.kind {
            Kind::Rows => usize::try_from(row.id).unwrap_or_default(),
            Kind::Keyed => text(row.id),
            Kind::Grid => 0,
        };
        (row.time, tells)
    }

    pub(super) fn append(&mut self, rows: &[Row]) {
        for &row in rows {
            let key = self.key(row);
            self.expired.remove(&key);
            self.kept.insert(key, row.id);
        }
        self.expire();
    }

    pub(super) fn delete(&mut self, times: &RangeInclusive<i64>) {
        self.kept.retain(|(time, _), _| !times.contains(time));
        self.expired.retain(|(time, _), _| !times.contains(time));
    }

    /// Takes back the rows from an id on.
    pub(super) fn retract(&mut self, first: i64) {
        self.kept.retain(|_, id| *id < first);
        self.expired.retain(|_, id| *id < first);
    }

    /// Makes the rows between two times what they were.
    pub(super) fn put_back(&mut self, was: &Self, times: &RangeInclusive<i64>) {
        self.delete(times);
        let within = |rows: &BTreeMap<Key, i64>| -> BTreeMap<Key, i64> {
            let within = rows.iter().filter(|((time, _), _)| times.contains(time));
            within.map(|(&key, &id)| (key, id)).collect()
        };
        self.kept.extend(within(&was.kept));
        self.expired.extend(within(&was.expired));
        self.expire();
    }

    /// Whether rows of the table expire.
    pub(super) fn expires(&self) -> bool {
        self.keep.is_some()
    }

    pub(super) fn keep(&mut self, keep: Option<i64>) {
        self.keep = keep;
        self.expire();
    }

    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.expire();
    }

    fn expire(&mut self) {
        let newest = self
            .kept
            .last_key_value()
            .into_iter()
            .chain(self.expired.last_key_value());
        let newest = newest.map(|((time, _), _)| *time).max();
        if let (Some(keep), Some(newest), false) = (self.keep, newest, self.is_paused) {
            let young = self.kept.split_off(&(newest - keep, 0));
            self.expired.append(&mut self.kept);
            self.kept = young;
        }
    }

    /// Fails unless a table may have these rows.
    pub(super) fn check(&self, found: &[Row]) -> Result<(), String> {
        let mut missing = self.kept.clone();
        for &row in found {
            let key = self.key(row);
            if missing.remove(&key) != Some(row.id) && self.expired.get(&key) != Some(&row.id) {
                return Err(format!(
                    "{:?} has {} rows, with {row:?}, of which {:?} and {:?} are known",
                    self.kind,
                    found.len(),
                    self.kept.get(&key),
                    self.expired.get(&key),
                ));
            }
        }
        match missing.first_key_value() {
            None => Ok(()),
            Some((key, id)) => Err(format!(
                "{:?} has {} rows and lacks {} of {}, from {id} at {key:?} to {:?}",
                self.kind,
                found.len(),
                missing.len(),
                self.kept.len(),
                missing.last_key_value(),
            )),
        }
    }

    /// Forgets rows that are not found: they never come back.
    pub(super) fn saw(&mut self, found: &[Row]) {
        let found: BTreeSet<Key> = found.iter().map(|&row| self.key(row)).collect();
        self.expired.retain(|key, _| found.contains(key));
    }

    /// Fails unless these rows are all that a reader has not yet seen, each of them once.
    pub(super) fn check_new(&self, new: &[Row], seen: &mut BTreeSet<i64>) -> Result<(), String> {
        for &row in new {
            if !seen.insert(row.id) {
                return Err(format!("{:?}: {row:?} is new again", self.kind));
            }
            let key = self.key(row);
            if self.kept.get(&key) != Some(&row.id) && self.expired.get(&key) != Some(&row.id) {
                return Err(format!("{:?}: {row:?} is new and is not there", self.kind));
            }
        }
        match self.kept.iter().find(|(_, id)| !seen.contains(id)) {
            None => Ok(()),
            Some((key, id)) => Err(format!("{:?}: {id} at {key:?} was passed over", self.kind)),
        }
    }
}
