//! Makes leaves of merged rows, one leaf behind the merge.
//!
//! Gathering the columns of a leaf and encoding them takes as long as finding out which rows come
//! next. So a merge of more than a leaf has a thread that gathers and encodes. It works on arrays
//! alone: it touches no pages, takes no lock, and ends when the merge is dropped.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use bedload_pages::{Error, Result};

use super::kind::ColumnRuns;
use super::new_leaf::NewLeaf;
use super::stretches::Stretches;

/// Makes the leaves of a merge. To bound memory, the thread gets the rows of one leaf at a time.
#[derive(Debug)]
pub(super) struct LeafMaker {
    recipe: Recipe,
    thread: Option<LeafThread>,
    /// Rows of all leaves so far.
    rows: u64,
}

/// The settings of the leaves.
#[derive(Debug, Clone, Copy)]
struct Recipe {
    kind: ColumnRuns,
    payload_max: usize,
}

#[derive(Debug)]
struct LeafThread {
    rows: SyncSender<(Stretches, u64)>,
    leaves: Receiver<Result<Vec<NewLeaf>>>,
    thread: Option<JoinHandle<()>>,
    /// Whether there are rows whose leaves were not received yet.
    is_busy: bool,
}

impl LeafMaker {
    pub(super) fn new(kind: ColumnRuns, payload_max: usize) -> Self {
        let recipe = Recipe { kind, payload_max };
        Self {
            recipe,
            thread: None,
            rows: 0,
        }
    }

    /// Makes a leaf of the next rows, or several if one does not fit in a page. Returns it, or else
    /// those of the rows before: the leaves are in order, and [`rest`](Self::rest) has the last.
    ///
    /// # Errors
    ///
    /// Rows are out of order, have not the columns of the table, or a row does not fit in a page.
    pub(super) fn make(&mut self, rows: Stretches) -> Result<Vec<NewLeaf>> {
        let position = self.rows;
        self.rows += rows.rows() as u64;
        if self.thread.is_none() && position > 0 {
            self.thread = LeafThread::spawn(self.recipe);
        }
        let Some(thread) = &mut self.thread else {
            // These are the first ones, or the system has no thread to spare.
            return self.recipe.make(rows, position);
        };
        let before = thread.receive()?;
        thread.send(rows, position);
        Ok(before)
    }

    /// The leaves that were not returned yet.
    ///
    /// # Errors
    ///
    /// As for [`make`](Self::make).
    pub(super) fn rest(&mut self) -> Result<Vec<NewLeaf>> {
        self.thread.as_mut().map_or(Ok(Vec::new()), LeafThread::receive)
    }
}

impl Recipe {
    /// Makes leaves of rows, the first of which has this position among all rows of the merge.
    fn make(&self, mut rows: Stretches, position: u64) -> Result<Vec<NewLeaf>> {
        rows.fill_up();
        let columns = rows.build().map_err(Error::store)?;
        let places = self.kind.places(&columns);
        let places = places.ok_or(Error::Shape {
            reason: "the rows have not the columns of the table",
        })?;
        if !places.ascend() {
            return Err(Error::NotAscending { position });
        }
        NewLeaf::of_rows(&self.kind, &columns, self.payload_max)
    }
}

impl LeafThread {
    /// Returns `None` if the system has no thread to spare.
    fn spawn(recipe: Recipe) -> Option<Self> {
        let (rows, to_make) = sync_channel::<(Stretches, u64)>(1);
        let (made, leaves) = sync_channel(1);
        let run = move || {
            for (rows, position) in to_make {
                // A merge that failed was dropped, with the receiver of the leaves.
                if made.send(recipe.make(rows, position)).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name("bedload-leaves".to_owned()).spawn(run);
        Some(Self {
            rows,
            leaves,
            thread: Some(thread.ok()?),
            is_busy: false,
        })
    }

    fn send(&mut self, rows: Stretches, position: u64) {
        // If the thread has ended, receiving will say so.
        let _ = self.rows.send((rows, position));
        self.is_busy = true;
    }

    /// The leaves of the rows that were sent last, once; a panic of the thread goes on here.
    fn receive(&mut self) -> Result<Vec<NewLeaf>> {
        if !std::mem::take(&mut self.is_busy) {
            return Ok(Vec::new());
        }
        match self.leaves.recv() {
            Ok(made) => made,
            Err(ended) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => Err(Error::store(ended)),
            },
        }
    }
}
