//! Aligned columns. The widths are those of the first rows; later values may stand out.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ArrowError;
use arrow_schema::SchemaRef;

use crate::printable::printable;

/// Rows that are held back to find the widths of the columns.
const MEASURED_ROWS: usize = 1000;

/// Writes rows as lines.
pub(super) struct TableWriter<W> {
    target: W,
    names: Vec<String>,
    /// Whether a column's values stand at its right edge, as numbers do.
    right: Vec<bool>,
    /// Empty until the header has been written.
    widths: Vec<usize>,
    held: Vec<Vec<String>>,
    rows: u64,
}

impl<W: Write> TableWriter<W> {
    pub(super) fn new(target: W, schema: &SchemaRef) -> Self {
        let names = schema
            .fields()
            .iter()
            .map(|field| printable(field.name()).into_owned())
            .collect();
        let right = schema
            .fields()
            .iter()
            .map(|field| field.data_type().is_numeric())
            .collect();
        Self {
            target,
            names,
            right,
            widths: Vec::new(),
            held: Vec::new(),
            rows: 0,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::default();
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| Ok(printable(&column.value(row).try_to_string()?).into_owned()))
                .collect::<Result<_, ArrowError>>()?;
            self.rows += 1;
            if self.widths.is_empty() {
                self.held.push(cells);
                if self.held.len() == MEASURED_ROWS {
                    self.release()?;
                }
            } else {
                self.line(&cells)?;
            }
        }
        Ok(())
    }

    /// Settles the widths, if there was a row, and writes what there is.
    pub(super) fn flush(&mut self) -> Result<(), ArrowError> {
        if self.widths.is_empty() && !self.held.is_empty() {
            self.release()?;
        }
        Ok(self.target.flush()?)
    }

    pub(super) fn finish(mut self) -> Result<W, ArrowError> {
        if self.widths.is_empty() {
            self.release()?;
        }
        let plural = if self.rows == 1 { "" } else { "s" };
        writeln!(self.target, "({} row{plural})", self.rows)?;
        Ok(self.target)
    }

    /// Settles the widths and writes the header and the rows held back.
    fn release(&mut self) -> Result<(), ArrowError> {
        let held = std::mem::take(&mut self.held);
        let width_of = |column: usize| {
            let cells = held.iter().map(|cells| cells[column].chars().count());
            cells
                .chain([self.names[column].chars().count(), 1])
                .max()
                .unwrap_or(1)
        };
        self.widths = (0..self.names.len()).map(width_of).collect();
        let names = self.names.clone();
        self.line(&names)?;
        let rules: Vec<String> = self.widths.iter().map(|&width| "-".repeat(width)).collect();
        self.line(&rules)?;
        held.iter().try_for_each(|cells| self.line(cells))
    }

    fn line(&mut self, cells: &[String]) -> Result<(), ArrowError> {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(self.widths[column].saturating_sub(cell.chars().count()));
            if column > 0 {
                line.push_str("  ");
            }
            if self.right[column] {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
        }
        writeln!(self.target, "{}", line.trim_end())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn written(batches: &[RecordBatch]) -> String {
        let mut writer = TableWriter::new(Vec::new(), &batches[0].schema());
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    fn batch(numbers: Vec<Option<i64>>, texts: Vec<&str>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(StringArray::from(texts)) as _)])
            .unwrap()
    }

    #[test]
    fn columns_are_aligned_and_control_characters_shown() {
        let batch = batch(vec![Some(1), None, Some(-100)], vec!["a", "längst\n", ""]);
        let expected = "   n  text\n----  --------\n   1  a\n      längst\\n\n-100\n(3 rows)\n";
        assert_eq!(written(&[batch]), expected);
    }

    #[test]
    fn later_rows_may_stand_out() {
        let first = batch(vec![Some(1); MEASURED_ROWS], vec!["a"; MEASURED_ROWS]);
        let text = written(&[first, batch(vec![Some(100)], vec!["z"])]);
        assert_eq!(text.lines().count(), MEASURED_ROWS + 4);
        assert!(text.ends_with("1  a\n100  z\n(1001 rows)\n"));
    }
}
