//! The columns of a table as the catalogue records them. Format: docs/format.md, "Catalogue".

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};

use super::TableSchema;
use crate::error::{Error, Result};

/// A column as the catalogue records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnRecord {
    /// None if the column was dropped. Releases that know of no dropped columns require a name, and
    /// so read no table that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// Bytes of a value of a column of byte strings of one width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    width: Option<i32>,
    /// Digits of a decimal, and how many of them are after the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decimal: Option<(u8, i8)>,
    nullable: bool,
}

/// The types without parameters and their names in the catalogue.
const PLAIN_TYPES: [(DataType, &str); 25] = [
    (DataType::Boolean, "bool"),
    (DataType::Int8, "int8"),
    (DataType::Int16, "int16"),
    (DataType::Int32, "int32"),
    (DataType::Int64, "int64"),
    (DataType::UInt8, "uint8"),
    (DataType::UInt16, "uint16"),
    (DataType::UInt32, "uint32"),
    (DataType::UInt64, "uint64"),
    (DataType::Float16, "float16"),
    (DataType::Float32, "float32"),
    (DataType::Float64, "float64"),
    (DataType::Utf8, "utf8"),
    (DataType::Binary, "bytes"),
    (DataType::Date32, "date32"),
    (DataType::Date64, "date64"),
    (DataType::Time32(TimeUnit::Second), "time_s"),
    (DataType::Time32(TimeUnit::Millisecond), "time_ms"),
    (DataType::Time64(TimeUnit::Microsecond), "time_us"),
    (DataType::Time64(TimeUnit::Nanosecond), "time_ns"),
    (DataType::Duration(TimeUnit::Second), "duration_s"),
    (DataType::Duration(TimeUnit::Millisecond), "duration_ms"),
    (DataType::Duration(TimeUnit::Microsecond), "duration_us"),
    (DataType::Duration(TimeUnit::Nanosecond), "duration_ns"),
    (DataType::Interval(IntervalUnit::YearMonth), "months"),
];
/// The names in the catalogue of byte strings of one width, and of decimals by their bits.
const BINARY: &str = "binary";
const DECIMALS: [&str; 4] = ["decimal32", "decimal64", "decimal128", "decimal256"];
const TIMESTAMPS: [(TimeUnit, &str); 4] = [
    (TimeUnit::Second, "timestamp_s"),
    (TimeUnit::Millisecond, "timestamp_ms"),
    (TimeUnit::Microsecond, "timestamp_us"),
    (TimeUnit::Nanosecond, "timestamp_ns"),
];

impl ColumnRecord {
    /// The columns of a schema.
    pub(crate) fn of_schema(schema: &TableSchema) -> Vec<Self> {
        let fields = schema.arrow().fields().iter().enumerate();
        let record = |(position, field): (usize, &Arc<Field>)| {
            let mut record = Self {
                name: (!schema.was_dropped(position)).then(|| field.name().clone()),
                kind: String::new(),
                zone: None,
                width: None,
                decimal: None,
                nullable: field.is_nullable(),
            };
            let mut decimal = |digits: u8, scale: i8| record.decimal = Some((digits, scale));
            let kind = match field.data_type() {
                DataType::Timestamp(unit, zone) => {
                    record.zone = zone.as_deref().map(Into::into);
                    name_of(&TIMESTAMPS, unit)
                }
                DataType::FixedSizeBinary(width) => {
                    record.width = Some(*width);
                    Some(BINARY)
                }
                DataType::Decimal32(digits, scale) => {
                    decimal(*digits, *scale);
                    Some(DECIMALS[0])
                }
                DataType::Decimal64(digits, scale) => {
                    decimal(*digits, *scale);
                    Some(DECIMALS[1])
                }
                DataType::Decimal128(digits, scale) => {
                    decimal(*digits, *scale);
                    Some(DECIMALS[2])
                }
                DataType::Decimal256(digits, scale) => {
                    decimal(*digits, *scale);
                    Some(DECIMALS[3])
                }
                plain => name_of(&PLAIN_TYPES, plain),
            };
            record.kind = kind.expect("a schema has only types that a table stores").into();
            record
        };
        fields.map(record).collect()
    }

    /// The schema of rows that are stored with these columns, given the names of the time and of
    /// the columns of the key.
    ///
    /// # Errors
    ///
    /// A type is unknown, or the columns are none of a table.
    pub(crate) fn to_schema(
        columns: &[Self],
        time_column: &str,
        key: Option<&[String]>,
    ) -> Result<TableSchema> {
        let field = |column: &Self| -> Result<FieldRef> {
            let name = column.name.as_deref().unwrap_or_default();
            let kind = column.data_type().ok_or_else(|| {
                Error::schema(format!("column {name:?} has the unknown type {:?}", column.kind))
            })?;
            Ok(Arc::new(Field::new(name, kind, column.nullable)))
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        let live = (0..columns.len()).filter(|&position| columns[position].name.is_some());
        TableSchema::from_stored(&fields, live.collect(), time_column, key)
    }

    fn data_type(&self) -> Option<DataType> {
        if let Some(plain) = with_name(&PLAIN_TYPES, &self.kind) {
            return Some(plain);
        }
        if let Some(unit) = with_name(&TIMESTAMPS, &self.kind) {
            return Some(DataType::Timestamp(unit, self.zone.as_deref().map(Into::into)));
        }
        if self.kind == BINARY {
            return self.width.map(DataType::FixedSizeBinary);
        }
        let of: fn(u8, i8) -> DataType = match DECIMALS.iter().position(|name| *name == self.kind)? {
            0 => DataType::Decimal32,
            1 => DataType::Decimal64,
            2 => DataType::Decimal128,
            _ => DataType::Decimal256,
        };
        self.decimal.map(|(digits, scale)| of(digits, scale))
    }
}

fn name_of<T: PartialEq>(names: &[(T, &'static str)], of: &T) -> Option<&'static str> {
    names.iter().find(|(known, _)| known == of).map(|&(_, name)| name)
}

fn with_name<T: Clone>(names: &[(T, &'static str)], name: &str) -> Option<T> {
    let found = names.iter().find(|(_, known)| *known == name);
    found.map(|(of, _)| of.clone())
}

#[cfg(test)]
pub(super) mod tests {
    use arrow_schema::Schema;

    use super::*;

    pub(in crate::rows) fn every_type() -> Vec<Field> {
        let plain = PLAIN_TYPES
            .iter()
            .map(|(kind, name)| Field::new(*name, kind.clone(), true));
        let stamps = TIMESTAMPS.iter().map(|&(unit, name)| {
            Field::new(
                name,
                DataType::Timestamp(unit, Some("Europe/Paris".into())),
                false,
            )
        });
        let others = [
            DataType::FixedSizeBinary(32),
            DataType::Decimal32(9, 2),
            DataType::Decimal64(18, -3),
            DataType::Decimal128(38, 38),
            DataType::Decimal256(76, 0),
        ];
        let others = others.map(|kind| Field::new(kind.to_string(), kind, false));
        plain.chain(stamps).chain(others).collect()
    }

    #[test]
    fn every_type_survives_the_catalogue() {
        let schema =
            TableSchema::new(Arc::new(Schema::new(every_type())), "timestamp_us").expect("all storable");
        let records = ColumnRecord::of_schema(&schema);
        let text = serde_json::to_string(&records).expect("plain data");
        let back: Vec<ColumnRecord> = serde_json::from_str(&text).expect("what was just written");
        assert_eq!(
            ColumnRecord::to_schema(&back, "timestamp_us", None).expect("all known"),
            schema
        );
    }

    #[test]
    fn dropped_columns_keep_all_but_their_names() {
        let schema =
            TableSchema::new(Arc::new(Schema::new(every_type())), "timestamp_us").expect("all storable");
        let schema = schema.with_key(&["Decimal32(9, 2)"]).expect("a column");
        let all = schema.arrow().fields().len();
        let dropped = ["bool", "timestamp_s", "bytes"];
        let schema = dropped
            .iter()
            .try_fold(schema, |schema, name| schema.without(name));
        let schema = schema.expect("neither time nor key");
        let records = ColumnRecord::of_schema(&schema);
        let named = records.iter().filter(|record| record.name.is_some());
        assert_eq!((records.len(), named.count()), (all, all - dropped.len()));
        let text = serde_json::to_string(&records[0]).expect("plain data");
        assert_eq!(text, r#"{"type":"bool","nullable":true}"#);
        let key = ["timestamp_us", "Decimal32(9, 2)"].map(String::from);
        let back = ColumnRecord::to_schema(&records, "timestamp_us", Some(&key)).expect("all known");
        assert_eq!(back, schema);
        assert_eq!(back.live(), schema.live());
        assert_eq!(back.stored_positions(), schema.stored_positions());
        let error = ColumnRecord::to_schema(&records, "timestamp_s", None);
        error.expect_err("it was dropped");
    }
}
