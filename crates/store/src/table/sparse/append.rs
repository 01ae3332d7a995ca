//! Rows on their way into a sparse table: which time of the grid each gets.

use arrow_array::{RecordBatch, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::ArrowError;
use bedload_columns::times;

use super::grid::{Grid, Snap};
use crate::error::{Error, Result};
use crate::rows::TableSchema;

/// Times as they stand on a grid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) times: Vec<i64>,
    /// Whether each time is later than the one before.
    pub(crate) is_ascending: bool,
    /// Times that were moved to the grid.
    pub(crate) moved: u64,
    /// Rows that have the time of a later row of the same batch.
    pub(crate) collided: u64,
}

impl Placed {
    /// The times of a batch of a table, as they are to stand on its grid.
    pub(crate) fn new(schema: &TableSchema, grid: Grid, batch: &RecordBatch, snap: Snap) -> Result<Self> {
        let times = times(batch.column(schema.time_column())).unwrap_or_else(|| Vec::new().into());
        Self::of_times(schema, grid, &times, snap)
    }

    fn of_times(schema: &TableSchema, grid: Grid, times: &[i64], snap: Snap) -> Result<Self> {
        if grid.is_dense(times) {
            return Ok(Self {
                times: times.to_vec(),
                is_ascending: true,
                moved: 0,
                collided: 0,
            });
        }
        let mut placed = Vec::with_capacity(times.len());
        let mut moved = 0;
        let mut is_ascending = true;
        for (row, &time) in times.iter().enumerate() {
            let Some(tick) = grid.snap(time, snap) else {
                let column = schema.arrow().field(schema.time_column()).name().clone();
                return Err(match snap {
                    Snap::Refuse => Error::OffGrid {
                        column,
                        row,
                        time,
                        interval: grid.interval(),
                        offset: grid.offset(),
                    },
                    Snap::Nearest | Snap::Down => Error::BeyondGrid { column, row, time },
                });
            };
            let at = grid.time(tick);
            moved += u64::from(at != time);
            is_ascending &= placed.last().is_none_or(|&before| before < at);
            placed.push(at);
        }
        let collided = if is_ascending { 0 } else { repeated(&placed) };
        Ok(Self {
            times: placed,
            is_ascending,
            moved,
            collided,
        })
    }

    /// The batch with these times.
    pub(crate) fn apply(&self, schema: &TableSchema, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.moved == 0 {
            return Ok(batch.clone());
        }
        let position = schema.time_column();
        let times = ArrayData::builder(schema.arrow().field(position).data_type().clone())
            .len(self.times.len())
            .add_buffer(Buffer::from_slice_ref(&self.times))
            .build();
        let refused = |error: ArrowError| Error::schema(error.to_string());
        let mut columns = batch.columns().to_vec();
        columns[position] = make_array(times.map_err(refused)?);
        RecordBatch::try_new(batch.schema(), columns).map_err(refused)
    }
}

fn repeated(times: &[i64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
}
