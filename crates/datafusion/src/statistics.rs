//! Statistics of a scan's rows that are known before they are read.

use bedload::arrow::array::RecordBatch;
use bedload::{Scan, Snapshot, TableSchema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};

use crate::stream::external;
use crate::time_range::TimeRange;

/// The number of rows in a range of times, if it is known without reading them, and its first and
/// last time, if the time column is projected. Reads a few pages.
///
/// If rows are filtered besides, these are estimates.
pub(crate) fn of_range(
    (snapshot, name, schema): (&Snapshot, &str, &TableSchema),
    range: TimeRange,
    projection: &[usize],
    is_filtered: bool,
) -> Result<Statistics> {
    let scan = || {
        let scan = snapshot.range(name, range.first..=range.last);
        scan.and_then(|scan| scan.with_schema(schema)).map_err(external)
    };
    let rows = scan()?.known_count().map_err(external)?;
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    let rows = rows.map_or(Precision::Absent, Precision::Exact);
    let mut columns = Vec::with_capacity(projection.len());
    for &position in projection {
        let mut column = ColumnStatistics::new_unknown();
        if position == schema.time_column() {
            column.null_count = Precision::Exact(0);
            let edge = |scan| edge(scan, schema);
            if let (Some(first), Some(last)) = (edge(scan()?)?, edge(scan()?.rev())?) {
                column.min_value = Precision::Exact(first);
                column.max_value = Precision::Exact(last);
            }
        }
        columns.push(column);
    }
    let known = Statistics {
        num_rows: rows,
        total_byte_size: Precision::Absent,
        column_statistics: columns,
    };
    Ok(if is_filtered { known.to_inexact() } else { known })
}

/// The time of the first row of a scan.
fn edge(scan: Scan, schema: &TableSchema) -> Result<Option<ScalarValue>> {
    let time = schema.arrow().field(schema.time_column()).name();
    let mut scan = scan.columns(&[time]).map_err(external)?.limit(1);
    let batch: Option<RecordBatch> = scan.next().transpose().map_err(external)?;
    batch
        .map(|batch| ScalarValue::try_from_array(batch.column(0), 0))
        .transpose()
}
