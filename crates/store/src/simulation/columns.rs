//! Columns that are added, renamed and dropped between commits, with the power cut anywhere: each
//! row keeps its values, and is null in the columns that its handle did not have.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use bedload_columns::{Operator, Predicate};
use bedload_testkit::Rng;

use super::power::{cuts, each_event};
use super::say;
use super::workload::{STORE, columns, open, options};
use crate::disk::sim::{Access, Note, SimDisk, Trace};
use crate::error::Result;
use crate::rows::TableSchema;
use crate::store::{Store, Table, Value};

const TABLE: &str = "growing";
const STEPS: usize = 40;

/// Columns have numbers in the order in which the table got them: the time, the id of the row, its
/// text, and those that are added. The first two stay.
const KEPT: usize = 2;
const CREATED: usize = 3;

/// The most columns that are added.
const ADDED_MAX: usize = 6;

/// A column: its number and name.
type Column = (usize, String);

/// A row: its id, and a bit for each column of its handle.
type Row = (i64, u32);

/// The columns and rows that the table is expected to have.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    /// How many columns the table has had.
    count: usize,
    /// Those that it has.
    columns: Vec<Column>,
    /// The rows by time.
    rows: BTreeMap<i64, Row>,
}

/// A handle, and the columns that it has.
#[derive(Debug, Clone)]
struct Handle {
    table: Table,
    columns: Vec<Column>,
}

impl Handle {
    fn new(table: Table, state: &State) -> Self {
        let columns = state.columns.clone();
        Self { table, columns }
    }

    fn bits(&self) -> u32 {
        self.columns.iter().map(|(number, _)| 1 << number).sum()
    }

    /// Rows of these ids, each with a time of its own, some late.
    fn batch(&self, ids: std::ops::Range<i64>, scramble: i64) -> RecordBatch {
        let array = |(number, _): &Column| -> ArrayRef {
            match number {
                0 => {
                    let times = ids.clone().map(|id| time_of(id, scramble));
                    Arc::new(TimestampMillisecondArray::from_iter_values(times))
                }
                1 => Arc::new(Int64Array::from_iter_values(ids.clone())),
                _ => array(*number, ids.clone().map(|id| value(id, *number))),
            }
        };
        let arrays = self.columns.iter().map(array).collect();
        RecordBatch::try_new(self.table.schema().arrow().clone(), arrays).expect("the columns of the handle")
    }
}

fn added_column(number: usize) -> Field {
    let kinds = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Boolean,
        DataType::Float64,
    ];
    Field::new(
        format!("added {number}"),
        kinds[(number - CREATED) % kinds.len()].clone(),
        true,
    )
}

/// The value of a row in a column; some rows have none in those that were added.
fn value(id: i64, number: usize) -> Option<i64> {
    let has_value = number < CREATED || (id + number.cast_signed() as i64) % 5 > 0;
    has_value.then(|| id * 10 + number.cast_signed() as i64)
}

fn array(number: usize, values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let text = |value: i64| value.to_string();
    match number.checked_sub(CREATED).map(|added| added % 4) {
        Some(0) => Arc::new(values.collect::<Int64Array>()),
        None | Some(1) => Arc::new(values.map(|value| value.map(text)).collect::<StringArray>()),
        Some(2) => Arc::new(
            values
                .map(|value| value.map(|value| value % 3 == 0))
                .collect::<BooleanArray>(),
        ),
        _ => Arc::new(
            values
                .map(|value| value.map(|value| value as f64))
                .collect::<Float64Array>(),
        ),
    }
}

fn time_of(id: i64, scramble: i64) -> i64 {
    id * scramble % (1 << 20)
}

/// Steps on one table, each of which is done or not after a power cut, and the state after each.
fn trace(seed: u64) -> Result<(Trace, Vec<State>)> {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let mut rng = Rng::new(seed);
    // Odd, so that no two ids have one time.
    let scramble = [1, 7919][rng.index(2)];
    let mut store = open(&disk, options())?;
    store.create_table(TABLE, TableSchema::new(columns(), "at")?)?;
    let names = columns()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect::<Vec<_>>();
    let mut states = vec![State {
        count: CREATED,
        columns: (0..).zip(names).collect(),
        rows: BTreeMap::new(),
    }];
    let mut handles = vec![Handle::new(store.table(TABLE)?, &states[0])];
    let (mut next, mut renamed) = (0, 0);
    let step = |done: &mut dyn FnMut() -> Result<()>| {
        disk.note(Note::Begun { writer: 0 });
        done()?;
        disk.note(Note::Acknowledged { writer: 0 });
        Ok::<_, crate::error::Error>(())
    };
    while states.len() <= STEPS {
        let mut state = states[states.len() - 1].clone();
        let handle = handles[rng.index(handles.len())].clone();
        let ids = next..next + [1, 2, 3, 45, 200][rng.index(5)];
        let mut insert = |state: &mut State| {
            next = ids.end;
            let rows = ids.clone().map(|id| (time_of(id, scramble), (id, handle.bits())));
            state.rows.extend(rows);
        };
        match rng.below(14) {
            0 => {
                store.flush()?;
                continue;
            }
            1 => {
                drop(handle);
                handles.clear();
                store.close()?;
                store = open(&disk, options())?;
                handles.push(Handle::new(store.table(TABLE)?, &state));
                continue;
            }
            2 => {
                let from = rng.below(1 << 20).cast_signed();
                step(&mut || handle.table.delete_range(from..from + 10_000))?;
                state.rows.retain(|time, _| !(from..from + 10_000).contains(time));
            }
            // Rows that are prepared before the columns change, and committed after it.
            change @ 3..=6 => {
                let mut prepared = store.write_batch();
                prepared.append(&handle.table, &handle.batch(ids.clone(), scramble))?;
                let mut changed = None;
                if change < 5 && state.count < CREATED + ADDED_MAX {
                    let column = added_column(state.count);
                    step(&mut || {
                        changed = Some(store.add_columns(TABLE, [column.clone()])?);
                        Ok(())
                    })?;
                    state.columns.push((state.count, column.name().clone()));
                    state.count += 1;
                } else if state.columns.len() > KEPT {
                    let dropped = KEPT + rng.index(state.columns.len() - KEPT);
                    step(&mut || {
                        changed = Some(store.drop_column(TABLE, &state.columns[dropped].1)?);
                        Ok(())
                    })?;
                    state.columns.remove(dropped);
                } else {
                    continue;
                }
                handles.extend(changed.map(|table| Handle::new(table, &state)));
                states.push(state.clone());
                let mut prepared = Some(prepared);
                step(&mut || prepared.take().map_or(Ok(()), |batch| batch.commit().map(drop)))?;
                insert(&mut state);
            }
            // Names of old handles are given to other columns.
            7 | 8 => {
                let column = rng.index(state.columns.len());
                let used = ["x", "y", "at", "id", "added 3"][rng.index(5)].to_owned();
                renamed += 1;
                let new = match state.columns.iter().any(|(_, name)| *name == used) {
                    true => format!("renamed {renamed}"),
                    false => used,
                };
                let mut changed = None;
                step(&mut || {
                    changed = Some(store.rename_column(TABLE, &state.columns[column].1, &new)?);
                    Ok(())
                })?;
                state.columns[column].1 = new;
                handles.extend(changed.map(|table| Handle::new(table, &state)));
            }
            _ => {
                let rows = handle.batch(ids.clone(), scramble);
                step(&mut || handle.table.append(&rows).map(drop))?;
                insert(&mut state);
            }
        }
        states.push(state);
        if rng.below(6) == 0 {
            check(&store, &states[states.len() - 1])?;
            check_older(&handles, &states[states.len() - 1])?;
        }
    }
    check(&store, &states[states.len() - 1])?;
    store.close()?;
    Ok((disk.trace(begun), states))
}

/// The rows of a table by time, with a bit for each of these columns in which they have a value,
/// which must be that of their id.
fn rows_of(table: &Table, columns: &[Column]) -> Result<BTreeMap<i64, Row>> {
    let mut rows = BTreeMap::new();
    for found in table.range(..)? {
        let found = found?;
        let names = found.schema_ref().fields().iter().map(|field| field.name());
        assert!(names.eq(columns.iter().map(|(_, name)| name)), "{columns:?}");
        let times = found.column(0).as_primitive::<TimestampMillisecondType>();
        let ids = found.column(1).as_primitive::<Int64Type>();
        for (row, (&time, &id)) in times.values().iter().zip(ids.values()).enumerate() {
            let mut bits = 0;
            for ((number, _), column) in columns.iter().zip(found.columns()) {
                if column.is_null(row) {
                    continue;
                }
                bits |= 1 << number;
                if *number >= KEPT {
                    let expected = array(*number, std::iter::once(value(id, *number)));
                    let found = column.slice(row, 1);
                    assert_eq!(found.as_ref(), &*expected, "id {id}, column {number}");
                }
            }
            rows.insert(time, (id, bits));
        }
    }
    Ok(rows)
}

/// Whether the table of a store has the columns and rows of a state.
fn is_in(store: &Store, state: &State) -> Result<bool> {
    let table = store.table(TABLE)?;
    let fields = table.schema().arrow().fields();
    let names = fields.iter().map(|field| field.name());
    if !names.eq(state.columns.iter().map(|(_, name)| name)) || fields.len() != state.columns.len() {
        return Ok(false);
    }
    // Columns of one name may have other types in other states.
    let kinds = state.columns.iter().filter(|(number, _)| *number >= CREATED);
    let types = kinds.map(|(number, _)| added_column(*number).data_type().clone());
    let of_table = fields.iter().zip(&state.columns);
    let of_table = of_table.filter(|(_, (number, _))| *number >= CREATED);
    if !types.eq(of_table.map(|(field, _)| field.data_type().clone())) {
        return Ok(false);
    }
    Ok(rows_of(&table, &state.columns)? == seen(state))
}

/// The rows of a state, with a bit for each column of the table in which they have a value.
fn seen(state: &State) -> BTreeMap<i64, Row> {
    let bits = |id: i64, of_handle: u32| -> u32 {
        let numbers = state.columns.iter().map(|(number, _)| *number);
        let with_value = numbers.filter(|&number| value(id, number).is_some());
        with_value.map(|number| of_handle & 1 << number).sum()
    };
    let seen = |(&time, &(id, of_handle)): (&i64, &Row)| (time, (id, bits(id, of_handle)));
    state.rows.iter().map(seen).collect()
}

/// Reads a table in every way and compares the rows.
fn check(store: &Store, state: &State) -> Result<()> {
    let table = store.table(TABLE)?;
    let rows = seen(state);
    assert_eq!(rows_of(&table, &state.columns)?, rows);
    assert_eq!(table.range(..)?.count()?, rows.len() as u64);
    for (number, name) in &state.columns[KEPT..] {
        let nulls = rows.values().filter(|(_, bits)| bits & 1 << number == 0).count();
        let is_null = table.range(..)?.filter(name, Predicate::is_null())?;
        assert_eq!(is_null.count()?, nulls as u64, "nulls of {name}");
        if *number == CREATED {
            let least = Int64Array::from(vec![5 * i64::try_from(rows.len()).expect("few")]);
            let compared = Predicate::compare(Operator::GtEq, &least).expect("one number");
            let values = rows.values().filter(|(_, bits)| bits & 1 << number != 0);
            let values = values.filter_map(|(id, _)| value(*id, *number));
            let expected = values.filter(|&value| value >= least.value(0)).count();
            let found = table.range(..)?.filter(name, compared)?.rev();
            assert_eq!(found.count()?, expected as u64, "of {name}");
        }
    }
    for (&time, &(id, bits)) in rows.iter().step_by(17) {
        let row = table.get(time)?.expect("it is there");
        assert_eq!(row.value(1), Some(Value::Int(id)));
        for (position, (number, _)) in state.columns.iter().enumerate().skip(KEPT) {
            let expected = value(id, *number).filter(|_| bits & 1 << number != 0);
            let expected = array(*number, std::iter::once(expected));
            assert_eq!(
                row.value(position),
                Value::at(&expected, 0),
                "id {id}, column {number}"
            );
        }
        assert_eq!(row.value(state.columns.len()), None);
    }
    assert_eq!(store.verify()?.problems, []);
    Ok(())
}

/// Handles read the columns that they had, under the names that these had. In those that were
/// dropped since, a row need not have its value.
fn check_older(handles: &[Handle], state: &State) -> Result<()> {
    for handle in handles {
        let rows = rows_of(&handle.table, &handle.columns)?;
        assert!(rows.keys().eq(state.rows.keys()));
        for (time, (id, bits)) in rows {
            let (expected, of_handle) = state.rows[&time];
            assert_eq!((id, bits & !of_handle), (expected, 0));
        }
    }
    Ok(())
}

#[test]
fn changed_columns_survive_power_cuts() {
    let (mut tried, mut widest, mut dropped) = (0, 0, 0);
    for seed in 0.. {
        let (trace, states) = trace(seed).expect("a sound disk");
        let last = &states[states.len() - 1];
        widest = widest.max(last.count);
        dropped += last.count - last.columns.len();
        each_event(&trace, seed, |event, replay, progress| {
            if (event as u64 + seed).is_multiple_of(5) && tried < cuts() / 2 {
                tried += 1;
                let image = replay.image(seed << 32 | event as u64);
                let store = open(&image, options()).expect("opens");
                if progress.begun[0] == 0 && store.tables().is_empty() {
                    return;
                }
                let allowed = progress.acknowledged[0]..=progress.begun[0];
                let mut steps = allowed.clone();
                let steps = steps.find(|&steps| is_in(&store, &states[steps]).expect("reads"));
                let steps = steps.unwrap_or_else(|| {
                    panic!("seed {seed}, event {event}: not the state after {allowed:?} steps")
                });
                check(&store, &states[steps]).expect("reads");
            }
        });
        if tried >= cuts() / 2 {
            break;
        }
    }
    assert_eq!(widest, CREATED + ADDED_MAX);
    assert!(dropped > 3, "{dropped}");
    say(&format!(
        "{tried} power cuts while columns are added, renamed and dropped"
    ));
}

/// Rows of short commits, which have values in a column, and others, which have none any more, wait
/// together in memory for a reader.
#[test]
fn short_commits_fit_together_while_a_column_is_dropped() {
    let disk = SimDisk::new(1);
    let store = open(&disk, options()).expect("creates");
    let required = Field::new("required", DataType::Utf8, false);
    let fields = columns().fields()[..KEPT].to_vec();
    let fields: Vec<_> = fields.into_iter().chain([Arc::new(required)]).collect();
    let schema = TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable");
    let older = store.create_table(TABLE, schema).expect("fresh");
    let row = |table: &Table, id: i64| {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(vec![id])),
            Arc::new(Int64Array::from(vec![id])),
            Arc::new(StringArray::from(vec!["text"])),
        ];
        let arrow = table.schema().arrow().clone();
        arrays.truncate(arrow.fields().len());
        RecordBatch::try_new(arrow, arrays).expect("the columns of the handle")
    };
    let appended = Arc::new(AtomicBool::new(false));
    let data = Path::new(STORE).join("data");
    disk.interrupt(Access::Write, &data, {
        let (older, batch, appended) = (older.clone(), row(&older, 0), appended.clone());
        move || {
            older.append(&batch).expect("a sound disk");
            appended.store(true, Ordering::Relaxed);
        }
    });
    let newer = store.drop_column(TABLE, "required").expect("drops");
    assert!(appended.load(Ordering::Relaxed));
    newer.append(&row(&newer, 1)).expect("a sound disk");
    let read = || {
        let batches = older.range(..).expect("there");
        let rows = batches.flat_map(|batch| {
            let batch = batch.expect("reads");
            let texts = batch.column(KEPT).as_string::<i32>().iter();
            texts.map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
        });
        rows.collect::<Vec<_>>()
    };
    let expected = [Some("text".to_owned()), None];
    assert_eq!(read(), expected);
    store.flush().expect("a sound disk");
    assert_eq!(read(), expected);
}
