//! Scans as streams.

use bedload::Scan;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::Stream;
use futures::stream;

/// A scan, and the batch that it gave.
type Step = (Scan, Option<bedload::Result<RecordBatch>>);

/// Reads a scan batch by batch. Each is read on a thread that may block, and while one is consumed
/// the next is read.
///
/// No thread waits for the consumer: a query of more scans than there are such threads comes to its
/// end too.
pub(crate) fn batches(open: impl FnOnce() -> Result<Scan>) -> impl Stream<Item = Result<RecordBatch>> {
    let begin = State::New(open);
    stream::try_unfold(begin, |state| async {
        let reading = match state {
            State::New(open) => read(open()?),
            State::Reading(reading) => reading,
        };
        let (scan, batch) = reading.join_unwind().await.map_err(external)?;
        match batch.transpose().map_err(external)? {
            Some(batch) => Ok(Some((batch, State::Reading(read(scan))))),
            None => Ok(None),
        }
    })
}

enum State<F> {
    New(F),
    Reading(SpawnedTask<Step>),
}

fn read(mut scan: Scan) -> SpawnedTask<Step> {
    SpawnedTask::spawn_blocking(move || {
        let batch = scan.next();
        (scan, batch)
    })
}

/// An error as one of DataFusion's.
pub(crate) fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
