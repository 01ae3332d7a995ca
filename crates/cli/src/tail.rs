//! `bedload tail`: the newest rows of a table, and rows as they are committed.

use std::ops::Bound;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_select::take::take_record_batch;
use bedload::{Layout, Scan, Store, Table};

use crate::args::TailArgs;
use crate::condition::Condition;
use crate::exit::{Failure, Result};
use crate::interrupt;
use crate::output::Answer;
use crate::selection::Selection;
use crate::store;

/// How long to wait before looking for new commits.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &TailArgs) -> Result<()> {
    let store = store::open_to_read(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let selection = Selection {
        range: (Bound::Unbounded, Bound::Unbounded),
        columns: args.columns.as_deref(),
        conditions: args
            .conditions
            .iter()
            .map(|text| Condition::read(&table, text))
            .collect::<Result<_>>()?,
        limit: Some(args.rows),
        reverse: true,
    };
    let schema = selection.schema(&table)?;
    let mut answer = Answer::begin(args.format.into(), None, &schema, &args.null)?;
    let newest = Newest::of(&table)?;
    let scan = selection.scan(&table, selection.range)?;
    let mut latest_first = scan
        .rev()
        .limit(args.rows)
        .collect::<bedload::Result<Vec<RecordBatch>>>()?;
    while let Some(batch) = latest_first.pop() {
        answer.write(&upwards(&batch)?)?;
    }
    if !args.follow {
        return answer.finish();
    }
    // The store's trace of this reader is removed if there is time for it.
    interrupt::catch_briefly()?;
    answer.flush()?;
    follow(&store, &table, &selection, (newest, answer))
}

/// The rows of a batch, the last one first.
fn upwards(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
    let order = arrow_array::UInt64Array::from_iter_values((0..rows).rev());
    take_record_batch(batch, &order).map_err(|error| Failure::input(error.to_string()))
}

/// Prints what is committed, until a signal comes.
fn follow(
    store: &Store,
    table: &Table,
    selection: &Selection<'_>,
    (mut newest, mut answer): (Newest, Answer),
) -> Result<()> {
    loop {
        if store.refresh()? {
            let next = Newest::of(table)?;
            for batch in selection.narrow(newest.later(table)?)? {
                answer.write(&batch?)?;
                interrupt::check()?;
            }
            answer.flush()?;
            newest = newest.or_later(next);
        }
        interrupt::pause(PAUSE)?;
    }
}

/// How much of a table was printed.
enum Newest {
    /// All that was appended before.
    Mark(bedload::Mark),
    /// All up to a time: rows of a sparse table have no order of arrival.
    Time(Option<i64>),
}

impl Newest {
    fn of(table: &Table) -> Result<Self> {
        Ok(match table.layout() {
            Layout::Indexed => Self::Mark(table.mark()),
            _ => Self::Time(store::edges(table)?.map(|(_, last)| last)),
        })
    }

    /// Returns how much was printed, after the rows up to `next`. A time that was printed counts
    /// even if its row was deleted since.
    fn or_later(self, next: Self) -> Self {
        match (self, next) {
            (Self::Time(printed), Self::Time(next)) => Self::Time(printed.max(next)),
            (_, next) => next,
        }
    }

    /// The rows that came later.
    fn later(&self, table: &Table) -> Result<Scan> {
        Ok(match self {
            Self::Mark(mark) => table.since(*mark)?,
            Self::Time(None) => table.range(..)?,
            Self::Time(Some(last)) => table.range((Bound::Excluded(*last), Bound::Unbounded))?,
        })
    }
}
