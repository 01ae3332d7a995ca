//! A stored leaf that must stay readable: `tests/data/leaf.bcl`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array,
    StringArray, TimestampMicrosecondArray, UInt64Array,
};
use bedload_columns::{EncodeOptions, LeafReader, encode};

const ROWS: i64 = 1100;

fn index(row: i64) -> usize {
    usize::try_from(row).unwrap()
}

/// Returns one column for each packing.
fn columns() -> Vec<ArrayRef> {
    let rows = || 0..ROWS;
    let some = |row: i64| row % 10 != 3;
    vec![
        // A stride.
        Arc::new(UInt64Array::from_iter_values((0..1100).map(|row| 1 << 40 | row))),
        // Values, two of which are exceptions, with a common divisor.
        Arc::new(Int64Array::from_iter_values(rows().map(|row| match row {
            500 => 1 << 50,
            1090 => 0,
            _ => row * 7919 % 1000 * 60 + 1_000_000,
        }))),
        // Differences.
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(rows().map(|row| row * 1000 + row * 7919 % 100))
                .with_timezone("UTC"),
        ),
        // Differences of differences.
        Arc::new(Int64Array::from_iter_values(
            rows().map(|row| row * row * 12_345 + row % 2),
        )),
        // A dictionary of integers.
        Arc::new(Int64Array::from_iter_values(
            rows().map(|row| [1 << 40, 7, -5_000_000_003][index(row * row % 3)]),
        )),
        // Decimals, with exceptions.
        Arc::new(Float64Array::from_iter_values(rows().map(|row| match row {
            77 => f64::from_bits(0x7ff8_0000_0000_1234),
            1070 => -0.0,
            _ => (row * 7919 % 5000) as f64 / 100.0,
        }))),
        // Bits.
        Arc::new(Float64Array::from_iter_values(
            rows().map(|row| (row as f64).sqrt()),
        )),
        // A plain bitmap, and nulls.
        Arc::new(
            rows()
                .map(|row| some(row).then_some(row * row % 7 > 2))
                .collect::<BooleanArray>(),
        ),
        // Runs of bits.
        Arc::new(rows().map(|row| Some(row / 300 == 1)).collect::<BooleanArray>()),
        // A dictionary of strings.
        Arc::new(
            rows()
                .map(|row| some(row).then(|| ["EWR", "JFK", "LGA"][index(row * row % 3)]))
                .collect::<StringArray>(),
        ),
        // Symbols.
        Arc::new(StringArray::from_iter_values(
            rows().map(|row| format!("https://example.org/item/{}", row * 7919)),
        )),
        // Plain strings.
        Arc::new(BinaryArray::from_iter_values(rows().map(|row| {
            let bytes = (row * 0x9e37_79b9)
                .wrapping_mul(0x1656_67b1_9e37_79f9)
                .to_le_bytes();
            bytes[..index(row % 5)].to_vec()
        }))),
        // Strings of one length.
        Arc::new(FixedSizeBinaryArray::try_from_iter(rows().map(|row| (row * row).to_be_bytes())).unwrap()),
        // Decimals of 128 bits that fit 64, and some that do not.
        Arc::new(
            Decimal128Array::from_iter_values(rows().map(i128::from))
                .with_precision_and_scale(20, 2)
                .unwrap(),
        ),
        Arc::new(
            Decimal128Array::from_iter_values(rows().map(|row| i128::from(row) << 70))
                .with_precision_and_scale(38, 0)
                .unwrap(),
        ),
        // Only nulls.
        Arc::new(Int64Array::from(vec![None; 1100])),
    ]
}

#[test]
fn the_fixture_is_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/leaf.bcl");
    if std::env::var_os("BEDLOAD_WRITE_FIXTURE").is_some() {
        std::fs::write(
            &path,
            encode(&columns(), &EncodeOptions::default()).unwrap().bytes,
        )
        .unwrap();
    }
    let reader = LeafReader::open(std::fs::read(&path).unwrap()).unwrap();
    let expected = columns();
    assert_eq!(reader.directory().columns().len(), expected.len());
    for (number, column) in expected.iter().enumerate() {
        assert_eq!(
            &reader.decode(number, 0..1100).unwrap(),
            column,
            "column {number}"
        );
        assert_eq!(
            &reader.decode(number, 1000..1050).unwrap(),
            &column.slice(1000, 50),
            "column {number}"
        );
    }
}
