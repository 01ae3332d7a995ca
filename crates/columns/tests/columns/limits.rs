//! Limits and sizes of leaves.

use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, NullArray, StringArray, UInt32Array, UInt64Array};
use bedload_columns::{EncodeOptions, Error, LeafReader, MAX_COLUMNS, MAX_ROWS, encode};

use crate::generate::Random;

fn bytes(columns: &[ArrayRef]) -> usize {
    encode(columns, &EncodeOptions::default()).unwrap().bytes.len()
}

#[test]
fn what_does_not_fit_is_refused() {
    let options = EncodeOptions::default();
    let numbers = |rows: usize| Arc::new(Int64Array::from(vec![1; rows])) as ArrayRef;
    assert!(encode(&[numbers(MAX_ROWS)], &options).is_ok());
    let error = encode(&[numbers(MAX_ROWS + 1)], &options).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: "rows", .. }), "{error}");
    let error = encode(&vec![numbers(1); MAX_COLUMNS + 1], &options).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { what: "columns", .. }),
        "{error}"
    );
    // The one of 300 MB, the other of 2.7 GB, which no array of its type holds.
    let long = |bytes, rows| -> ArrayRef {
        let values = StringArray::from(vec!["x".repeat(bytes)]);
        let keys = UInt32Array::from(vec![0; rows]);
        Arc::new(DictionaryArray::new(keys, Arc::new(values)))
    };
    for column in [long(300_000_000, 1), long(900_000, 3000)] {
        let error = encode(&[column], &options).unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    what: "bytes of a column",
                    ..
                }
            ),
            "{error}"
        );
    }
    let error = encode(&[numbers(3), numbers(4)], &options).unwrap_err();
    assert_eq!(error.to_string(), "column 1 has 4 rows, and column 0 has 3");
    let error = encode(&[numbers(3), Arc::new(NullArray::new(3))], &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 1 is of type Null, which leaves do not keep"
    );
    let reader = LeafReader::open(encode(&[numbers(3)], &options).unwrap().bytes).unwrap();
    assert!(matches!(
        reader.decode(1, 0..1),
        Err(Error::OutOfRange { what: "column", .. })
    ));
    assert!(matches!(
        reader.decode(0, 2..4),
        Err(Error::OutOfRange { what: "row", .. })
    ));
    assert!(matches!(
        reader.value_at(0, 3),
        Err(Error::OutOfRange { what: "row", .. })
    ));
}

#[test]
fn sequence_numbers_and_constants_cost_next_to_nothing() {
    let sequence: ArrayRef = Arc::new(UInt64Array::from_iter_values(1 << 60..(1 << 60) + 65_536));
    let constant: ArrayRef = Arc::new(StringArray::from(vec!["ok"; 65_536]));
    assert!(bytes(&[sequence, constant]) < 140);
}

#[test]
fn a_few_outliers_cost_only_themselves() {
    let mut random = Random(1);
    let mut numbers: Vec<i64> = (0..16_384).map(|_| (random.next() % 256).cast_signed()).collect();
    let even = bytes(&[Arc::new(Int64Array::from(numbers.clone()))]);
    numbers[5000] = i64::MIN;
    numbers[6000] = i64::MAX;
    assert!(bytes(&[Arc::new(Int64Array::from(numbers))]) < even + 100);
}

#[test]
fn texts_that_repeat_or_have_parts_in_common_shrink() {
    let few: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..8192).map(|n| format!("sensor {}", n * 31 % 7)),
    ));
    assert!(bytes(&[few]) < 8192 * 3 / 8 + 200);
    let urls = (0..8192).map(|n: u64| format!("https://example.org/item/{:x}", n.wrapping_mul(0x9e37_79b9)));
    let urls: ArrayRef = Arc::new(StringArray::from_iter_values(urls));
    assert!(bytes(&[urls]) < 8192 * 12);
}
