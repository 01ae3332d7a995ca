//! Columns that are added and renamed between commits, with the power cut anywhere: each row keeps
//! its values, and is null in the columns that its handle did not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field};
use bedload_columns::{Operator, Predicate};
use bedload_testkit::Rng;

use super::power::{cuts, each_event};
use super::say;
use super::workload::{columns, open, options};
use crate::disk::sim::{Note, SimDisk, Trace};
use crate::error::Result;
use crate::rows::TableSchema;
use crate::store::{Store, Table, Value};

const TABLE: &str = "growing";
const STEPS: usize = 40;

/// The columns of the table when it is created, none of which is added.
const COLUMNS: usize = 3;
const ADDED_MAX: usize = 4;

/// The columns and rows that the table is expected to have.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    /// How many columns were added.
    added: usize,
    /// The names of all columns.
    names: Vec<String>,
    /// By time: the id of a row, and how many added columns its handle had.
    rows: BTreeMap<i64, (i64, usize)>,
}

fn names(table: &Table) -> Vec<String> {
    let fields = table.schema().arrow().fields();
    fields.iter().map(|field| field.name().clone()).collect()
}

fn added_column(number: usize) -> Field {
    let kinds = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Boolean,
        DataType::Float64,
    ];
    Field::new(format!("added {number}"), kinds[number].clone(), true)
}

/// The value of a row in an added column; some rows have none.
fn value(id: i64, number: usize) -> Option<i64> {
    let number = i64::try_from(number).expect("few");
    ((id + number) % 5 > 0).then_some(id * 10 + number)
}

fn array(number: usize, values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    match number {
        0 => Arc::new(values.collect::<Int64Array>()),
        1 => Arc::new(
            values
                .map(|value| value.map(|value| value.to_string()))
                .collect::<StringArray>(),
        ),
        2 => Arc::new(
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

/// Rows of these ids, each with a time of its own, some late, in the columns of a handle.
fn batch(table: &Table, ids: std::ops::Range<i64>, scramble: i64) -> RecordBatch {
    let times = ids.clone().map(|id| time_of(id, scramble));
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(times)),
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter_values(
            ids.clone().map(|id| id.to_string()),
        )),
    ];
    let added = table.schema().arrow().fields().len() - COLUMNS;
    arrays.extend((0..added).map(|number| array(number, ids.clone().map(|id| value(id, number)))));
    RecordBatch::try_new(table.schema().arrow().clone(), arrays).expect("the columns of the handle")
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
    let mut handles = vec![store.table(TABLE)?];
    let mut states = vec![State {
        names: names(&handles[0]),
        ..State::default()
    }];
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
        let width = handle.schema().arrow().fields().len() - COLUMNS;
        let ids = next..next + [1, 2, 3, 45, 200][rng.index(5)];
        let mut insert = |state: &mut State| {
            next = ids.end;
            let rows = ids.clone().map(|id| (time_of(id, scramble), (id, width)));
            state.rows.extend(rows);
        };
        match rng.below(12) {
            0 => {
                store.flush()?;
                continue;
            }
            1 => {
                drop(handle);
                handles.clear();
                store.close()?;
                store = open(&disk, options())?;
                handles.push(store.table(TABLE)?);
                continue;
            }
            2 => {
                let from = rng.below(1 << 20).cast_signed();
                step(&mut || handle.delete_range(from..from + 10_000))?;
                state.rows.retain(|time, _| !(from..from + 10_000).contains(time));
            }
            // Rows that are prepared with fewer columns than the table has when they are committed.
            3 | 4 if state.added < ADDED_MAX => {
                let mut prepared = store.write_batch();
                prepared.append(&handle, &batch(&handle, ids.clone(), scramble))?;
                let column = added_column(state.added);
                step(&mut || {
                    handles.push(store.add_columns(TABLE, [column.clone()])?);
                    Ok(())
                })?;
                state.added += 1;
                state.names.push(column.name().clone());
                states.push(state.clone());
                let mut prepared = Some(prepared);
                step(&mut || prepared.take().map_or(Ok(()), |batch| batch.commit().map(drop)))?;
                insert(&mut state);
            }
            // Names of old handles are given to other columns.
            5 | 6 => {
                let column = rng.index(state.names.len());
                let used = ["x", "y", "at", "id"][rng.index(4)].to_owned();
                renamed += 1;
                let new = match state.names.contains(&used) {
                    true => format!("renamed {renamed}"),
                    false => used,
                };
                step(&mut || {
                    handles.push(store.rename_column(TABLE, &state.names[column], &new)?);
                    Ok(())
                })?;
                state.names[column] = new;
            }
            _ => {
                step(&mut || handle.append(&batch(&handle, ids.clone(), scramble)).map(drop))?;
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

/// The table of a store, as far as its rows tell.
fn state_of(store: &Store) -> Result<State> {
    let table = store.table(TABLE)?;
    let mut state = State {
        added: table.schema().arrow().fields().len() - COLUMNS,
        names: names(&table),
        rows: BTreeMap::new(),
    };
    for found in table.range(..)? {
        let found = found?;
        assert_eq!(found.schema_ref(), table.schema().arrow());
        let times = found.column(0).as_primitive::<TimestampMillisecondType>();
        let ids = found.column(1).as_primitive::<Int64Type>();
        let added = &found.columns()[COLUMNS..];
        for (row, (&time, &id)) in times.values().iter().zip(ids.values()).enumerate() {
            // The handle of the row had the columns up to the last one with a value.
            let has_value = |&number: &usize| added[number].is_valid(row);
            let width = (0..added.len()).rev().find(has_value).map_or(0, |last| last + 1);
            for (number, column) in added.iter().enumerate().take(width) {
                let expected = array(number, std::iter::once(value(id, number)));
                assert_eq!(
                    column.slice(row, 1).as_ref(),
                    &*expected,
                    "id {id}, column {number}"
                );
            }
            state.rows.insert(time, (id, width));
        }
    }
    Ok(state)
}

/// As [`state_of`] sees it: a handle's last columns may have no value in a row.
fn as_seen(state: &State) -> State {
    let seen = |&(id, width): &(i64, usize)| {
        let has_value = |&number: &usize| value(id, number).is_some();
        (id, (0..width).rev().find(has_value).map_or(0, |last| last + 1))
    };
    State {
        added: state.added,
        names: state.names.clone(),
        rows: state.rows.iter().map(|(&time, row)| (time, seen(row))).collect(),
    }
}

/// Reads a table in every way and compares the rows.
fn check(store: &Store, state: &State) -> Result<()> {
    assert_eq!(state_of(store)?, as_seen(state));
    let table = store.table(TABLE)?;
    assert_eq!(table.range(..)?.count()?, state.rows.len() as u64);
    for number in 0..state.added {
        let name = state.names[COLUMNS + number].clone();
        let of_row = |&(id, width): &(i64, usize)| value(id, number).filter(|_| number < width);
        let nulls = state.rows.values().filter(|row| of_row(row).is_none()).count();
        let is_null = table.range(..)?.filter(&name, Predicate::is_null())?;
        assert_eq!(is_null.count()?, nulls as u64, "nulls of {name}");
        if number == 0 {
            let least = Int64Array::from(vec![5 * i64::try_from(state.rows.len()).expect("few")]);
            let compared = Predicate::compare(Operator::GtEq, &least).expect("one number");
            let expected = state.rows.values().filter_map(of_row);
            let expected = expected.filter(|&value| value >= least.value(0)).count();
            let found = table.range(..)?.filter(&name, compared)?.rev();
            assert_eq!(found.count()?, expected as u64, "of {name}");
        }
    }
    for (&time, &(id, width)) in state.rows.iter().step_by(17) {
        let row = table.get(time)?.expect("it is there");
        assert_eq!(row.value(1), Some(Value::Int(id)));
        for number in 0..state.added {
            let expected = array(
                number,
                std::iter::once(value(id, number).filter(|_| number < width)),
            );
            assert_eq!(row.value(COLUMNS + number), Value::at(&expected, 0), "id {id}");
        }
        assert_eq!(row.value(COLUMNS + state.added), None);
    }
    assert_eq!(store.verify()?.problems, []);
    Ok(())
}

/// Handles read the columns that they had, under the names that these had.
fn check_older(handles: &[Table], state: &State) -> Result<()> {
    for handle in handles {
        let mut rows = 0;
        for batch in handle.range(..)? {
            let batch = batch?;
            assert_eq!(batch.schema_ref(), handle.schema().arrow());
            rows += batch.num_rows();
        }
        assert_eq!(rows, state.rows.len());
    }
    Ok(())
}

#[test]
fn added_and_renamed_columns_survive_power_cuts() {
    let (mut tried, mut widest) = (0, 0);
    for seed in 0.. {
        let (trace, states) = trace(seed).expect("a sound disk");
        widest = widest.max(states[STEPS].added);
        each_event(&trace, seed, |event, replay, progress| {
            if (event as u64 + seed).is_multiple_of(5) && tried < cuts() / 2 {
                tried += 1;
                let image = replay.image(seed << 32 | event as u64);
                let store = open(&image, options()).expect("opens");
                if progress.begun[0] == 0 && store.tables().is_empty() {
                    return;
                }
                let found = state_of(&store).expect("reads");
                let allowed = progress.acknowledged[0]..=progress.begun[0];
                let is_one = |steps: usize| as_seen(&states[steps]) == found;
                assert!(
                    allowed.clone().any(is_one),
                    "seed {seed}, event {event}: not the state after {allowed:?} steps"
                );
                let steps = allowed.clone().find(|&steps| is_one(steps)).expect("found above");
                check(&store, &states[steps]).expect("reads");
            }
        });
        if tried >= cuts() / 2 {
            break;
        }
    }
    assert_eq!(widest, ADDED_MAX);
    say(&format!("{tried} power cuts while columns are added and renamed"));
}
