//! The columns that the rows of a table are stored with, and those that users see.
//!
//! Stored rows keep their columns for ever: others are added after them, and one that is dropped
//! only loses its name. So a column is known by its position in stored rows, and users see those
//! that were not dropped.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Field, FieldRef, Schema};

use super::column_types::to_stored;
use super::schema::{TableSchema, check_columns};
use crate::error::{Error, Result};

/// Which columns of stored rows a schema has.
#[derive(Debug, Clone)]
pub(super) enum StoredColumns {
    /// The first ones, or all. None of these was dropped.
    First,
    /// All of them. Some were dropped, and users see those of this schema.
    WithDropped(Arc<TableSchema>),
    /// The ones at these positions, ascending. Others were dropped.
    At(Arc<[usize]>),
}

impl TableSchema {
    /// The schema of stored rows with these fields. Those at the positions `live`, ascending, were
    /// not dropped, and have the names of the time and of the columns of the key.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), whatever zones the columns have; or there is no such column.
    pub(super) fn from_stored(
        fields: &[FieldRef],
        live: Vec<usize>,
        time: &str,
        key: Option<&[String]>,
    ) -> Result<Self> {
        let seen: Vec<FieldRef> = live.iter().map(|&position| fields[position].clone()).collect();
        let mut seen = Self::in_any_zone(Arc::new(Schema::new(seen)), time)?;
        if let Some(key) = key {
            seen = seen.with_key(key)?;
        }
        if live.len() == fields.len() {
            return Ok(seen);
        }
        let stored = fields.iter().enumerate().map(|(position, field)| {
            live.binary_search(&position).map_or_else(
                // Rows have no value in it from now on, whether they had to have one or not.
                |_| Field::new("", field.data_type().clone(), true),
                |column| seen.arrow.field(column).clone(),
            )
        });
        let mut stored = Self::of_fields(stored.collect(), live[seen.time], seen.time_unit())?;
        let key = seen.key.as_ref();
        stored.key = key.map(|key| key.iter().map(|&column| live[column]).collect());
        seen.stored = StoredColumns::At(live.into());
        stored.stored = StoredColumns::WithDropped(Arc::new(seen));
        Ok(stored)
    }

    /// The columns that users see of rows that are stored with these.
    pub(crate) fn live(&self) -> &Self {
        match &self.stored {
            StoredColumns::WithDropped(live) => live,
            StoredColumns::First | StoredColumns::At(_) => self,
        }
    }

    /// The schema of a new table with these columns.
    pub(crate) fn of_new_table(mut self) -> Self {
        self.stored = StoredColumns::First;
        self
    }

    /// Where the columns that users see stand in stored rows; `None` if they are the first ones.
    pub(crate) fn positions(&self) -> Option<&Arc<[usize]>> {
        match &self.live().stored {
            StoredColumns::At(positions) => Some(positions),
            StoredColumns::First | StoredColumns::WithDropped(_) => None,
        }
    }

    /// Where a column that users see stands in stored rows.
    pub(crate) fn stored_position(&self, column: usize) -> usize {
        self.positions().map_or(column, |positions| positions[column])
    }

    /// The position in stored rows of each column that users see.
    pub(crate) fn stored_positions(&self) -> Vec<usize> {
        let columns = 0..self.live().arrow.fields().len();
        columns.map(|column| self.stored_position(column)).collect()
    }

    /// Whether a column of stored rows was dropped.
    pub(crate) fn was_dropped(&self, position: usize) -> bool {
        let live = self.positions();
        live.is_some_and(|live| live.binary_search(&position).is_err())
    }

    /// Whether users once saw the columns of `other`, under any names, in rows stored with these.
    /// Types, time and key are the same; columns may have become nullable, never the reverse.
    pub(crate) fn is_later_than(&self, other: &Self) -> bool {
        let positions = other.stored_positions();
        let at = |&column: &usize| positions.get(column).copied();
        let key = other.key.as_ref().map(|key| key.iter().filter_map(at).collect());
        let others = other.arrow.fields().iter().zip(&positions);
        let mut are_alike = others.map(|(other, &position)| {
            let own = self.arrow.fields().get(position);
            own.is_some_and(|own| {
                own.data_type() == other.data_type() && (own.is_nullable() || !other.is_nullable())
            })
        });
        at(&other.time) == Some(self.time) && self.key == key && are_alike.all(|is_alike| is_alike)
    }

    /// The schema of rows that are stored with these, or the first of these, for users who see the
    /// columns of `other`, which users once [saw](Self::is_later_than).
    ///
    /// # Errors
    ///
    /// Users never saw these columns.
    pub(crate) fn seen_as(&self, other: &Self) -> Result<Self> {
        if !self.is_later_than(other) {
            return Err(Error::schema("the table never had this schema"));
        }
        let live = other.stored_positions();
        let count = live.last().map_or(0, |last| last + 1);
        let mut fields = self.arrow.fields()[..count].to_vec();
        for (&position, field) in live.iter().zip(other.arrow.fields()) {
            fields[position] = field.clone();
        }
        let name = |&column: &usize| other.arrow.field(column).name().clone();
        let key = other.key.as_ref();
        let key = key.map(|key| key.iter().map(name).collect::<Vec<String>>());
        Self::from_stored(&fields, live, &name(&other.time), key.as_deref())
    }

    /// The rows of a batch that has the columns that users see, with all columns of stored rows:
    /// those that were dropped are null.
    ///
    /// # Errors
    ///
    /// The batch does not have these columns.
    pub(crate) fn rows_to_store<'b>(&self, batch: &'b RecordBatch) -> Result<Cow<'b, RecordBatch>> {
        let batch = to_stored(batch)?.map_or(Cow::Borrowed(batch), Cow::Owned);
        check_columns(self.live(), &batch)?;
        let Some(live) = self.positions() else {
            return Ok(batch);
        };
        let fields = self.arrow.fields().iter().enumerate();
        let columns = fields.map(|(position, field)| match live.binary_search(&position) {
            Ok(column) => batch.column(column).clone(),
            Err(_) => new_null_array(field.data_type(), batch.num_rows()),
        });
        RecordBatch::try_new(self.arrow.clone(), columns.collect())
            .map(Cow::Owned)
            .map_err(|error| Error::schema(error.to_string()))
    }

    /// The schema with further columns after its own.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); or one of the columns requires values, which rows that are there
    /// do not have.
    pub(crate) fn with_columns(&self, columns: &[FieldRef]) -> Result<Self> {
        if let Some(column) = columns.iter().find(|column| !column.is_nullable()) {
            return Err(Error::schema(format!(
                "column {:?} must be nullable: existing rows have no values for it",
                column.name()
            )));
        }
        columns
            .iter()
            .try_for_each(|column| self.check_free(column.name()))?;
        #[cfg(feature = "times")]
        super::zones::check(&Schema::new(columns.to_vec()))?;
        let mut fields = self.arrow.fields().to_vec();
        let mut live = self.stored_positions();
        live.extend(fields.len()..fields.len() + columns.len());
        fields.extend_from_slice(columns);
        self.changed(&fields, live)
    }

    /// The schema with another name for a column.
    ///
    /// # Errors
    ///
    /// There is no such column; the new name is empty or `_sequence`, or is that of a column.
    pub(crate) fn with_renamed(&self, column: &str, new: &str) -> Result<Self> {
        let renamed = self.stored_position(self.live().position(column)?);
        self.check_free(new)?;
        let mut fields = self.arrow.fields().to_vec();
        fields[renamed] = Arc::new(Field::clone(&fields[renamed]).with_name(new));
        self.changed(&fields, self.stored_positions())
    }

    /// The schema without a column, which stored rows keep.
    ///
    /// # Errors
    ///
    /// There is no such column, or it is the time or one of the key.
    pub(crate) fn without(&self, column: &str) -> Result<Self> {
        let dropped = self.stored_position(self.live().position(column)?);
        let refused = |what| Err(Error::schema(format!("column {column:?} is {what}")));
        if dropped == self.time {
            return refused("the time of the table, which cannot be dropped");
        }
        if self.key.as_ref().is_some_and(|key| key.contains(&dropped)) {
            return refused("one of the table's key, which cannot be dropped");
        }
        let mut live = self.stored_positions();
        live.retain(|&position| position != dropped);
        self.changed(self.arrow.fields(), live)
    }

    /// Fails if a column has this name, or none can have it.
    fn check_free(&self, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(Error::schema("the new name of a column is empty"));
        }
        match self.live().arrow.column_with_name(name) {
            Some(_) => Err(Error::schema(format!("the table has a column {name:?}"))),
            None => Ok(()),
        }
    }

    /// The schema of the same table with these fields, of which those at the positions `live` were
    /// not dropped.
    fn changed(&self, fields: &[FieldRef], live: Vec<usize>) -> Result<Self> {
        let name = |&position: &usize| fields[position].name().clone();
        let key = self.key.as_ref();
        let key = key.map(|key| key.iter().map(name).collect::<Vec<String>>());
        Self::from_stored(fields, live, &name(&self.time), key.as_deref())
    }

    /// Adds a column of nulls to the first `columns` of some rows for each further one of the
    /// table.
    ///
    /// # Errors
    ///
    /// The time is not among them, or a further column requires values.
    pub(crate) fn fill_up(
        &self,
        mut columns: Vec<ArrayRef>,
        rows: usize,
    ) -> std::result::Result<Vec<ArrayRef>, &'static str> {
        let lacking = self.arrow.fields().get(columns.len()..).unwrap_or_default();
        if columns.len() <= self.time || !lacking.iter().all(|field| field.is_nullable()) {
            return Err("its rows do not have the columns of their table");
        }
        columns.extend(
            lacking
                .iter()
                .map(|field| new_null_array(field.data_type(), rows)),
        );
        Ok(columns)
    }
}
