//! Encoded columns decode to the same values: in full, by range, and one by one.

use arrow_array::{Array, ArrayRef};
use bedload_columns::{EncodeOptions, LeafReader, Value, encode};
use proptest::prelude::*;

use crate::generate::{SHAPES, any_column, column, keyed, types};

fn open(columns: &[ArrayRef]) -> LeafReader<Vec<u8>> {
    let leaf = encode(columns, &EncodeOptions::default()).unwrap();
    let reader = LeafReader::open(leaf.bytes).unwrap();
    assert_eq!(*reader.directory(), leaf.directory);
    reader
}

/// The bits of a value, as NaN is not equal to itself.
fn bits(value: &Value) -> String {
    match value {
        Value::Float16(float) => format!("{:x}", float.to_bits()),
        Value::Float32(float) => format!("{:x}", float.to_bits()),
        Value::Float64(float) => format!("{:x}", float.to_bits()),
        other => format!("{other:?}"),
    }
}

/// Returns the expected result of `value_at`: the bound of a leaf of that row alone.
fn expected_value(array: &dyn Array, row: usize) -> Value {
    let mut options = EncodeOptions::default();
    options.bound_bytes = usize::MAX;
    let leaf = encode(&[array.slice(row, 1)], &options).unwrap();
    leaf.directory.columns()[0]
        .bounds()
        .unwrap()
        .map_or(Value::Null, |(value, _)| value)
}

#[test]
fn each_type_and_shape_comes_back() {
    for data_type in types() {
        for shape in SHAPES {
            for nulls in [0, 3] {
                let array = column(&data_type, shape, 2500, nulls, 7);
                let reader = open(std::slice::from_ref(&array));
                assert_eq!(
                    &reader.decode(0, 0..2500).unwrap(),
                    &array,
                    "{data_type} {shape:?}"
                );
                assert_eq!(reader.directory().columns()[0].null_count(), array.null_count());
                for row in [0, 1, 1023, 1024, 2400, 2499] {
                    let value = reader.value_at(0, row).unwrap();
                    assert_eq!(
                        bits(&value),
                        bits(&expected_value(&array, row)),
                        "{data_type} {shape:?} {row}"
                    );
                }
            }
        }
    }
}

#[test]
fn dictionary_keys_are_unpacked() {
    let values = column(&arrow_schema::DataType::Utf8, SHAPES[4], 300, 5, 1);
    let reader = open(&[keyed(&values)]);
    let decoded = reader.decode(0, 0..300).unwrap();
    for row in 0..300 {
        assert_eq!(
            decoded.slice(row, 1).as_ref(),
            values.slice(299 - row, 1).as_ref()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ranges_are_slices(array in any_column(), cuts in prop::collection::vec(any::<(u32, u32)>(), 6)) {
        let rows = array.len();
        let reader = open(&[array.clone(), array.clone()]);
        prop_assert_eq!(reader.rows(), rows);
        prop_assert_eq!(&reader.decode(1, 0..rows).unwrap(), &array);
        for (a, b) in cuts {
            let (a, b) = (a as usize % (rows + 1), b as usize % (rows + 1));
            let (start, end) = (a.min(b), a.max(b));
            prop_assert_eq!(&reader.decode(0, start..end).unwrap(), &array.slice(start, end - start));
            if a < rows {
                prop_assert_eq!(bits(&reader.value_at(1, a).unwrap()), bits(&expected_value(&array, a)));
            }
        }
    }
}
