//! The supported types and their codes in a directory.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::{Error, Result, damaged};
use crate::wire::{Bytes, put_counted, put_length};

/// Types without parameters, by their codes, which count from one.
const SIMPLE: [(u8, DataType); 29] = [
    (1, DataType::Boolean),
    (2, DataType::Int8),
    (3, DataType::Int16),
    (4, DataType::Int32),
    (5, DataType::Int64),
    (6, DataType::UInt8),
    (7, DataType::UInt16),
    (8, DataType::UInt32),
    (9, DataType::UInt64),
    (10, DataType::Float16),
    (11, DataType::Float32),
    (12, DataType::Float64),
    (13, DataType::Date32),
    (14, DataType::Date64),
    (15, DataType::Time32(TimeUnit::Second)),
    (16, DataType::Time32(TimeUnit::Millisecond)),
    (17, DataType::Time64(TimeUnit::Microsecond)),
    (18, DataType::Time64(TimeUnit::Nanosecond)),
    (19, DataType::Duration(TimeUnit::Second)),
    (20, DataType::Duration(TimeUnit::Millisecond)),
    (21, DataType::Duration(TimeUnit::Microsecond)),
    (22, DataType::Duration(TimeUnit::Nanosecond)),
    (23, DataType::Utf8),
    (24, DataType::LargeUtf8),
    (25, DataType::Binary),
    (26, DataType::LargeBinary),
    (27, DataType::Interval(IntervalUnit::YearMonth)),
    (28, DataType::Utf8View),
    (29, DataType::BinaryView),
];

const _: () = {
    let mut index = 0;
    while index < SIMPLE.len() {
        assert!(
            SIMPLE[index].0 as usize == index + 1,
            "a code is its type's index plus one"
        );
        index += 1;
    }
};

const TIMESTAMP: [(u8, TimeUnit); 4] = [
    (32, TimeUnit::Second),
    (33, TimeUnit::Millisecond),
    (34, TimeUnit::Microsecond),
    (35, TimeUnit::Nanosecond),
];

const FIXED_SIZE_BINARY: u8 = 40;
const DECIMAL_32: u8 = 41;
const DECIMAL_64: u8 = 42;
const DECIMAL_128: u8 = 43;
const DECIMAL_256: u8 = 44;

/// Returns the type that a leaf decodes to for a column of `data_type`: dictionaries are unpacked.
pub(crate) fn kept(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => kept(values),
        other => other,
    }
}

/// Appends a type; returns false if it is unsupported.
pub(crate) fn put(data_type: &DataType, out: &mut Vec<u8>) -> bool {
    if let Some((code, _)) = SIMPLE.iter().find(|(_, simple)| simple == data_type) {
        out.push(*code);
        return true;
    }
    let mut decimal =
        |code: u8, precision: u8, scale: i8| out.extend_from_slice(&[code, precision, scale.cast_unsigned()]);
    match data_type {
        DataType::Decimal32(precision, scale) => decimal(DECIMAL_32, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(DECIMAL_64, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(DECIMAL_128, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(DECIMAL_256, *precision, *scale),
        DataType::Timestamp(unit, zone) => {
            out.extend(
                TIMESTAMP
                    .iter()
                    .filter(|(_, of)| of == unit)
                    .map(|(code, _)| *code),
            );
            put_counted(out, zone.as_deref().unwrap_or_default().as_bytes());
        }
        DataType::FixedSizeBinary(bytes) if *bytes > 0 => {
            out.push(FIXED_SIZE_BINARY);
            put_length(out, usize::try_from(*bytes).expect("more than 0"));
        }
        _ => return false,
    }
    true
}

/// Reads a type.
pub(crate) fn parse(bytes: &mut Bytes<'_>) -> Result<DataType> {
    let code = bytes.u8()?;
    let simple = usize::from(code)
        .checked_sub(1)
        .and_then(|index| SIMPLE.get(index));
    if let Some((_, simple)) = simple {
        return Ok(simple.clone());
    }
    if let Some((_, unit)) = TIMESTAMP.iter().find(|(of, _)| *of == code) {
        let zone = str::from_utf8(bytes.counted()?);
        let zone = zone.or(damaged("the name of a time zone is not UTF-8"))?;
        return Ok(DataType::Timestamp(
            *unit,
            (!zone.is_empty()).then(|| zone.into()),
        ));
    }
    if code == FIXED_SIZE_BINARY {
        let width = i32::try_from(bytes.varint()?).ok().filter(|width| *width > 0);
        return width.map(DataType::FixedSizeBinary).ok_or(Error::Damaged {
            what: "a width is out of range",
        });
    }
    let (precision, scale) = (bytes.u8()?, bytes.u8()?.cast_signed());
    let (decimal, precision_max) = match code {
        DECIMAL_32 => (DataType::Decimal32(precision, scale), 9),
        DECIMAL_64 => (DataType::Decimal64(precision, scale), 18),
        DECIMAL_128 => (DataType::Decimal128(precision, scale), 38),
        DECIMAL_256 => (DataType::Decimal256(precision, scale), 76),
        _ => return damaged("a column is of an unknown type"),
    };
    if precision == 0 || precision > precision_max || scale.cast_unsigned() > precision && scale > 0 {
        return damaged("the precision or scale of a decimal is out of range");
    }
    Ok(decimal)
}
