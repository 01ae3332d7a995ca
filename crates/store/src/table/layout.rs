//! How the rows of a table are kept.

use super::sparse::Grid;

/// How a table keeps its rows. It is chosen when the table is created.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{Float64Array, RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// # let arrow = Arc::new(Schema::new(vec![
/// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
/// #     Field::new("x", DataType::Float64, true),
/// # ]));
/// # let schema = bedload::TableSchema::new(arrow.clone(), "at")?;
/// use bedload::{Grid, Layout};
///
/// // A row every ten seconds.
/// let table = store.create_table_as("t", schema, Layout::Sparse(Grid::every(10)?))?;
/// # let batch = |time: i64, x: f64| RecordBatch::try_new(arrow.clone(), vec![
/// #     Arc::new(TimestampSecondArray::from(vec![time])),
/// #     Arc::new(Float64Array::from(vec![x])),
/// # ]);
/// table.append(&batch(-20, 0.5)?)?;
/// // A row of the same time takes the place of the first.
/// table.append(&batch(-20, 0.7)?)?;
/// let row = table.get(-20)?.expect("it was appended");
/// assert_eq!(row.value(1), Some(bedload::Value::Float(0.7)));
/// assert!(table.append(&batch(-19, 0.1)?).is_err(), "there is no row at this time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Under an index of their times: rows of any times, in any number, in any order.
    #[default]
    Indexed,
    /// At places that follow from their times: at most one row at each time of a grid. Reading or
    /// writing a row costs the same however many there are. A row takes the place of one that has
    /// its time. Text of a row is at most 64 KiB; rows have no sequence numbers, and are taken back
    /// by way of a snapshot ([`put_back`](crate::Table::put_back)). For data that has a row at most
    /// times of the grid: a block of the disk is taken for each stretch of times in which there is
    /// any.
    Sparse(Grid),
}
