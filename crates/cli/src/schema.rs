//! Column types as they are written on a command line.

use std::fmt::Write;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use bedload::TableSchema;
use bedload_times::{Zone, parse_unit, unit_name};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::quoted::quoted;

/// The types that `--schema` accepts, for messages.
const TYPES: &str = "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, \
                     decimal(digits, scale), utf8, binary, date32, timestamp(s|ms|us|ns[, zone])";

/// The columns to which an option such as `--schema` gives types.
pub(crate) fn given(option: &str, text: Option<&str>) -> Result<Vec<Field>, Failure> {
    text.map_or(Ok(Vec::new()), |text| {
        parse_columns(text).map_err(|message| Failure::usage(format!("{option}: {message}")))
    })
}

/// Reads `name:type,name:type,…`.
pub(crate) fn parse_columns(text: &str) -> Result<Vec<Field>, String> {
    let mut fields: Vec<Field> = Vec::new();
    for part in split_at_commas(text)? {
        let (name, data_type) =
            split_name_and_type(part)?.ok_or_else(|| format!("`{part}` is not of the form name:type"))?;
        let data_type = parse_type(data_type)?;
        if fields.iter().any(|field| *field.name() == name) {
            return Err(format!("column {name} is named twice"));
        }
        fields.push(Field::new(name, data_type, true));
    }
    Ok(fields)
}

/// Both parts of `name:type`. The name may hold colons, and commas if it is in quotes.
fn split_name_and_type(part: &str) -> Result<Option<(String, &str)>, String> {
    let (name, data_type) = match quoted(part, "\"")? {
        Some((name, after)) => match after.trim_start().strip_prefix(':') {
            Some(data_type) => (name, data_type),
            None => return Ok(None),
        },
        None => {
            // A zone such as +01:00 has a colon of its own, so look before the parenthesis only.
            let end = part.find('(').unwrap_or(part.len());
            let Some(colon) = part[..end].rfind(':') else {
                return Ok(None);
            };
            (part[..colon].trim().to_owned(), &part[colon + 1..])
        }
    };
    Ok((!name.is_empty()).then_some((name, data_type.trim())))
}

/// The parts of a list between the commas that are neither in a quoted name nor in parentheses.
fn split_at_commas(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let behind_name = quoted(rest, "\"")?.map_or(rest, |(_, after)| after);
        let mut depth = 0_u32;
        let comma = behind_name.find(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        let Some(comma) = comma else {
            parts.push(rest);
            return Ok(parts);
        };
        let (part, after) = rest.split_at(rest.len() - behind_name.len() + comma);
        parts.push(part.trim_end());
        rest = after[1..].trim_start();
    }
}

fn parse_type(text: &str) -> Result<DataType, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "utf8" | "text" | "string" => DataType::Utf8,
        "binary" | "bytes" => DataType::Binary,
        "date32" | "date" => DataType::Date32,
        _ => match parse_timestamp(text) {
            Some(timestamp) => in_known_zone(timestamp)
                .map_err(|error| format!("`{text}`: {error}; zones are such as Europe/Vienna or +02:00"))?,
            None => parse_decimal(text)
                .ok_or_else(|| format!("`{text}` is not a column type; there are {TYPES}"))?,
        },
    })
}

fn parse_timestamp(text: &str) -> Option<DataType> {
    let (head, arguments) = text.strip_suffix(')')?.split_once('(')?;
    if !head.eq_ignore_ascii_case("timestamp") {
        return None;
    }
    let (unit, zone) = match arguments.split_once(',') {
        Some((unit, zone)) => (unit, Some(Arc::from(zone.trim()))),
        None => (arguments, None),
    };
    Some(DataType::Timestamp(parse_unit(unit.trim())?, zone))
}

/// A type under which values can be stored and written again: the zone of a timestamp by a name
/// that Arrow knows.
///
/// # Errors
///
/// There is no such zone.
pub(crate) fn in_known_zone(data_type: DataType) -> Result<DataType, bedload_times::Error> {
    match data_type {
        DataType::Timestamp(unit, Some(zone)) => {
            let zone = Zone::parse(&zone)?;
            Ok(DataType::Timestamp(unit, Some(zone.name().into())))
        }
        other => Ok(other),
    }
}

fn parse_decimal(text: &str) -> Option<DataType> {
    let (head, arguments) = text.strip_suffix(')')?.split_once('(')?;
    let make: fn(u8, i8) -> DataType = match head.to_ascii_lowercase().as_str() {
        "decimal32" => DataType::Decimal32,
        "decimal64" => DataType::Decimal64,
        "decimal" | "decimal128" => DataType::Decimal128,
        "decimal256" => DataType::Decimal256,
        _ => return None,
    };
    let (digits, scale) = arguments.split_once(',').unwrap_or((arguments, "0"));
    TableSchema::stored_type(&make(digits.trim().parse().ok()?, scale.trim().parse().ok()?))
}

/// The name of a type, as [`parse_columns`] reads it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "bool".to_owned(),
        DataType::Date32 => "date32".to_owned(),
        DataType::Timestamp(unit, zone) => {
            let mut name = format!("timestamp({}", unit_name(*unit));
            if let Some(zone) = zone {
                let _ = write!(name, ", {zone}");
            }
            name.push(')');
            name
        }
        other => other.to_string().to_lowercase(),
    }
}

/// The columns of a table as [`parse_columns`] reads them.
pub(crate) fn columns_text(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| {
        let (name, kind) = (field.name(), type_name(field.data_type()));
        match name.contains([',', '(', '"']) || name.trim() != name {
            true => format!("\"{}\":{kind}", name.replace('"', "\"\"")),
            false => format!("{name}:{kind}"),
        }
    });
    columns.collect::<Vec<_>>().join(",")
}

/// The columns of a table for machines.
pub(crate) fn columns_json(schema: &Schema) -> Value {
    let columns = schema.fields().iter().map(|field| {
        json!({ "name": field.name(), "type": type_name(field.data_type()), "nullable": field.is_nullable() })
    });
    columns.collect()
}

/// Whether two types are one, by whatever name their zone of UTC goes.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    let is_utc = |zone: &str| matches!(zone, "UTC" | "Etc/UTC" | "Z" | "+00:00" | "+00" | "-00:00");
    match (a, b) {
        (DataType::Timestamp(a_unit, Some(a)), DataType::Timestamp(b_unit, Some(b))) => {
            a_unit == b_unit && (a == b || (is_utc(a) && is_utc(b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_back_from_their_names() {
        let text = "a:bool,b:int8,c:uint64,d:float32,e:utf8,f:date32,g:timestamp(ns),\
                    h:timestamp(us, America/New_York),i:timestamp(s, +01:00),weird:name:int64,\
                    j:decimal128(18, 2),k:decimal32(9, 0),l:binary";
        let fields = parse_columns(text).unwrap();
        assert_eq!(columns_text(&Schema::new(fields.clone())), text);
        assert_eq!(fields[9].name(), "weird:name");
        let fields = parse_columns(r#""a,b":int8, "say ""no"", no" : utf8,5":int8," c(d)":int8"#).unwrap();
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a,b", "say \"no\", no", "5\"", " c(d)"]);
        let again = parse_columns(&columns_text(&Schema::new(fields.clone())));
        assert_eq!(again, Ok(fields));
        let fields = parse_columns("t:timestamp(ms, Z)").unwrap();
        assert_eq!(type_name(fields[0].data_type()), "timestamp(ms, UTC)");
    }

    #[test]
    fn what_is_no_list_of_columns() {
        for text in [
            "",
            "a",
            "a:",
            ":int8",
            "a:int7",
            "a:int8,,b:int8",
            "a:int8,a:int8",
            "a:timestamp(h)",
        ] {
            assert!(parse_columns(text).is_err(), "{text}");
        }
        let unknown = parse_columns("a:timestamp(s, Mars/Olympus)").unwrap_err();
        assert_eq!(
            unknown,
            "`timestamp(s, Mars/Olympus)`: there is no time zone \"Mars/Olympus\"; zones are such as \
             Europe/Vienna or +02:00"
        );
    }
}
