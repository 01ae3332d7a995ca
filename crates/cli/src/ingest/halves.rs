//! Rows of a batch in as few commits as the store takes them in.

use arrow_array::RecordBatch;
use bedload::{Appended, Error, Table};

use crate::exit::{Failure, Result};
use crate::layout;

/// How an attempt to commit rows ended.
pub(super) enum Tried {
    Done,
    /// The store does not take them at once, and says why.
    TooLarge(Failure),
}

impl Tried {
    /// Gives what the table took to `done`.
    pub(super) fn of(
        table: &Table,
        outcome: bedload::Result<Appended>,
        done: impl FnOnce(Appended) -> Result<()>,
    ) -> Result<Self> {
        match outcome {
            Err(error @ Error::TooLarge { .. }) => Ok(Self::TooLarge(error.into())),
            outcome => {
                let appended = outcome.map_err(|error| layout::refusal(table, error))?;
                done(appended).map(|()| Self::Done)
            }
        }
    }
}

/// Has `commit` commit the rows of a batch: all, or where those are too many, either half.
pub(super) fn commit_in_halves(
    batch: &RecordBatch,
    commit: &mut dyn FnMut(&RecordBatch) -> Result<Tried>,
) -> Result<()> {
    match try_halves(batch, commit)? {
        Tried::Done => Ok(()),
        Tried::TooLarge(failure) => Err(failure),
    }
}

fn try_halves(batch: &RecordBatch, commit: &mut dyn FnMut(&RecordBatch) -> Result<Tried>) -> Result<Tried> {
    let tried = commit(batch)?;
    let rows = batch.num_rows();
    if matches!(tried, Tried::Done) || rows < 2 {
        return Ok(tried);
    }
    for half in [batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2)] {
        if let Tried::TooLarge(_) = try_halves(&half, commit)? {
            return Ok(tried);
        }
    }
    Ok(Tried::Done)
}
