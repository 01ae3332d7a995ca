//! Rows of tables: their schemas, and rows on the way between Arrow batches, memory and pages.

mod arrival_order;
mod batch_builder;
mod batch_memory;
mod batch_rows;
mod block_ref;
mod column_record;
mod column_types;
mod columns;
mod copy;
mod deletion;
mod encoded_rows;
mod few_rows;
mod filter;
mod frontier;
mod generation;
mod head;
mod keys;
mod lateness;
mod packed_rows;
mod packing;
mod parts;
mod rows_in_order;
mod salvaged_table;
mod schema;
mod sorted_rows;
mod stop;
mod stored_columns;
mod table_entry;
mod time_order;
mod variable;
mod verified;
#[cfg(feature = "times")]
mod zones;

pub use arrival_order::ArrivalOrder;
pub(crate) use arrival_order::{ArrivalMeasure, OrderRecord};
pub(crate) use batch_builder::{BatchBuilder, FixedColumn, Projection, RowSource};
pub(crate) use batch_memory::BatchMemory;
pub(crate) use batch_rows::BatchRows;
pub(crate) use block_ref::BlockRef;
pub(crate) use column_record::ColumnRecord;
pub(crate) use column_types::to_stored;
pub(crate) use copy::{approach, copy};
#[cfg(test)]
pub(crate) use deletion::searches;
pub(crate) use deletion::{Deletion, Deletions, Stretch};
pub(crate) use encoded_rows::EncodedRows;
pub(crate) use few_rows::are_few;
pub(crate) use filter::Filter;
pub(crate) use frontier::Frontier;
pub(crate) use generation::{DELETION_WEIGHT, Generation};
pub(crate) use head::Head;
pub(crate) use keys::Keys;
pub(crate) use packed_rows::{PackedRows, UNPACKED_BYTES_MAX, are_many};
pub(crate) use packing::Packing;
pub(crate) use rows_in_order::{RowsInOrder, project};
pub use salvaged_table::{Gap, SalvagedTable};
pub use schema::TableSchema;
pub(crate) use schema::{ColumnPlace, check_columns};
pub(crate) use sorted_rows::{SortedBatch, SortedRows, check_row_bytes, long_rows};
pub use stop::StopHandle;
pub(crate) use table_entry::TableEntry;
pub(crate) use variable::KeptVariable;
pub(crate) use verified::Verified;

/// Names a table within its store, for ever: a dropped table's number is not given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct TableId(pub(crate) u32);

/// A row's place in the order of its table: its time, then its sequence number.
pub(crate) type Place = (i64, u64);
