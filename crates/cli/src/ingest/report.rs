//! The report of a run.

use std::time::Duration;

use arrow_schema::{SchemaRef, TimeUnit};
use bedload::Layout;
use bedload_sortedness::Sortedness;
use bedload_times::unit_name;
use serde_json::{Value, json};

use super::measure::{Measure, OnGrid};
use super::target::Target;
use crate::exit::Result;
use crate::figures::{rate_line, rows_line, rows_text, size_line, sortedness_json, sortedness_text};
use crate::input::Rejects;
use crate::output::stdout::Stdout;
use crate::schema::{columns_json, columns_text};

/// The report of a run.
pub(crate) struct Report {
    /// Rows appended; in a dry run those that would be.
    pub(crate) rows: u64,
    pub(super) is_dry_run: bool,
    /// The columns of the table; `None` unless the run created it.
    pub(crate) created: Option<SchemaRef>,
    /// How far from sorted they were, if that was asked for.
    pub(crate) order: Option<Sortedness>,
    /// Rows that earlier runs had taken of the source, if it has an id.
    pub(crate) taken_before: Option<u64>,
    /// The unit in which integers of the time column were read, if it was not named.
    pub(crate) assumed_unit: Option<TimeUnit>,
    /// Counts of rows that did not fit the grid; `None` unless the table is sparse.
    pub(crate) on_grid: Option<OnGrid>,
    /// Rows that others replaced; `None` unless the table has a key.
    pub(crate) replaced: Option<u64>,
    pub(crate) rejects: Rejects,
    pub(crate) elapsed: Duration,
    /// Rows of the table, and of all tables.
    pub(crate) table_rows: u64,
    pub(crate) store_rows: u64,
    /// Bytes that the rows of all tables take.
    pub(crate) store_bytes: u64,
}

impl Report {
    pub(super) fn new(
        target: &Target,
        table: &str,
        measure: &Measure,
        order: Option<Sortedness>,
        rejects: Rejects,
        elapsed: Duration,
    ) -> Result<Self> {
        let info = target.store().info()?;
        let is_sparse = target.table().layout() != Layout::Indexed;
        let has_key = target.table().schema().key().is_some();
        let found = info.tables.iter().find(|info| info.name == table);
        Ok(Self {
            rows: measure.rows(),
            is_dry_run: target.is_dry_run(),
            created: target.is_new().then(|| target.schema()),
            order,
            taken_before: None,
            assumed_unit: None,
            on_grid: is_sparse.then(|| measure.on_grid()),
            replaced: (has_key && !is_sparse).then(|| measure.replaced()),
            rejects,
            elapsed,
            table_rows: found.map_or(0, |table| table.rows),
            store_rows: info
                .tables
                .iter()
                .map(|table| table.rows)
                .fold(0, u64::saturating_add),
            store_bytes: info.used_bytes,
        })
    }

    pub(crate) fn rows_per_second(&self) -> u64 {
        let nanos = self.elapsed.as_nanos().max(1);
        let rate = u128::from(self.rows) * 1_000_000_000 / nanos;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Bytes of the store for each row in it, those of earlier runs included.
    pub(crate) fn bytes_per_row(&self) -> f64 {
        self.store_bytes as f64 / self.store_rows.max(1) as f64
    }

    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        let mut out = Stdout::lock();
        if as_json {
            return out.json(&self.json());
        }
        let would = if self.is_dry_run { " would be added" } else { "" };
        out.line(&format!("{}{would}", rows_line(self.rows)))?;
        if let Some(order) = &self.order {
            out.line(&sortedness_text(order))?;
        }
        if let Some(created) = &self.created {
            out.line(&format!("{:>11} {}", "columns", columns_text(created)))?;
        }
        if let Some(taken) = self.taken_before.filter(|&taken| taken > 0) {
            out.line(&format!("{} already there", rows_line(taken)))?;
        }
        if let Some(unit) = self.assumed_unit {
            let unit = unit_name(unit);
            out.line(&format!(
                "times read as numbers of {unit}, the unit of the table; --time-unit names another"
            ))?;
        }
        if let Some(on_grid) = self
            .on_grid
            .filter(|on_grid| on_grid.moved + on_grid.collided > 0)
        {
            out.line(&format!(
                "{} moved to a time of the grid",
                rows_line(on_grid.moved)
            ))?;
            out.line(&format!(
                "{} replaced by a later one of their batch",
                rows_line(on_grid.collided)
            ))?;
        }
        if let Some(replaced) = self.replaced.filter(|&replaced| replaced > 0) {
            out.line(&format!(
                "{} replaced by a later one of their key",
                rows_line(replaced)
            ))?;
        }
        if self.is_dry_run {
            out.line("nothing was written: --dry-run")?;
        } else {
            self.print_figures(&mut out)?;
        }
        self.rejects.print();
        Ok(())
    }

    /// Prints what only rows that were written have.
    fn print_figures(&self, out: &mut Stdout) -> Result<()> {
        if let Some(rate) = rate_line(self.rows, self.rows_per_second()) {
            out.line(&rate)?;
        }
        if let Some(size) = size_line(self.store_rows, self.bytes_per_row()) {
            out.line(&format!(
                "{size}, over {} in the store",
                rows_text(self.store_rows)
            ))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let mut object = match &self.order {
            Some(order) => sortedness_json(order),
            None => json!({ "rows": self.rows }),
        };
        object["skipped"] = self.rejects.json();
        if let Some(created) = &self.created {
            object["columns"] = columns_json(created);
        }
        if let Some(taken) = self.taken_before {
            object["taken_before"] = taken.into();
        }
        if let Some(unit) = self.assumed_unit {
            object["assumed_unit"] = unit_name(unit).into();
        }
        if let Some(on_grid) = self.on_grid {
            object["moved"] = on_grid.moved.into();
            object["collided"] = on_grid.collided.into();
        }
        // Only rows that were written tell.
        let unless_dry = |value: Value| if self.is_dry_run { Value::Null } else { value };
        if let Some(replaced) = self.replaced {
            object["replaced"] = unless_dry(replaced.into());
        }
        object["seconds"] = self.elapsed.as_secs_f64().into();
        object["rows_per_second"] = self.rows_per_second().into();
        object["table_rows"] = unless_dry(self.table_rows.into());
        object["bytes_per_row"] = unless_dry(self.bytes_per_row().into());
        if self.is_dry_run {
            object["dry_run"] = true.into();
        }
        object
    }
}
