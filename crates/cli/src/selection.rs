//! Rows and columns of a table that a command reads.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use bedload::{Scan, Table};

use crate::condition::Condition;
use crate::exit::{Failure, Result};
use crate::interrupt;
use crate::output::Answer;
use crate::store::TickRange;

/// Which rows and columns of a table are asked for, and in which order.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) range: TickRange,
    /// All if `None`.
    pub(crate) columns: Option<&'a [String]>,
    /// Every row meets all of them.
    pub(crate) conditions: Vec<Condition>,
    pub(crate) limit: Option<u64>,
    /// Latest first.
    pub(crate) reverse: bool,
}

impl Selection<'_> {
    /// The columns of the answer.
    pub(crate) fn schema(&self, table: &Table) -> Result<SchemaRef> {
        let schema = table.schema().arrow();
        let Some(columns) = self.columns else {
            return Ok(Arc::clone(schema));
        };
        let mut fields = Vec::with_capacity(columns.len());
        for (i, name) in columns.iter().enumerate() {
            let field = schema.field_with_name(name).map_err(|_| {
                let there: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                let (table, there) = (table.name(), there.join(", "));
                Failure::input(format!("table {table} has no column {name}; there are: {there}"))
            })?;
            if columns[..i].contains(name) {
                return Err(Failure::usage(format!(
                    "column {name} is named twice in --columns"
                )));
            }
            fields.push(field.clone());
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The rows of a range that lies within that of the selection.
    pub(crate) fn scan(&self, table: &Table, range: TickRange) -> Result<Scan> {
        self.narrow(table.range(range)?)
    }

    /// The columns and rows of a scan over all columns that are asked for.
    pub(crate) fn narrow(&self, mut scan: Scan) -> Result<Scan> {
        if let Some(columns) = self.columns {
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            scan = scan.columns(&names)?;
        }
        for condition in &self.conditions {
            scan = condition.apply(scan)?;
        }
        interrupt::ends(scan.stop_handle());
        Ok(scan)
    }

    /// The rows of the selection, in its order and up to its limit.
    pub(crate) fn ordered_scan(&self, table: &Table) -> Result<Scan> {
        let mut scan = self.scan(table, self.range)?;
        if self.reverse {
            scan = scan.rev();
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        Ok(scan)
    }
}

/// Passes the rows of a scan to `answer`, batch by batch, and finishes it. Returns how many there
/// were.
pub(crate) fn stream(scan: Scan, mut answer: Answer) -> Result<u64> {
    let mut rows = 0;
    for batch in scan {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        answer.write(&batch)?;
        interrupt::check()?;
    }
    interrupt::check()?;
    answer.finish()?;
    Ok(rows)
}
