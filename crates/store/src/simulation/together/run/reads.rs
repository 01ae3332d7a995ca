//! Rows that are read in some way or other, which must be those of a whole scan.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, StringArray};
use bedload_columns::{Operator, Predicate};

use super::super::model::{FIRST_ADDED, Row, TEXTS, added, added_columns, number_of, rows_of, text};
use super::{Run, TABLES};
use crate::error::Result;
use crate::scan::Scan;
use crate::store::Value;

/// The numbers of columns, which may have any name.
const ID: usize = 1;
const TEXT: usize = 2;

/// Which rows a scan wants.
#[derive(Debug, Clone, Copy)]
enum Condition {
    Any,
    /// Rows whose id is at least this.
    From(i64),
    /// Rows with the same text as the row of this id.
    TextOf(i64),
    WithoutText,
    /// Rows with the same value in the added column of a number as the row of this id.
    AddedOf(usize, i64),
    WithoutAdded(usize),
}

impl Condition {
    fn holds(self, id: i64) -> bool {
        match self {
            Self::Any => true,
            Self::From(first) => id >= first,
            Self::TextOf(other) => TEXTS[text(id)].is_some() && text(id) == text(other),
            Self::WithoutText => TEXTS[text(id)].is_none(),
            Self::AddedOf(column, other) => {
                added(id, column).is_some() && added(id, column) == added(other, column)
            }
            Self::WithoutAdded(column) => added(id, column).is_none(),
        }
    }

    fn filter(self, scan: Scan, names: &[String]) -> Result<Scan> {
        let compare = |operator, literal: &dyn arrow_array::Array| {
            Predicate::compare(operator, literal).expect("comparable")
        };
        let name = |number| {
            let name = names.iter().find(|name| number_of(name) == Some(number));
            name.expect("it has the column")
        };
        match self {
            Self::Any => Ok(scan),
            Self::From(first) => scan.filter(
                &names[ID],
                compare(Operator::GtEq, &Int64Array::from(vec![first])),
            ),
            Self::TextOf(other) => {
                let literal = StringArray::from(vec![TEXTS[text(other)]]);
                scan.filter(&names[TEXT], compare(Operator::Eq, &literal))
            }
            Self::WithoutText => scan.filter(&names[TEXT], Predicate::is_null()),
            Self::AddedOf(column, other) => {
                let literal = Int64Array::from(vec![added(other, column)]);
                scan.filter(name(column), compare(Operator::Eq, &literal))
            }
            Self::WithoutAdded(column) => scan.filter(name(column), Predicate::is_null()),
        }
    }
}

/// The ids of the rows of a scan, as it gives them.
fn ids_of(scan: Scan, names: &[String]) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for batch in scan.columns(&[&names[ID]])? {
        ids.extend(batch?.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(ids)
}

impl Run {
    /// Reads a table, as it is or as a view has it, between some times, from either end, under some
    /// condition, to the end or not.
    pub(super) fn read(&mut self) {
        let (number, which) = (self.rng.index(TABLES.len()), self.rng.index(5));
        let (name, _) = TABLES[number];
        let (snapshot, is_now) = match self.views.get(which) {
            Some(view) => (view.snapshot.clone(), false),
            None => (self.store().snapshot(), true),
        };
        let all = snapshot.range(name, ..).and_then(rows_of).expect("a sound disk");
        let some = all.get(self.rng.index(all.len().max(1)));
        let near = some.copied().unwrap_or(Row { time: 0, id: 0 });
        let from = near.time - self.below(300);
        let times = match self.below(4) {
            0 => i64::MIN..=i64::MAX,
            1 => near.time..=near.time,
            _ => from..=from + self.below(3000),
        };
        let schema = snapshot.schema(name).expect("there");
        let (names, columns) = (schema.names(), added_columns(schema.arrow()));
        let some_column = columns.get(self.rng.index(columns.len().max(1))).copied();
        let condition = match (self.below(8), some_column) {
            (0, _) => Condition::From(near.id - self.below(100)),
            (1, _) => Condition::TextOf(near.id),
            (2, _) => Condition::WithoutText,
            (3, Some(column)) => Condition::AddedOf(column, near.id),
            (4, Some(column)) => Condition::WithoutAdded(column),
            _ => Condition::Any,
        };
        let is_reverse = self.below(2) == 0;
        let limit = if self.below(3) == 0 {
            self.below(50)
        } else {
            i64::MAX
        }
        .unsigned_abs();
        self.say(("reads", name, is_now, &times, condition, is_reverse, limit));

        let is_wanted = |row: &&Row| times.contains(&row.time) && condition.holds(row.id);
        let mut wanted: Vec<i64> = all.iter().filter(is_wanted).map(|row| row.id).collect();
        if is_reverse {
            wanted.reverse();
        }
        wanted.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let scan = || {
            let scan = condition.filter(snapshot.range(name, times.clone())?, &names)?;
            let scan = if is_reverse { scan.rev() } else { scan };
            Ok(scan.limit(limit))
        };
        let ids = scan().and_then(|scan| ids_of(scan, &names));
        assert_eq!(ids.expect("a sound disk"), wanted);
        let count = scan().and_then(Scan::count).expect("a sound disk");
        assert_eq!(count, wanted.len() as u64);
        if is_now {
            let last = all.iter().rfind(|row| row.time == near.time);
            let found = self.table(number).get(near.time).expect("a sound disk");
            let found = found.as_ref();
            let id = found.and_then(|row| row.value(ID));
            assert_eq!(id, last.map(|row| Value::Int(row.id)));
            for (position, &column) in (FIRST_ADDED..).zip(&columns) {
                let value = found.and_then(|row| row.value(position));
                let wanted = last.and_then(|row| added(row.id, column));
                assert_eq!(value, wanted.map(Value::Int));
            }
        }
    }
}
