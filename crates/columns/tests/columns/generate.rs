//! Columns of every type and of every shape that a codec targets.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Int64Array, PrimitiveArray,
    StringArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use proptest::prelude::*;

/// A seeded random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }
}

/// Returns all supported types.
pub(crate) fn types() -> Vec<DataType> {
    use DataType::*;
    use TimeUnit::*;
    let mut types = vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        Time32(Second),
        Time32(Millisecond),
        Time64(Microsecond),
        Time64(Nanosecond),
        Interval(IntervalUnit::YearMonth),
        FixedSizeBinary(5),
        FixedSizeBinary(20),
        Decimal32(9, 2),
        Decimal64(18, -2),
        Decimal128(38, 10),
        Decimal256(76, 20),
    ];
    for unit in [Second, Millisecond, Microsecond, Nanosecond] {
        types.extend([
            Duration(unit),
            Timestamp(unit, None),
            Timestamp(unit, Some("Europe/Vienna".into())),
        ]);
    }
    types
}

/// The distribution of a column's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Constant,
    Stride,
    Jitter,
    Accelerating,
    Few,
    Outliers,
    Multiples,
    Decimals,
    Any,
    Extremes,
    Runs,
}

pub(crate) const SHAPES: [Shape; 11] = [
    Shape::Constant,
    Shape::Stride,
    Shape::Jitter,
    Shape::Accelerating,
    Shape::Few,
    Shape::Outliers,
    Shape::Multiples,
    Shape::Decimals,
    Shape::Any,
    Shape::Extremes,
    Shape::Runs,
];

fn integers(shape: Shape, rows: usize, random: &mut Random) -> Vec<i64> {
    let base = random.next().cast_signed() >> random.below(64);
    let few = 1 + random.below(40);
    (0..i64::try_from(rows).unwrap())
        .map(|row| match shape {
            Shape::Constant => base,
            Shape::Stride => base.wrapping_add(row.wrapping_mul(7)),
            Shape::Jitter => base.wrapping_add(row * 100 + (random.next() % 30).cast_signed()),
            Shape::Accelerating => {
                base.wrapping_add(row * row / 2 * 1000 + (random.next() % 2).cast_signed())
            }
            Shape::Few => base.wrapping_mul(i64::try_from(random.below(few)).unwrap()),
            Shape::Outliers if random.below(100) < 2 => random.next().cast_signed(),
            Shape::Outliers | Shape::Decimals => 1000 + (random.next() % 9000).cast_signed(),
            Shape::Multiples => (random.next() % 1000).cast_signed() * 60_000 + 17,
            Shape::Any => random.next().cast_signed() >> random.below(64),
            Shape::Extremes => [i64::MIN, i64::MAX, 0, -1, 1][random.below(5)],
            Shape::Runs => row / 200 % 3,
        })
        .collect()
}

/// Returns a column of `rows` rows, about one in `null_every` of them null; 0 for none.
pub(crate) fn column(
    data_type: &DataType,
    shape: Shape,
    rows: usize,
    null_every: usize,
    seed: u64,
) -> ArrayRef {
    let mut random = Random(seed);
    let nulls = (null_every > 0).then(|| {
        NullBuffer::new(BooleanBuffer::collect_bool(rows, |_| {
            random.below(null_every) > 0
        }))
    });
    let integers = integers(shape, rows, &mut random);
    match data_type {
        DataType::Boolean => {
            let bits = integers
                .iter()
                .map(|integer| integer & 1 == 1)
                .collect::<BooleanBuffer>();
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Float64 => {
            let value = |integer: i64| match shape {
                Shape::Any | Shape::Extremes => f64::from_bits(integer.cast_unsigned()),
                Shape::Outliers if integer < 1200 => -0.0,
                _ => integer as f64 / 100.0,
            };
            let values = integers.into_iter().map(value).collect::<Vec<_>>();
            Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls))
        }
        DataType::Float32 => {
            let value = |integer: i64| match shape {
                Shape::Any | Shape::Extremes => f32::from_bits(u32::try_from(integer & 0xffff_ffff).unwrap()),
                Shape::Outliers if integer < 1200 => f32::NAN,
                _ => format!("{integer}e-2").parse().unwrap(),
            };
            let values = integers.into_iter().map(value).collect::<Vec<_>>();
            Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls))
        }
        DataType::FixedSizeBinary(width) => {
            let width = usize::try_from(*width).unwrap();
            let bytes = integers
                .iter()
                .flat_map(|integer| integer.to_be_bytes().repeat(4)[..width].to_vec());
            let bytes = bytes.collect::<Vec<_>>();
            Arc::new(FixedSizeBinaryArray::new(
                width.try_into().unwrap(),
                bytes.into(),
                nulls,
            ))
        }
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => {
            let words = [
                "",
                "a",
                "Grüße ",
                "http://example.org/",
                "sensor-",
                "2013-01-01T",
                "\u{10ffff}",
            ];
            let text = |integer: i64| match shape {
                Shape::Few | Shape::Constant | Shape::Runs => format!("{integer}"),
                _ => format!("{}{integer}{}", words[random.below(7)], words[random.below(7)]),
            };
            let text = StringArray::from_iter_values(integers.into_iter().map(text));
            let text = StringArray::new(text.offsets().clone(), text.values().clone(), nulls);
            arrow_cast::cast(&text, data_type).unwrap()
        }
        other => {
            // Values out of range become null.
            let integers = Int64Array::new(integers.into(), nulls);
            let narrow = |through: &DataType| arrow_cast::cast(&arrow_cast::cast(&integers, through)?, other);
            arrow_cast::cast(&integers, other)
                .or_else(|_| narrow(&DataType::Int32))
                .unwrap()
        }
    }
}

/// Returns the same values as a dictionary array.
pub(crate) fn keyed(values: &dyn Array) -> ArrayRef {
    let keys = PrimitiveArray::<Int32Type>::from_iter_values((0..i32::try_from(values.len()).unwrap()).rev());
    Arc::new(DictionaryArray::new(keys, values.slice(0, values.len())))
}

/// Generates any column: a few rows or some blocks, sliced from a longer one.
pub(crate) fn any_column() -> impl Strategy<Value = ArrayRef> {
    let rows = prop_oneof![Just(0), Just(1), 2..40usize, 1000..1050usize, 40..4000usize];
    let nulls = prop_oneof![Just(0), Just(1), Just(2), Just(50)];
    (
        0..types().len(),
        0..SHAPES.len(),
        rows,
        nulls,
        any::<u64>(),
        0..20usize,
    )
        .prop_map(|(data_type, shape, rows, nulls, seed, offset)| {
            column(&types()[data_type], SHAPES[shape], rows + offset, nulls, seed).slice(offset, rows)
        })
}
