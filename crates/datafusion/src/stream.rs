//! Scans as streams.

use bedload::{Scan, StopHandle};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::Stream;
use futures::stream;

/// A scan, and the batch that it gave.
type Step = (Scan, Option<bedload::Result<RecordBatch>>);

/// Opens a scan and reads it batch by batch, on threads that may block. While one batch is consumed
/// the next is read.
///
/// No thread waits for the consumer: a query of more scans than there are such threads comes to its
/// end too. If the stream is dropped, the scan ends where it is.
pub(crate) fn batches(
    open: impl FnOnce() -> Result<Scan> + Send + 'static,
) -> impl Stream<Item = Result<RecordBatch>> {
    let begin = State::New(open);
    stream::try_unfold(begin, |state| async {
        let (reading, stop) = match state {
            State::New(open) => {
                // It waits for locks and merges deletions.
                let opened = SpawnedTask::spawn_blocking(open).join_unwind().await;
                let mut scan = opened.map_err(external)??;
                let stop = StopOnDrop(scan.stop_handle());
                (read(scan), stop)
            }
            State::Reading(reading, stop) => (reading, stop),
        };
        let (scan, batch) = reading.join_unwind().await.map_err(external)?;
        match batch.transpose().map_err(external)? {
            Some(batch) => Ok(Some((batch, State::Reading(read(scan), stop)))),
            None => Ok(None),
        }
    })
}

enum State<F> {
    New(F),
    Reading(SpawnedTask<Step>, StopOnDrop),
}

/// Ends a scan when it is dropped: its thread cannot be.
struct StopOnDrop(StopHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bedload::arrow::array::TimestampSecondArray;
    use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
    use futures::StreamExt;

    use super::*;

    /// A scan of 50,000 rows.
    fn scan(dir: &tempfile::TempDir) -> Scan {
        let store = bedload::Store::create(dir.path().join("s")).expect("creates");
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let arrow = Arc::new(Schema::new(vec![at]));
        let schema = bedload::TableSchema::new(arrow.clone(), "at").expect("storable");
        let table = store.create_table("t", schema).expect("fresh");
        let times = TimestampSecondArray::from_iter_values(0..50_000);
        let rows = RecordBatch::try_new(arrow, vec![Arc::new(times)]).expect("of one length");
        table.append(&rows).expect("appends");
        table.range(..).expect("there")
    }

    #[tokio::test]
    async fn a_scan_is_opened_on_a_thread_that_may_block() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let scan = scan(&dir);
        let runtime = std::thread::current().id();
        let open = move || {
            assert_ne!(std::thread::current().id(), runtime);
            Ok(scan)
        };
        let mut stream = Box::pin(batches(open));
        stream.next().await.expect("a batch").expect("reads");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stream_that_is_dropped_ends_its_scan() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut scan = scan(&dir);
        let handle = scan.stop_handle();
        let mut stream = Box::pin(batches(move || Ok(scan)));
        stream.next().await.expect("a batch").expect("reads");
        assert!(!handle.is_stopped());
        drop(stream);
        assert!(handle.is_stopped());
    }
}
