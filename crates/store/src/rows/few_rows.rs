//! Rows of short commits, as the log has them, until there are enough of them to be a run.
//!
//! Arrays for a row or two cost more than the rest of a commit. So the rows of short commits stay
//! encoded, one commit after another in one piece of memory, and become arrays together: when many
//! commits wait, or when a reader comes.

use std::sync::Arc;

use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};
use bedload_trees::RowLayout;

use super::encoded_rows::{
    BUFFER_ALIGNMENT, COLUMN_HEADER_BYTES, EncodedRows, HEADER_BYTES, len32, pad, push_bits,
};
use super::parts::Few;
use super::schema::ColumnPlace;
use super::{SortedBatch, SortedRows, TableSchema};

/// A commit of more rows, or of more bytes, is a run of its own: making arrays of it costs little
/// for a row, and copying it once more would not.
const ROWS_MAX: usize = 32;
const BYTES_MAX: usize = 4096;

/// Whether encoded rows are so few that they wait for others.
pub(crate) fn are_few(rows: &EncodedRows) -> bool {
    rows.len() <= ROWS_MAX && rows.bytes().len() <= BYTES_MAX
}

/// Rows of short commits that followed one another, in the order of their sequence numbers.
#[derive(Debug, Clone)]
pub(super) struct FewRows {
    schema: Arc<TableSchema>,
    commits: Vec<Commit>,
    /// The encoded rows of one commit after another.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Commit {
    /// The sequence number of the first row; the others follow it.
    first: u64,
    rows: usize,
    /// Where its bytes end.
    end: usize,
}

impl FewRows {
    /// Rows of a table with this schema, none yet.
    pub(super) fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            schema,
            commits: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds the rows of a commit.
    pub(super) fn push(&mut self, rows: &EncodedRows, first: u64) {
        self.bytes.extend_from_slice(rows.bytes());
        self.commits.push(Commit {
            first,
            rows: rows.len(),
            end: self.bytes.len(),
        });
    }

    /// The rows of all commits as those of one.
    fn joined(&self) -> EncodedRows {
        let mut begin = 0;
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(self.commits.len());
        for commit in &self.commits {
            parts.push(Part::new(&self.bytes[begin..commit.end], commit.rows));
            begin = commit.end;
        }
        let rows: usize = self.commits.iter().map(|commit| commit.rows).sum();
        let places = self.schema.places();
        let mut memory = MutableBuffer::with_capacity(
            self.bytes.len() + self.schema.layout().variable_columns() * BUFFER_ALIGNMENT,
        );
        memory.push(len32(rows));
        memory.push(len32(places.len()));
        for (column, layout) in places.iter().enumerate() {
            let lens = || parts.iter().map(|part| part.lens(column));
            let validity = if lens().all(|(validity, _)| validity == 0) {
                0
            } else {
                rows.div_ceil(8)
            };
            let values = match layout.place {
                ColumnPlace::Bit(_) => rows.div_ceil(8),
                _ => lens().map(|(_, values)| values).sum(),
            };
            memory.push(len32(validity));
            memory.push(len32(values));
        }
        for (column, layout) in places.iter().enumerate() {
            if parts.iter().any(|part| part.lens(column).0 > 0) {
                let mut bits = BooleanBufferBuilder::new(rows);
                for part in &mut parts {
                    match part.lens(column).0 {
                        0 => bits.append_n(part.rows, true),
                        len => bits.append_packed_range(0..part.rows, part.take(len)),
                    }
                }
                push_bits(&mut memory, &bits.finish());
            }
            match layout.place {
                ColumnPlace::Time | ColumnPlace::Fixed { .. } => {}
                ColumnPlace::Bit(_) => {
                    let mut bits = BooleanBufferBuilder::new(rows);
                    for part in &mut parts {
                        bits.append_packed_range(0..part.rows, part.take(part.lens(column).1));
                    }
                    push_bits(&mut memory, &bits.finish());
                    continue;
                }
                ColumnPlace::Variable(_) => {
                    let mut end = 0;
                    memory.push(end);
                    for part in &mut parts {
                        let ends = part.take(size_of::<i32>() * (part.rows + 1));
                        let (ends, _) = ends.as_chunks();
                        let ends = ends.iter().map(|&end| i32::from_le_bytes(end));
                        let begin = end;
                        for of_part in ends.skip(1) {
                            end = begin + of_part;
                            memory.push(end);
                        }
                    }
                    pad(&mut memory);
                }
            }
            for part in &mut parts {
                memory.extend_from_slice(part.take(part.lens(column).1));
            }
            pad(&mut memory);
        }
        EncodedRows {
            rows,
            columns: places.len(),
            bytes: memory.into(),
        }
    }
}

impl Few for FewRows {
    type Run = SortedRows;

    fn commits(&self) -> usize {
        self.commits.len()
    }

    fn first(&self) -> Option<u64> {
        self.commits.first().map(|commit| commit.first)
    }

    fn remove_first(&mut self, commits: usize) {
        let begin = commits.checked_sub(1).map_or(0, |last| self.commits[last].end);
        self.commits.drain(..commits);
        self.commits.iter_mut().for_each(|commit| commit.end -= begin);
        self.bytes.drain(..begin);
    }

    fn to_run(&self) -> SortedRows {
        let columns = self.joined().decode(&self.schema);
        let sorted = columns.map(|columns| SortedBatch::new(&self.schema, columns));
        let sorted = sorted.expect("rows are encoded as they are decoded");
        let numbers = |commit: &Commit| commit.first..commit.first + commit.rows as u64;
        let sequences: Vec<u64> = self.commits.iter().flat_map(numbers).collect();
        sorted
            .expect("the text of few rows fits an array")
            .numbered_by(|row| sequences[row])
    }
}

/// The encoded rows of one commit, whose buffers are taken one after another.
struct Part<'b> {
    rows: usize,
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Part<'b> {
    fn new(bytes: &'b [u8], rows: usize) -> Self {
        let columns = u32::from_le_bytes(bytes[4..HEADER_BYTES].try_into().expect("four bytes"));
        let at = HEADER_BYTES + COLUMN_HEADER_BYTES * columns as usize;
        Self { rows, bytes, at }
    }

    /// Bytes of the validity of a column, and of its values.
    fn lens(&self, column: usize) -> (usize, usize) {
        let at = HEADER_BYTES + COLUMN_HEADER_BYTES * column;
        let (lens, _) = self.bytes[at..at + COLUMN_HEADER_BYTES].as_chunks();
        let len = |number: usize| u32::from_le_bytes(lens[number]) as usize;
        (len(0), len(1))
    }

    /// The next buffer, which has so many bytes.
    fn take(&mut self, len: usize) -> &'b [u8] {
        let buffer = &self.bytes[self.at..self.at + len];
        self.at += len.next_multiple_of(BUFFER_ALIGNMENT);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoded_rows::tests::batch;
    use super::*;

    fn encoded(schema: &TableSchema, first: u8, rows: u8) -> EncodedRows {
        EncodedRows::encode(schema, &batch(first..first + rows), MutableBuffer::new(0))
    }

    #[test]
    fn rows_of_commits_are_joined_as_if_they_were_of_one() {
        let all = batch(0..60);
        let schema = Arc::new(TableSchema::new(all.schema(), "at").expect("storable"));
        let mut few = FewRows::new(schema.clone());
        // Rows of every column with values in all of them, in some and in none.
        let lens = [1, 2, 1, 7, 1, 1, 9, 8, 1, 29];
        let (mut first, mut sequences) = (0, Vec::new());
        for (commit, len) in (0..).zip(lens) {
            // Numbers between them are those of another table.
            let number = 100 * commit + u64::from(first);
            few.push(&encoded(&schema, first, len), number);
            sequences.extend(number..number + u64::from(len));
            first += len;
        }
        assert_eq!(usize::from(first), all.num_rows());
        let joined = few.joined();
        assert_eq!(joined.bytes(), encoded(&schema, 0, first).bytes());
        let run = few.to_run();
        assert_eq!(run.columns()[..], *all.columns());
        assert_eq!(run.places().sequences()[..], sequences);
        few.remove_first(3);
        assert_eq!(few.commits(), lens.len() - 3);
        assert_eq!(few.first(), Some(304));
        assert_eq!(few.joined().bytes(), encoded(&schema, 4, first - 4).bytes());
        few.remove_first(0);
        few.remove_first(few.commits());
        assert_eq!((few.commits(), few.first()), (0, None));
    }

    #[test]
    fn times_out_of_order_keep_the_numbers_of_their_rows() {
        let all = batch(0..3);
        let schema = Arc::new(TableSchema::new(all.schema(), "at").expect("storable"));
        let mut few = FewRows::new(schema.clone());
        few.push(&encoded(&schema, 2, 1), 5);
        few.push(&encoded(&schema, 0, 2), 8);
        let run = few.to_run();
        assert_eq!(run.columns()[..], *all.columns());
        assert_eq!(run.places().sequences()[..], [8, 9, 5]);
        assert_eq!(run.arrivals(), [2, 0, 1]);
        assert_eq!(run.sequences(), 5..10);
    }
}
