//! The columns of rows in order, batch by batch, one batch ahead of their use.
//!
//! Making them from what a head holds takes as long as writing them into leaves. So a thread that
//! lasts as long as the flush of a run makes the next batch while the caller writes one. It touches
//! no pages, and waits for no lock but that of packed rows (`rows/columns.rs`), which no thread
//! holds for long.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;

use arrow_array::ArrayRef;

use crate::error::{Error, Result};
use crate::rows::RowsInOrder;

/// Calls `take` with the columns of `positions`, `batch_rows` rows at a time, in order.
pub(super) fn for_each_batch(
    rows: &RowsInOrder,
    positions: Range<usize>,
    batch_rows: usize,
    take: impl FnMut(Vec<ArrayRef>) -> Result<()>,
) -> Result<()> {
    let make = |batch| {
        let columns = rows.columns(batch);
        columns.map_err(|error| Error::schema(error.to_string()))
    };
    for_each_made(&make, positions, batch_rows, take)
}

/// As [`for_each_batch`], with what `make` makes of the positions of a batch.
fn for_each_made(
    make: &(impl Fn(Range<usize>) -> Result<Vec<ArrayRef>> + Sync),
    positions: Range<usize>,
    batch_rows: usize,
    mut take: impl FnMut(Vec<ArrayRef>) -> Result<()>,
) -> Result<()> {
    if positions.len() <= batch_rows {
        return take(make(positions)?);
    }
    thread::scope(|scope| {
        // A batch is handed over before the next is begun, as a row may be long: there are two at a
        // time, that of the caller and that of the helper.
        let (sender, receiver) = sync_channel(0);
        let batches = chunks(positions.clone(), batch_rows);
        let helper = thread::Builder::new()
            .name("bedload-order".to_owned())
            .spawn_scoped(scope, move || {
                // After an error the caller receives no more.
                for batch in batches {
                    if sender.send(make(batch)).is_err() {
                        return;
                    }
                }
            });
        match helper {
            Ok(helper) => {
                let taken = receiver.into_iter().try_for_each(|columns| take(columns?));
                // The receiver is gone, so the helper ends with its next batch.
                if let Err(panic) = helper.join() {
                    resume_unwind(panic);
                }
                taken
            }
            // The system has no thread to spare.
            Err(_) => chunks(positions, batch_rows).try_for_each(|batch| take(make(batch)?)),
        }
    })
}

/// Splits a range into parts of `len`, the last of which may be shorter.
pub(super) fn chunks(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(len).map(move |begin| begin..end.min(begin + len))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use arrow_array::TimestampSecondArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::TimestampSecondType;
    use arrow_schema::{DataType, Field, Schema, TimeUnit};

    use super::*;
    use crate::rows::{SortedRows, TableSchema};

    /// Rows with these times, of two runs that take turns.
    fn rows(count: i64) -> RowsInOrder {
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let schema = TableSchema::new(Arc::new(Schema::new(vec![at])), "at").expect("storable");
        let run = |begin: i64| {
            let times: Vec<i64> = (begin..count).step_by(2).collect();
            let sequences = times.iter().map(|time| time.cast_unsigned()).collect();
            let column: ArrayRef = Arc::new(TimestampSecondArray::from(times));
            Arc::new(SortedRows::held(&schema, vec![column], sequences).expect("in order"))
        };
        RowsInOrder::new(vec![run(0), run(1)])
    }

    #[test]
    fn batches_are_complete_and_in_order() {
        let rows = rows(1_000);
        for (positions, batch_rows) in [
            (0..1_000, 64),
            (0..1_000, 1),
            (7..990, 100),
            (5..6, 64),
            (0..64, 64),
        ] {
            let mut times = Vec::new();
            let take = |columns: Vec<ArrayRef>| {
                assert!(columns[0].len() <= batch_rows);
                times.extend_from_slice(columns[0].as_primitive::<TimestampSecondType>().values());
                Ok(())
            };
            for_each_batch(&rows, positions.clone(), batch_rows, take).expect("takes all");
            let expected =
                i64::try_from(positions.start).expect("few")..i64::try_from(positions.end).expect("few");
            assert!(
                times.iter().copied().eq(expected),
                "{positions:?} by {batch_rows}"
            );
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let rows = rows(1_000);
        let mut taken = 0;
        let outcome = for_each_batch(&rows, 0..1_000, 10, |_| {
            taken += 1;
            if taken == 3 {
                Err(Error::schema("enough"))
            } else {
                Ok(())
            }
        });
        assert!(outcome.is_err());
        assert_eq!(taken, 3);
    }

    #[test]
    fn a_panic_of_the_helper_keeps_its_cause() {
        let make = |batch: Range<usize>| match batch.start {
            0 => Ok(Vec::new()),
            _ => panic!("a defect"),
        };
        let flush = || for_each_made(&make, 0..100, 10, |_| Ok(()));
        let panic = catch_unwind(AssertUnwindSafe(flush)).expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
    }
}
