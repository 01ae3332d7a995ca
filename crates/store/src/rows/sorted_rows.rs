//! Rows in memory: columns as Arrow has them, in the order of their table.

use std::ops::{Bound, Range};

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, make_array};
use arrow_buffer::ScalarBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take_arrays;
use bedload_columns::{ColumnSet, Places, times};
use bedload_trees::RowLayout;

use super::columns::{Columns, FewColumns};
use super::time_order::by_time;
use super::variable::Variable;
use super::{PackedRows, Place, TableSchema};
use crate::error::{Error, Result};

/// Rows of one commit, in the order of their times, that have no sequence numbers yet.
#[derive(Debug)]
pub(crate) struct SortedBatch {
    columns: Columns,
    times: ScalarBuffer<i64>,
    /// Where each row stood in the batch, and the times as they stood there; none if times ascend.
    arrival: Option<(ScalarBuffer<u32>, ScalarBuffer<i64>)>,
    size: RowBytes,
}

/// How much memory rows take.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowBytes {
    /// All of them together.
    pub(super) all: usize,
    /// No row has more in its columns, its time left out.
    pub(super) longest: usize,
}

impl SortedBatch {
    /// The rows of a batch of a table. The columns of one whose times ascend are taken as they are.
    ///
    /// # Errors
    ///
    /// The text of a column is more than an array can hold.
    pub(crate) fn new(schema: &TableSchema, columns: Vec<ArrayRef>) -> Result<Self> {
        let arrived =
            times(&columns[schema.time_column()]).expect("the time column of a table is one of timestamps");
        let size = RowBytes {
            all: arrived.len() * row_bytes(schema) + variable_bytes(&columns),
            longest: row_bytes_max(schema, &columns),
        };
        if arrived.is_sorted() {
            return Ok(Self {
                columns: Columns::of(columns),
                times: arrived,
                arrival: None,
                size,
            });
        }
        let picks = rows_by_time(&arrived).ok_or_else(|| Error::schema("the batch has over 2^32 rows"))?;
        let columns =
            take_arrays(&columns, &picks, None).map_err(|error| Error::schema(error.to_string()))?;
        let (_, order, _) = picks.into_parts();
        Ok(Self {
            times: times(&columns[schema.time_column()]).expect("a column keeps its type"),
            columns: Columns::of(columns),
            // Copied, so that the memory they are a part of can be freed.
            arrival: Some((order, arrived.to_vec().into())),
            size,
        })
    }

    /// Rows by time that arrived with these ranks; `None` if they are not in the order of time and
    /// rank, or some ranks are not those of rows.
    pub(super) fn of_sorted(schema: &TableSchema, columns: Vec<ArrayRef>, ranks: &[u64]) -> Option<Self> {
        let times = times(&columns[schema.time_column()]).filter(|times| times.len() == ranks.len())?;
        let size = RowBytes {
            all: times.len() * row_bytes(schema) + variable_bytes(&columns),
            longest: row_bytes_max(schema, &columns),
        };
        if !Places::new(times.clone(), ranks.to_vec().into())?.ascend() {
            return None;
        }
        let arrival = if ranks.iter().copied().eq(0..ranks.len() as u64) {
            None
        } else {
            let mut arrived = vec![None; ranks.len()];
            for (&time, &rank) in times.iter().zip(ranks) {
                *arrived.get_mut(usize::try_from(rank).ok()?)? = Some(time);
            }
            // If a rank occurs twice, another is missing.
            let order: Option<Vec<u32>> = ranks.iter().map(|&rank| u32::try_from(rank).ok()).collect();
            Some((
                order?.into(),
                arrived.into_iter().collect::<Option<Vec<i64>>>()?.into(),
            ))
        };
        Some(Self {
            columns: Columns::of(columns),
            times,
            arrival,
            size,
        })
    }

    /// The rows packed for the log; `None` if they cannot be, or get no smaller. They are kept only
    /// in that form.
    pub(crate) fn pack(&mut self, schema: &TableSchema) -> Option<PackedRows> {
        let (columns, bytes) = (self.columns.arrays(), self.size.all);
        let packed = match &self.arrival {
            Some((order, _)) => PackedRows::pack(columns, bytes, order.iter().map(|&rank| u64::from(rank))),
            None => PackedRows::pack(columns, bytes, 0..self.times.len() as u64),
        }?;
        if packed.bytes().len() + PLACE_BYTES * packed.len() >= bytes {
            return None;
        }
        if self.arrival.is_none() {
            // In memory of their own, as the caller's arrays are given up.
            self.times = self.times.to_vec().into();
        }
        let column = schema.time_column();
        let times = time_array(schema.arrow().field(column).data_type(), &self.times);
        self.columns = Columns::packed(packed.clone(), (column, times));
        Some(packed)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.size.all
    }

    /// The rows, the first of which to arrive has this sequence number; the others follow it.
    pub(crate) fn numbered(self, first: u64) -> SortedRows {
        self.numbered_by(|row| first + row as u64)
    }

    /// The rows with the sequence numbers of their positions in the batch, which ascend.
    pub(super) fn numbered_by(self, number: impl Fn(usize) -> u64) -> SortedRows {
        let (sequences, arrivals): (ScalarBuffer<u64>, _) = match self.arrival {
            None => ((0..self.times.len()).map(number).collect(), None),
            Some((order, arrived)) => {
                let numbers = order.iter().map(|&row| number(row as usize));
                (numbers.collect(), Some(arrived))
            }
        };
        let places = Places::new(self.times, sequences).expect("a sequence number for each time");
        SortedRows::of_columns(self.columns, places, arrivals, self.size)
    }
}

/// Rows of one commit or of several that followed one another, by time and sequence number. They
/// never change.
#[derive(Debug)]
pub(crate) struct SortedRows {
    columns: Columns,
    places: Places,
    /// Times in the order of arrival; none if that is the order of the rows.
    arrivals: Option<ScalarBuffer<i64>>,
    /// The least sequence number, and one above the greatest.
    sequences: Range<u64>,
    size: RowBytes,
}

impl SortedRows {
    pub(super) fn new(
        columns: Vec<ArrayRef>,
        places: Places,
        arrivals: Option<ScalarBuffer<i64>>,
        size: RowBytes,
    ) -> Self {
        Self::of_columns(Columns::of(columns), places, arrivals, size)
    }

    fn of_columns(
        columns: Columns,
        places: Places,
        arrivals: Option<ScalarBuffer<i64>>,
        size: RowBytes,
    ) -> Self {
        let (least, greatest) = places.sequence_bounds().unwrap_or_default();
        Self {
            columns,
            arrivals,
            sequences: least..greatest.saturating_add(1),
            places,
            size,
        }
    }

    /// Some of the rows, in the same memory. Their order of arrival is that of all rows, or none.
    pub(super) fn slice(&self, rows: Range<usize>, with_arrivals: bool) -> Self {
        let columns = self.columns.slice(rows.clone());
        let places = self.places_of(rows.clone());
        let arrivals = if with_arrivals {
            ScalarBuffer::from(self.arrivals().to_vec())
        } else {
            Vec::new().into()
        };
        let size = RowBytes {
            all: self.size.all / self.len().max(1) * rows.len(),
            longest: self.size.longest,
        };
        Self::of_columns(columns, places, Some(arrivals), size)
    }

    /// Rows that were held back, as a record of the log has them; `None` if they are not in order.
    pub(crate) fn held(schema: &TableSchema, columns: Vec<ArrayRef>, sequences: Vec<u64>) -> Option<Self> {
        let ticks = times(&columns[schema.time_column()])?;
        let size = RowBytes {
            all: ticks.len() * row_bytes(schema) + variable_bytes(&columns),
            longest: row_bytes_max(schema, &columns),
        };
        let places = Places::new(ticks, sequences.into()).filter(Places::ascend)?;
        // Their arrival was observed with the generation that they were in first.
        Some(Self::new(columns, places, Some(Vec::new().into()), size))
    }

    /// The same rows, null in the columns of `schema` that they lack.
    pub(crate) fn filled_up(&self, schema: &TableSchema) -> Self {
        let columns = schema.fill_up(self.columns().to_vec(), self.len());
        let columns = columns.expect("the columns that a table gets are nullable");
        let size = RowBytes {
            all: self.len() * row_bytes(schema) + variable_bytes(&columns),
            longest: row_bytes_max(schema, &columns),
        };
        Self::new(columns, self.places.clone(), self.arrivals.clone(), size)
    }

    /// Bytes of memory that the rows of a batch would take.
    pub(crate) fn bytes_of(schema: &TableSchema, batch: &RecordBatch) -> usize {
        batch.num_rows() * row_bytes(schema) + variable_bytes(batch.columns())
    }

    /// Whether columns are yet to be unpacked.
    pub(crate) fn are_packed(&self) -> bool {
        self.columns.are_packed()
    }

    /// All columns of the table. Those of packed rows are unpacked once, and stay.
    pub(crate) fn columns(&self) -> &ColumnSet {
        self.columns.arrays()
    }

    /// All columns of the table, of some of the rows. Packed ones are unpacked and do not stay.
    pub(crate) fn columns_of(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        self.columns.of_rows(rows)
    }

    /// Some columns of a few of the rows, if they are packed and it is not worth making arrays of
    /// all; `None` says that [`columns`](Self::columns) are to be asked for.
    pub(crate) fn columns_of_few(&self, rows: Range<usize>, columns: &[usize]) -> Option<ColumnSet> {
        let few = self.few(rows.len())?;
        Some(few.columns(rows, columns))
    }

    /// As [`columns_of_few`](Self::columns_of_few), for so many rows whose columns are asked for
    /// one by one.
    pub(crate) fn few(&self, rows: usize) -> Option<FewColumns<'_>> {
        self.columns.few(rows)
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The places of some of the rows, in the same memory.
    pub(crate) fn places_of(&self, rows: Range<usize>) -> Places {
        let times = self.places.times_buffer().slice(rows.start, rows.len());
        let sequences = self.places.sequences().slice(rows.start, rows.len());
        Places::new(times, sequences).expect("as many of each")
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.size.all
    }

    /// Bytes that the columns of no row exceed, its time left out.
    pub(crate) fn row_bytes_max(&self) -> usize {
        self.size.longest
    }

    pub(super) fn size(&self) -> RowBytes {
        self.size
    }

    /// The least sequence number, and one above the greatest. Others between the two may belong to
    /// other tables.
    pub(crate) fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// The times in the order in which the rows arrived.
    pub(crate) fn arrivals(&self) -> &[i64] {
        self.arrivals.as_deref().unwrap_or_else(|| self.places.times())
    }

    pub(crate) fn place(&self, row: usize) -> Place {
        let place = self.places.get(row);
        (place.time, place.sequence)
    }

    /// The rows at or before a place.
    pub(crate) fn through(&self, place: Place) -> Range<usize> {
        let all = 0..self.len();
        0..self.places.search(all, |row| (row.time, row.sequence) > place)
    }

    /// The rows between two places.
    pub(crate) fn between(&self, (from, to): (Bound<Place>, Bound<Place>)) -> Range<usize> {
        let place = |place: bedload_columns::Place| (place.time, place.sequence);
        let all = 0..self.len();
        let begin = match from {
            Bound::Unbounded => 0,
            Bound::Included(from) => self.places.search(all.clone(), |row| place(row) >= from),
            Bound::Excluded(from) => self.places.search(all.clone(), |row| place(row) > from),
        };
        let end = match to {
            Bound::Unbounded => all.end,
            Bound::Included(to) => self.places.search(all, |row| place(row) > to),
            Bound::Excluded(to) => self.places.search(all, |row| place(row) >= to),
        };
        begin..end.max(begin)
    }

    /// The rows among some whose sequence number is below `before`, as rows of their own.
    ///
    /// # Errors
    ///
    /// Those of copying columns.
    pub(crate) fn before(&self, before: u64, rows: Range<usize>) -> Result<(ColumnSet, Places), ArrowError> {
        let is_visible = |row: &usize| self.places.get(*row).sequence < before;
        let rows: Vec<usize> = rows.filter(is_visible).collect();
        let picks: UInt32Array = rows.iter().map(|&row| u32::try_from(row).ok()).collect();
        let columns = take_arrays(self.columns(), &picks, None)?;
        let places = rows.iter().map(|&row| self.place(row));
        let (times, sequences): (Vec<i64>, Vec<u64>) = places.unzip();
        let places = Places::new(times.into(), sequences.into()).expect("as many of each");
        Ok((columns.into(), places))
    }
}

/// The rows of a batch in the order of their times; `None` if they are too many to be numbered.
#[expect(
    clippy::cast_possible_truncation,
    reason = "each number is below one of 32 bits"
)]
fn rows_by_time(times: &[i64]) -> Option<UInt32Array> {
    let rows = u32::try_from(times.len()).ok()?;
    let numbered = times.iter().copied().zip(0..);
    let order = by_time(numbered, u32::BITS - rows.leading_zeros());
    Some(order.into_iter().map(|row| row as u32).collect::<Vec<_>>().into())
}

/// A column of times of a type, in the same memory.
fn time_array(data_type: &DataType, times: &ScalarBuffer<i64>) -> ArrayRef {
    let data = ArrayData::builder(data_type.clone()).len(times.len());
    let data = data.add_buffer(times.inner().clone()).build();
    make_array(data.expect("a type of timestamps, which are numbers of 64 bits"))
}

/// Bytes of a row's time and sequence number.
const PLACE_BYTES: usize = size_of::<i64>() + size_of::<u64>();

/// Bytes of memory for a row of a schema without its text: the sequence number, flags by the byte,
/// ends of text.
fn row_bytes(schema: &TableSchema) -> usize {
    let layout = schema.layout();
    PLACE_BYTES + layout.fixed_len() + 4 * layout.variable_columns()
}

/// Bytes that no row's columns exceed, its time left out: the longest text of each column may be in
/// different rows.
fn row_bytes_max(schema: &TableSchema, columns: &[ArrayRef]) -> usize {
    let longest = Variable::all(columns).map(|column| column.longest());
    schema.layout().fixed_len() + longest.sum::<usize>()
}

/// Bytes of the text and of the byte strings in some columns.
fn variable_bytes(columns: &[ArrayRef]) -> usize {
    Variable::all(columns).map(|column| column.bytes()).sum()
}

/// The rows whose columns, the time left out, have more than so many bytes, and how many they have.
pub(crate) fn long_rows(
    schema: &TableSchema,
    batch: &RecordBatch,
    limit_bytes: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let is_any = batch.num_rows() > 0 && row_bytes_max(schema, batch.columns()) > limit_bytes;
    let columns: Vec<_> = Variable::all(batch.columns()).collect();
    let fixed = schema.layout().fixed_len();
    let rows = if is_any { 0..batch.num_rows() } else { 0..0 };
    rows.filter_map(move |row| {
        let of_row = columns.iter().filter_map(|column| column.get(row));
        let len_bytes = fixed + of_row.map(<[u8]>::len).sum::<usize>();
        (len_bytes > limit_bytes).then_some((row, len_bytes))
    })
}

/// Fails if there are [`long_rows`]. The first row of the batch is called `first` in the message.
pub(crate) fn check_row_bytes(
    schema: &TableSchema,
    batch: &RecordBatch,
    first: usize,
    limit_bytes: usize,
) -> Result<()> {
    match long_rows(schema, batch, limit_bytes).next() {
        Some((row, len_bytes)) => Err(Error::RowTooLong {
            row: first + row,
            len_bytes,
            limit_bytes,
        }),
        None => Ok(()),
    }
}
