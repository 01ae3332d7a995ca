//! Stores and tables that are created where there are none.

use std::path::Path;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::table::Layout;

impl Store {
    /// Opens the store in a directory, or creates one where the directory does not exist or is
    /// empty, with the default [`Options`].
    ///
    /// # Errors
    ///
    /// As for [`Options::open`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("readings");
    /// bedload::Store::open_or_create(&path)?.close()?;
    /// bedload::Store::open_or_create(&path)?.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().create(true).open(path)
    }

    /// The table of this name, which is created, indexed, if there is none.
    ///
    /// # Errors
    ///
    /// As for [`table_or_create_as`](Self::table_or_create_as); a table that exists may be of any layout.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// let columns = |value| bedload::TableSchema::new(Arc::new(Schema::new(vec![
    ///     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    ///     Field::new("x", value, true),
    /// ])), "at");
    /// store.table_or_create("t", columns(DataType::Float64)?)?;
    /// store.table_or_create("t", columns(DataType::Float64)?)?;
    /// assert!(store.table_or_create("t", columns(DataType::Utf8)?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table_or_create(&self, name: &str, schema: TableSchema) -> Result<Table> {
        self.found_or_created(name, schema, None)
    }

    /// The table of this name, which is created with a layout if there is none.
    ///
    /// # Errors
    ///
    /// The table exists and has other columns ([`Table::expect_columns`]) or another layout; as for
    /// [`create_table_as`](Self::create_table_as) otherwise.
    pub fn table_or_create_as(&self, name: &str, schema: TableSchema, layout: Layout) -> Result<Table> {
        self.found_or_created(name, schema, Some(layout))
    }

    fn found_or_created(&self, name: &str, schema: TableSchema, layout: Option<Layout>) -> Result<Table> {
        let expected = |table: Table| {
            table.expect_columns(&schema)?;
            if schema.key().is_some() && schema.key_names() != table.schema().key_names() {
                return Err(Error::schema(format!(
                    "table {name:?} exists and has not the key that is wanted"
                )));
            }
            match layout {
                Some(layout) if layout != table.layout() => Err(Error::schema(format!(
                    "table {name:?} has the layout {:?}, not {layout:?}: `bedload convert` copies a table into another layout",
                    table.layout()
                ))),
                _ => Ok(table),
            }
        };
        match self.table(name) {
            Err(Error::NoSuchTable { .. }) => {}
            found => return found.and_then(expected),
        }
        match self.create_table_as(name, schema.clone(), layout.unwrap_or_default()) {
            // Another thread was first.
            Err(Error::TableExists { .. }) => self.table(name).and_then(expected),
            created => created,
        }
    }
}

impl Table {
    /// Checks that the table has the columns of `wanted`, in any order, and the same time column.
    /// Whether a column may be null is not compared: [`append`](Self::append) refuses a null where
    /// there must be none.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`], which names the first column that differs.
    pub fn expect_columns(&self, wanted: &TableSchema) -> Result<()> {
        let (has, wants) = (self.schema().arrow(), wanted.arrow());
        let name = self.name();
        for field in wants.fields() {
            match has.field_with_name(field.name()) {
                Err(_) => {
                    return Err(Error::schema(format!(
                        "table {name:?} exists and has no column {:?}",
                        field.name()
                    )));
                }
                Ok(found) if found.data_type() != field.data_type() => {
                    return Err(Error::schema(format!(
                        "column {:?} of table {name:?} is {}, not {}",
                        field.name(),
                        found.data_type(),
                        field.data_type()
                    )));
                }
                Ok(_) => {}
            }
        }
        if let Some(other) = has
            .fields()
            .iter()
            .find(|field| wants.field_with_name(field.name()).is_err())
        {
            return Err(Error::schema(format!(
                "table {name:?} exists and has a column {:?} that is not wanted",
                other.name()
            )));
        }
        let time = |schema: &TableSchema| schema.arrow().field(schema.time_column()).name().clone();
        let (has, wants) = (time(self.schema()), time(wanted));
        if has == wants {
            Ok(())
        } else {
            Err(Error::schema(format!(
                "table {name:?} is ordered by {has:?}, not by {wants:?}"
            )))
        }
    }
}
