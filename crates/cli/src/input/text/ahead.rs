//! Rows that a thread of their own reads and parses, while the caller stores those before them.
//!
//! Batches go one way, through a channel with room for one. The thread never touches the store, nor
//! counts rejected rows: that is done as their batch is received, so an error is that of the first
//! bad row of the text. No one waits for the thread, which may be waiting for a pipe when the
//! caller gives up: it ends when its next batch finds no receiver.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, TimeUnit};

use super::{Parsed, TextRows};
use crate::exit::{Failure, Result, Status};
use crate::input::{Place, Rejects, Rows};

/// Batches that are parsed and wait for the caller, at most.
const BATCHES_AHEAD: usize = 1;

/// The rows of a text, parsed ahead of the caller.
pub(in crate::input) struct RowsAhead {
    name: String,
    schema: SchemaRef,
    assumed_unit: Option<TimeUnit>,
    parsed: Receiver<Result<Parsed>>,
    parser: Option<JoinHandle<()>>,
    /// The line on which the last batch begins.
    line: u64,
    /// Rows of the last batch whose time was moved to a tick.
    between: Vec<usize>,
    /// Whether rows before one that cannot be taken are kept, as those of a live feed are.
    keeps: bool,
    /// The error of such a row, once those before it were given out.
    failure: Option<Failure>,
}

impl RowsAhead {
    /// Starts to parse.
    pub(in crate::input) fn of(mut rows: TextRows) -> Result<Self> {
        let (name, schema) = (rows.name.clone(), SchemaRef::clone(&rows.schema));
        let assumed_unit = rows.assumed_unit();
        let keeps = rows.wanted.follow.is_some();
        let (sender, parsed) = sync_channel(BATCHES_AHEAD);
        let parse = move || {
            loop {
                let next = rows.next();
                let is_last = !matches!(&next, Ok(parsed) if parsed.batch.is_some());
                if sender.send(next).is_err() || is_last {
                    return;
                }
            }
        };
        let parser = thread::Builder::new()
            .name("bedload-parse".to_owned())
            .spawn(parse)
            .map_err(|error| {
                Failure::new(
                    Status::Io,
                    format!("{name}: cannot start a thread to parse it: {error}"),
                )
            })?;
        Ok(Self {
            name,
            schema,
            assumed_unit,
            parsed,
            parser: Some(parser),
            line: 0,
            between: Vec::new(),
            keeps,
            failure: None,
        })
    }
}

impl Rows for RowsAhead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let Ok(parsed) = self.parsed.recv() else {
            // The thread has sent all, or it panicked.
            if let Some(Err(panic)) = self.parser.take().map(JoinHandle::join) {
                resume_unwind(panic);
            }
            return Ok(None);
        };
        let Parsed {
            line,
            rows_before_rejected,
            rejected,
            between,
            batch,
        } = parsed?;
        (self.line, self.between) = (line, between);
        let rejected = rejected
            .into_iter()
            .try_for_each(|reject| rejects.reject(&self.name, reject));
        match (rejected, batch) {
            (Ok(()), batch) => Ok(batch),
            (Err(failure), Some(batch)) if self.keeps => {
                self.failure = Some(failure);
                self.between.retain(|&row| row < rows_before_rejected);
                Ok(Some(batch.slice(0, rows_before_rejected)))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    fn assumed_unit(&self) -> Option<TimeUnit> {
        self.assumed_unit
    }

    fn batch_place(&self) -> String {
        format!("line {}", self.line)
    }

    fn between_ticks(&self) -> &[usize] {
        &self.between
    }

    fn place(&self, row: usize) -> Place {
        Place::FromLine(row + 1, self.line)
    }
}
