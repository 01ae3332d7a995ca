//! Commits over several tables, with the power cut anywhere: each of them is in all of its tables,
//! or in none.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use bedload_testkit::Rng;

use super::power::{cuts, each_event};
use super::say;
use super::workload::{columns, open, options};
use crate::disk::sim::{Note, SimDisk, Trace};
use crate::error::Result;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::{Grid, Layout};

const TABLES: [&str; 3] = ["a", "b", "on a grid"];
const COMMITS: usize = 30;

/// The ids that each table has after a number of commits, ascending.
type States = Vec<[Vec<i64>; TABLES.len()]>;

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    // Out of order; on the grid of the sparse table, where no two share a time.
    let times = ids.clone().map(|id| (id ^ 5) * 1000);
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(times)),
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(StringArray::from_iter_values(ids.map(|id| id.to_string()))),
        ],
    )
    .expect("columns of one length")
}

fn ids_of(table: &Table) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for batch in table.range(..)? {
        ids.extend(batch?.column(1).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Commits of rows for all tables, some with a deletion, flushes and single appends between them.
fn trace(seed: u64) -> Result<(Trace, States)> {
    let disk = SimDisk::new(seed);
    let begun = disk.record();
    let mut rng = Rng::new(seed);
    let store = open(&disk, options())?;
    let grid = Layout::Sparse(Grid::every(1000)?);
    let layouts = [Layout::Indexed, Layout::Indexed, grid];
    for (name, layout) in TABLES.iter().zip(layouts) {
        store.create_table_as(name, TableSchema::new(columns(), "at")?, layout)?;
    }
    let tables: Vec<Table> = TABLES
        .iter()
        .map(|name| store.table(name))
        .collect::<Result<_>>()?;
    let mut states: States = vec![Default::default()];
    let mut next = 0i64;
    for _ in 0..COMMITS {
        let mut state = states[states.len() - 1].clone();
        let mut batch = store.write_batch();
        for (table, ids) in tables.iter().zip(&mut state) {
            if rng.below(4) == 0 {
                let from = rng.below(1 + next.cast_unsigned()).cast_signed();
                batch.delete_range(table, from * 1000..(from + 10) * 1000)?;
                ids.retain(|id| !(from..from + 10).contains(&(id ^ 5)));
            }
            let count = [1, 3, 200][rng.index(3)];
            batch.append(table, &rows(next..next + count))?;
            ids.extend(next..next + count);
            // Rows of another table have other ids, so that none is taken for another's.
            next += (count + 7) & !7;
        }
        disk.note(Note::Begun { writer: 0 });
        batch.commit()?;
        disk.note(Note::Acknowledged { writer: 0 });
        states.push(state);
        if rng.below(8) == 0 {
            store.flush()?;
        }
    }
    store.close()?;
    Ok((disk.trace(begun), states))
}

/// After how many commits the tables hold what they do; an error if their state is that of no
/// number of commits.
fn commits_in(store: &Store, states: &States) -> Result<Option<usize>> {
    let mut found: [Vec<i64>; TABLES.len()] = Default::default();
    for (ids, name) in found.iter_mut().zip(TABLES) {
        *ids = ids_of(&store.table(name)?)?;
    }
    Ok(states.iter().position(|state| *state == found))
}

#[test]
fn a_commit_over_several_tables_is_whole_or_not_there() {
    let mut tried = 0;
    for seed in 0.. {
        let (trace, states) = trace(seed).expect("a sound disk");
        each_event(&trace, seed, |event, replay, progress| {
            // A cut in a trace of its own is enough: neighbouring ones differ little.
            if (event as u64 + seed).is_multiple_of(3) && tried < cuts() {
                tried += 1;
                let image = replay.image(seed << 32 | event as u64);
                let store = open(&image, options()).expect("opens");
                if progress.begun[0] == 0 && store.tables().len() < TABLES.len() {
                    return;
                }
                let found = commits_in(&store, &states).expect("reads");
                let allowed = progress.acknowledged[0]..=progress.begun[0];
                assert!(
                    found.is_some_and(|found| allowed.contains(&found)),
                    "seed {seed}, event {event}: {found:?} commits, not {allowed:?}"
                );
            }
        });
        if tried >= cuts() {
            break;
        }
    }
    say(&format!("{tried} power cuts in commits over several tables"));
}
