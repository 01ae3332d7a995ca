//! Schemas of tables, and where each column stands in a row.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload_trees::{Columns, RowLayout};

use super::column_types::{ValueWidth, stored_type};
use super::stored_columns::StoredColumns;
use crate::error::{Error, Result};

/// The name of the column that holds sequence numbers, if they are asked for.
pub(crate) const SEQUENCE_COLUMN: &str = "_sequence";

/// The columns of a table, one of which is its time.
///
/// The time column is an Arrow `Timestamp` of any unit, with or without a time zone, and never
/// null. The other columns are numbers (`Boolean`, `Int8` … `Int64`, `UInt8` … `UInt64`, `Float16`
/// … `Float64`, `Decimal32` … `Decimal256`), times (`Timestamp`, `Date32`, `Date64`, `Time32`,
/// `Time64`, `Duration`, `Interval(YearMonth)`), text or bytes (`Utf8`, `Binary`, `FixedSizeBinary`
/// of 1 to 4,096 bytes), nullable or not. `LargeUtf8` and `Utf8View` are stored as `Utf8`,
/// `LargeBinary` and `BinaryView` as `Binary`, a `Dictionary` as what it stands for, and batches
/// may have them so. A time zone is kept with the type; it does not change what is stored, which
/// is, as in Arrow, the time in UTC if there is a zone and local time if there is none.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// use bedload::TableSchema;
///
/// let schema = TableSchema::new(
///     Arc::new(Schema::new(vec![
///         Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
///         Field::new("celsius", DataType::Float64, true),
///     ])),
///     "at",
/// )?;
/// assert_eq!(schema.time_column(), 0);
/// # Ok::<(), bedload::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TableSchema {
    pub(super) arrow: SchemaRef,
    pub(super) time: usize,
    unit: TimeUnit,
    places: Vec<ColumnLayout>,
    layout: Columns,
    /// The columns that a row's key has besides its time; none if rows have no key.
    pub(super) key: Option<Vec<usize>>,
    pub(super) stored: StoredColumns,
}

/// Schemas are equal if they have the same columns, time and key.
impl PartialEq for TableSchema {
    fn eq(&self, other: &Self) -> bool {
        (&self.arrow, self.time, &self.key) == (&other.arrow, other.time, &other.key)
    }
}

/// Where a column stands in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnLayout {
    pub(crate) place: ColumnPlace,
    /// The bit of the flags that is set where the column has a value; none if it always has.
    pub(crate) valid_bit: Option<usize>,
}

/// Rows begin with a column of flags, if there are any; fixed columns follow in the order of the
/// schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnPlace {
    /// The key of the row's entry.
    Time,
    /// A boolean: a bit of the flags.
    Bit(usize),
    /// The fixed column `column` of the layout.
    Fixed { column: usize, width: usize },
    /// The variable column of this number.
    Variable(usize),
}

impl TableSchema {
    /// A table with the columns of `schema`, whose time is `time_column`. Metadata is not kept.
    ///
    /// # Errors
    ///
    /// The time column is missing or no timestamp; two columns have one name, or one has none or is
    /// called `_sequence`; a type cannot be stored; with the feature `times`, a zone is unknown.
    pub fn new(schema: SchemaRef, time_column: &str) -> Result<Self> {
        if let Some(unnamed) = schema.fields().iter().position(|field| field.name().is_empty()) {
            return Err(Error::schema(format!(
                "the name of column {} is empty",
                unnamed + 1
            )));
        }
        let schema = Self::in_any_zone(schema, time_column)?;
        #[cfg(feature = "times")]
        super::zones::check(&schema.arrow)?;
        Ok(schema)
    }

    /// As [`new`](Self::new), whatever zones the columns have.
    pub(super) fn in_any_zone(schema: SchemaRef, time_column: &str) -> Result<Self> {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let Some(time) = names.iter().position(|name| name == time_column) else {
            return Err(Error::NoSuchColumn {
                name: time_column.into(),
                columns: names,
            });
        };
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::schema(format!("two columns are named {twice:?}")));
        }
        if names.iter().any(|name| name == SEQUENCE_COLUMN) {
            return Err(Error::schema(format!(
                "{SEQUENCE_COLUMN:?} is the name of a row's place in the order of arrival"
            )));
        }
        let DataType::Timestamp(unit, _) = schema.field(time).data_type() else {
            return Err(Error::schema(format!(
                "the time column {time_column:?} is {}; it must be a timestamp",
                schema.field(time).data_type()
            )));
        };
        let unit = *unit;
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(i, field)| {
                Field::new(
                    field.name(),
                    stored_type(field.data_type()).clone(),
                    i != time && field.is_nullable(),
                )
            })
            .collect();

        Self::of_fields(fields, time, unit)
    }

    /// The schema of some fields, whatever their names are. The type of the time has this unit.
    pub(super) fn of_fields(fields: Vec<Field>, time: usize, unit: TimeUnit) -> Result<Self> {
        let mut bits: usize = 0;
        let mut take_bit = || {
            bits += 1;
            bits - 1
        };
        let mut valid_bits = Vec::new();
        let mut value_bits = Vec::new();
        for field in &fields {
            valid_bits.push(field.is_nullable().then(&mut take_bit));
            value_bits.push(
                (*field.data_type() == DataType::Boolean)
                    .then(&mut take_bit)
                    .unwrap_or_default(),
            );
        }
        let flag_bytes = bits.div_ceil(8);
        let mut widths: Vec<usize> = if bits > 0 { vec![flag_bytes] } else { Vec::new() };
        let mut variable = 0;
        let mut places = Vec::with_capacity(fields.len());
        for (i, field) in fields.iter().enumerate() {
            let Some(width) = ValueWidth::of(field.data_type()) else {
                return Err(Error::schema(format!(
                    "column {:?} has the type {}, which a table cannot store",
                    field.name(),
                    field.data_type()
                )));
            };
            let place = match width {
                _ if i == time => ColumnPlace::Time,
                ValueWidth::Bit => ColumnPlace::Bit(value_bits[i]),
                ValueWidth::Variable => {
                    variable += 1;
                    ColumnPlace::Variable(variable - 1)
                }
                ValueWidth::Bytes(width) => {
                    widths.push(width);
                    ColumnPlace::Fixed {
                        column: widths.len() - 1,
                        width,
                    }
                }
            };
            places.push(ColumnLayout {
                place,
                valid_bit: valid_bits[i],
            });
        }
        let widths: Vec<u16> = widths
            .into_iter()
            .map(|width| u16::try_from(width).unwrap_or(u16::MAX))
            .collect();
        let layout = Columns::new(&widths, variable);
        Ok(Self {
            arrow: Arc::new(Schema::new(fields)),
            time,
            unit,
            places,
            layout,
            key: None,
            stored: StoredColumns::First,
        })
    }

    /// Gives rows a key: their time and these columns. A row that is appended takes the place of
    /// the one that has its key, and of several in one batch the last counts. Null equals null, a
    /// NaN any of the same bits, and -0.0 is not 0.0. The time column may be named or left out.
    ///
    /// Rows that are newer than all rows of their table are compared with each other, unless their
    /// times ascend, and with nothing else. For others, the rows of their times are read first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{Float64Array, Int32Array, RecordBatch, TimestampSecondArray};
    /// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = bedload::Store::create(dir.path().join("s"))?;
    /// # let columns = Arc::new(Schema::new(vec![
    /// #     Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
    /// #     Field::new("sensor", DataType::Int32, false),
    /// #     Field::new("celsius", DataType::Float64, true),
    /// # ]));
    /// let schema = bedload::TableSchema::new(columns.clone(), "at")?.with_key(&["sensor"])?;
    /// let table = store.create_table("readings", schema)?;
    /// let rows = |celsius: Vec<f64>| RecordBatch::try_new(columns.clone(), vec![
    ///     Arc::new(TimestampSecondArray::from(vec![10, 10])),
    ///     Arc::new(Int32Array::from(vec![1, 2])),
    ///     Arc::new(Float64Array::from(celsius)),
    /// ]);
    /// table.append(&rows(vec![20.0, 21.0])?)?;
    /// let again = table.append(&rows(vec![20.5, 21.0])?)?;
    /// assert_eq!((again.replaced, table.range(..)?.count()?), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such column.
    pub fn with_key(mut self, columns: &[impl AsRef<str>]) -> Result<Self> {
        let mut key = Vec::with_capacity(columns.len());
        for column in columns {
            let place = self.position(column.as_ref())?;
            if place != self.time && !key.contains(&place) {
                key.push(place);
            }
        }
        key.sort_unstable();
        self.key = Some(key);
        Ok(self)
    }

    /// The positions of the columns that a row's key has besides its time; `None` if rows have no
    /// key.
    #[must_use]
    pub fn key(&self) -> Option<&[usize]> {
        self.key.as_deref()
    }

    /// The names of the columns of the key, its time first.
    #[must_use]
    pub fn key_names(&self) -> Option<Vec<&str>> {
        let name = |&column: &usize| self.arrow.field(column).name().as_str();
        let key = self.key.as_ref()?;
        Some(std::iter::once(&self.time).chain(key).map(name).collect())
    }

    /// The type under which a table stores columns of a type, its own or another that holds the
    /// same values; `None` if it stores none of them.
    ///
    /// ```
    /// use arrow_schema::DataType;
    /// use bedload::TableSchema;
    ///
    /// assert_eq!(TableSchema::stored_type(&DataType::LargeUtf8), Some(DataType::Utf8));
    /// assert_eq!(TableSchema::stored_type(&DataType::Decimal128(10, 2)), Some(DataType::Decimal128(10, 2)));
    /// assert_eq!(TableSchema::stored_type(&DataType::Null), None);
    /// ```
    #[must_use]
    pub fn stored_type(data_type: &DataType) -> Option<DataType> {
        let stored = stored_type(data_type);
        ValueWidth::of(stored).map(|_| stored.clone())
    }

    /// The columns, as record batches of this table have them.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The position of the time column.
    #[must_use]
    pub fn time_column(&self) -> usize {
        self.time
    }

    /// The unit in which times are counted.
    #[must_use]
    pub fn time_unit(&self) -> TimeUnit {
        self.unit
    }

    pub(crate) fn layout(&self) -> &Columns {
        &self.layout
    }

    pub(crate) fn places(&self) -> &[ColumnLayout] {
        &self.places
    }

    /// Bytes of the column of flags, the first of the row; 0 if there is none.
    pub(crate) fn flag_bytes(&self) -> usize {
        let flagged = self
            .places
            .iter()
            .any(|p| p.valid_bit.is_some() || matches!(p.place, ColumnPlace::Bit(_)));
        if flagged {
            usize::from(self.layout.fixed_widths()[0])
        } else {
            0
        }
    }

    /// The position of a column.
    pub(crate) fn position(&self, column: &str) -> Result<usize> {
        let fields = self.arrow.fields();
        let found = fields.iter().position(|field| field.name() == column);
        found.ok_or_else(|| Error::NoSuchColumn {
            name: column.into(),
            columns: self.names(),
        })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.arrow
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }
}

/// Fails unless the batch has the table's columns: names, order and types, and values where they
/// are required.
pub(crate) fn check_columns(schema: &TableSchema, batch: &RecordBatch) -> Result<()> {
    let expected = schema.arrow().fields();
    let found = batch.schema_ref().fields();
    if expected.len() != found.len() {
        let reason = format!(
            "the batch has {} columns, the table {}",
            found.len(),
            expected.len()
        );
        return Err(Error::schema(reason));
    }
    for (position, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.name() != found.name() || expected.data_type() != found.data_type() {
            return Err(Error::schema(format!(
                "column {position} of the batch is {:?} of type {}, that of the table {:?} of type {}",
                found.name(),
                found.data_type(),
                expected.name(),
                expected.data_type()
            )));
        }
        let Some(nulls) = batch
            .column(position)
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0)
        else {
            continue;
        };
        if !expected.is_nullable() {
            let row = (0..nulls.len())
                .find(|&row| nulls.is_null(row))
                .unwrap_or_default();
            let column = expected.name().clone();
            return Err(if position == schema.time_column() {
                Error::NullTime { column, row }
            } else {
                Error::schema(format!(
                    "row {row} has no value in column {column:?}, which requires one"
                ))
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_schema::IntervalUnit;

    use super::super::column_record::tests::every_type;
    use super::*;

    #[test]
    fn a_row_has_its_flags_and_its_columns() {
        let schema =
            TableSchema::new(Arc::new(Schema::new(every_type())), "timestamp_s").expect("all storable");
        // 25 nullable columns and one boolean value.
        assert_eq!(schema.flag_bytes(), 4);
        let widths = schema.places().iter().filter_map(|layout| match layout.place {
            ColumnPlace::Fixed { width, .. } => Some(width),
            _ => None,
        });
        assert_eq!(4 + widths.sum::<usize>(), schema.layout().fixed_len());
    }

    #[test]
    fn unfit_schemas_are_refused() {
        let stamp = DataType::Timestamp(TimeUnit::Second, None);
        let case = |fields: Vec<Field>, time: &str| {
            TableSchema::new(Arc::new(Schema::new(fields)), time)
                .expect_err("unfit")
                .to_string()
        };
        assert_eq!(
            case(vec![Field::new("a", stamp.clone(), false)], "b"),
            "there is no column \"b\"; the columns are a"
        );
        let twice = vec![
            Field::new("a", stamp.clone(), false),
            Field::new("a", DataType::Int8, false),
        ];
        assert_eq!(case(twice, "a"), "two columns are named \"a\"");
        let unnamed = vec![
            Field::new("a", stamp.clone(), false),
            Field::new("", DataType::Int8, false),
        ];
        assert_eq!(case(unnamed, "a"), "the name of column 2 is empty");
        assert!(case(vec![Field::new("a", DataType::Int64, false)], "a").contains("must be a timestamp"));
        for odd in [
            DataType::Null,
            DataType::Interval(IntervalUnit::DayTime),
            DataType::Decimal128(39, 2),
            DataType::Decimal32(9, 10),
            DataType::FixedSizeBinary(4097),
            DataType::new_list(DataType::Int8, true),
        ] {
            let fields = vec![Field::new("a", stamp.clone(), false), Field::new("b", odd, false)];
            assert!(case(fields, "a").contains("cannot store"));
        }
    }
}
