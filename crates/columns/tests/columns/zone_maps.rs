//! Compares zone maps and filters with Arrow's kernels: a leaf with a matching row is never
//! excluded. Before the kernels see floats, those that filters take for equal are made the same.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, DictionaryArray, Float16Array, Float32Array, Float64Array, Scalar,
    StringArray,
};
use arrow_cast::cast;
use arrow_ord::cmp;
use arrow_schema::DataType;
use bedload_columns::{EncodeOptions, Operator, Predicate, Value, encode};
use half::f16;
use proptest::prelude::*;

use crate::generate::{SHAPES, any_column, column};

const OPERATORS: [Operator; 6] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
];

/// The column as filters see it: one NaN and one zero of a type.
fn seen(array: &ArrayRef) -> ArrayRef {
    fn of<F: ArrowPrimitiveType>(array: &ArrayRef, seen: impl Fn(F::Native) -> F::Native) -> ArrayRef {
        Arc::new(array.as_primitive::<F>().unary::<_, F>(seen))
    }
    match array.data_type() {
        DataType::Float16 => of::<Float16Type>(array, |value| {
            let seen = value.to_f32();
            f16::from_f32(if seen.is_nan() { f32::NAN } else { seen + 0.0 })
        }),
        DataType::Float32 => {
            of::<Float32Type>(array, |value| if value.is_nan() { f32::NAN } else { value + 0.0 })
        }
        DataType::Float64 => {
            of::<Float64Type>(array, |value| if value.is_nan() { f64::NAN } else { value + 0.0 })
        }
        _ => Arc::clone(array),
    }
}

fn rows_that_match(array: &ArrayRef, operator: Operator, literal: &ArrayRef) -> Vec<bool> {
    let (array, literal) = (&seen(array) as &dyn Datum, Scalar::new(seen(literal)));
    let compared = match operator {
        Operator::Eq => cmp::eq(array, &literal),
        Operator::NotEq => cmp::neq(array, &literal),
        Operator::Lt => cmp::lt(array, &literal),
        Operator::LtEq => cmp::lt_eq(array, &literal),
        Operator::Gt => cmp::gt(array, &literal),
        Operator::GtEq => cmp::gt_eq(array, &literal),
    };
    let matched = compared.unwrap();
    matched.iter().map(|matched| matched == Some(true)).collect()
}

/// Whether a least value is a NaN that hides it.
fn is_nan(value: &Value) -> bool {
    match value {
        Value::Float16(value) => value.is_nan(),
        Value::Float32(value) => value.is_nan(),
        Value::Float64(value) => value.is_nan(),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_matching_row_is_ruled_out(
        array in any_column(), shape in 0..SHAPES.len(), seed in any::<u64>(), bound_bytes in 0..12usize,
    ) {
        let mut options = EncodeOptions::default();
        options.bound_bytes = bound_bytes;
        let directory = encode(std::slice::from_ref(&array), &options).unwrap().directory;
        let exact = directory.columns()[0].bounds().unwrap().is_some_and(|(min, _)| !is_nan(&min));
        let others = column(array.data_type(), SHAPES[shape], 8, 4, seed);
        let own = (0..array.len()).step_by(array.len().div_ceil(4).max(1)).map(|row| array.slice(row, 1));
        for literal in own.chain((0..8).map(|row| others.slice(row, 1))) {
            for operator in OPERATORS {
                let predicate = Predicate::compare(operator, &literal).unwrap();
                let may = directory.may_match(0, &predicate).unwrap();
                let matching = rows_that_match(&array, operator, &literal);
                let does = matching.contains(&true);
                let selected = predicate.select(&array).unwrap();
                prop_assert_eq!(selected.iter().collect::<Vec<_>>(), matching, "{:?} {:?}", operator, literal);
                prop_assert!(may || !does, "{operator:?} {literal:?}");
                if exact && !matches!(operator, Operator::Eq | Operator::NotEq) {
                    prop_assert_eq!(may, does, "{:?} {:?}", operator, literal);
                }
            }
        }
        let any_of = directory.may_match(0, &Predicate::is_in(&others).unwrap()).unwrap();
        let equals = |row| rows_that_match(&array, Operator::Eq, &others.slice(row, 1)).contains(&true);
        let found = (0..8).any(equals);
        prop_assert!(any_of || !found);
        prop_assert_eq!(directory.may_match(0, &Predicate::is_null()).unwrap(), array.null_count() > 0);
        prop_assert_eq!(directory.may_match(0, &Predicate::is_not_null()).unwrap(), array.null_count() < array.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Short lists are compared literal by literal, and longer ones are searched.
    #[test]
    fn a_list_selects_what_its_literals_select(
        array in any_column(), shape in 0..SHAPES.len(), seed in any::<u64>(), literals in 0..60usize,
    ) {
        let others = column(array.data_type(), SHAPES[shape], literals, 4, seed);
        let own = array.slice(0, array.len().min(literals));
        for literals in [others, own] {
            let selected = Predicate::is_in(&literals).unwrap().select(&array).unwrap();
            let mut expected = vec![false; array.len()];
            for literal in 0..literals.len() {
                let equal = rows_that_match(&array, Operator::Eq, &literals.slice(literal, 1));
                expected.iter_mut().zip(equal).for_each(|(expected, equal)| *expected |= equal);
            }
            prop_assert_eq!(selected.iter().collect::<Vec<_>>(), expected);
        }
    }
}

/// Floats at which orders differ, as bits of 64.
fn special_floats() -> Vec<f64> {
    let ascending = [f64::INFINITY, f64::MAX, 1.0, f64::from(f32::MIN_POSITIVE), 0.0];
    let numbers = ascending.iter().flat_map(|number| [*number, -*number]);
    // NaNs of either sign, with and without a payload.
    let nans = [0x7ff8_0000_0000_0000, 0x7fff_0000_0000_0000_u64];
    let nans = nans.iter().flat_map(|bits| [*bits, *bits | 1 << 63]);
    numbers.chain(nans.map(f64::from_bits)).collect()
}

/// The order of filters by itself: NaN above all numbers.
fn order(a: f64, b: f64) -> Ordering {
    let number = a.partial_cmp(&b);
    number.unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn relates(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Eq => order.is_eq(),
        Operator::NotEq => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::LtEq => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::GtEq => order.is_ge(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to the type is intended")]
fn float_column(data_type: &DataType, values: &[Option<f64>]) -> ArrayRef {
    let values = values.iter().copied();
    match data_type {
        DataType::Float16 => Arc::new(Float16Array::from_iter(
            values.map(|value| value.map(f16::from_f64)),
        )),
        DataType::Float32 => Arc::new(Float32Array::from_iter(
            values.map(|value| value.map(|value| value as f32)),
        )),
        _ => Arc::new(Float64Array::from_iter(values)),
    }
}

#[test]
fn floats_compare_as_numbers_and_nan_is_one_value_above_all() {
    let special = special_floats();
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        // Values out of the type's range are other numbers in it.
        let rounded: Vec<f64> = special
            .iter()
            .map(|value| {
                let value = float_column(&data_type, &[Some(*value)]);
                cast(&value, &DataType::Float64)
                    .unwrap()
                    .as_primitive::<Float64Type>()
                    .value(0)
            })
            .collect();
        for (&literal, operator) in rounded
            .iter()
            .flat_map(|literal| OPERATORS.map(|operator| (literal, operator)))
        {
            let predicate =
                Predicate::compare(operator, &float_column(&data_type, &[Some(literal)])).unwrap();
            let matches = |value: f64| relates(operator, order(value, literal));
            for (&a, &b) in rounded.iter().flat_map(|a| rounded.iter().map(move |b| (a, b))) {
                let case = format!("{data_type}: {operator:?} {literal:?} of {a:?}, {b:?}");
                let column = float_column(&data_type, &[Some(a), None, Some(b)]);
                let selected = predicate.select(&column).unwrap();
                let expected = [matches(a), false, matches(b)];
                assert_eq!(selected.iter().collect::<Vec<_>>(), expected, "{case}");
                let directory = encode(&[column], &EncodeOptions::default()).unwrap().directory;
                let may = directory.may_match(0, &predicate).unwrap();
                assert!(may || !(matches(a) || matches(b)), "{case}");
                if !a.is_nan() && !b.is_nan() && operator != Operator::NotEq {
                    let between = order(a, literal).is_le() && order(literal, b).is_le()
                        || order(b, literal).is_le() && order(literal, a).is_le();
                    let expected = matches(a) || matches(b) || operator == Operator::Eq && between;
                    assert_eq!(may, expected, "{case}");
                }
            }
        }
    }
}

/// A list of more literals than are compared one by one.
#[test]
fn a_long_list_of_floats_has_one_nan_and_one_zero() {
    let column: ArrayRef = Arc::new(Float64Array::from_iter_values(special_floats()));
    for (special, expected) in [(-0.0, 2), (f64::NAN, 4), (-f64::NAN, 4), (1.0, 1)] {
        let literals = (0..40).map(|n| 1000.0 + f64::from(n)).chain([special]);
        let literals = Float64Array::from_iter_values(literals);
        let list = Predicate::is_in(&literals).unwrap();
        assert_eq!(
            list.select(&column).unwrap().count_set_bits(),
            expected,
            "{special}"
        );
        let leaf = encode(std::slice::from_ref(&column), &EncodeOptions::default()).unwrap();
        assert!(leaf.directory.may_match(0, &list).unwrap(), "{special}");
    }
}

/// A column that is a dictionary is compared with a long list of its values.
#[test]
fn a_long_list_selects_from_a_dictionary() {
    let words: Vec<String> = (0..100).map(|word| word.to_string()).collect();
    let rows: DictionaryArray<Int32Type> = words.iter().map(|word| Some(word.as_str())).collect();
    let literals = StringArray::from_iter_values(words.iter().skip(40).step_by(2));
    let selected = Predicate::is_in(&literals).unwrap().select(&rows).unwrap();
    let expected: Vec<usize> = (40..100).step_by(2).collect();
    assert_eq!(selected.set_indices().collect::<Vec<_>>(), expected);
    // Literals may be a dictionary too.
    let all = Predicate::is_in(&rows).unwrap();
    let plain: ArrayRef = Arc::new(StringArray::from(words));
    assert_eq!(all.select(&plain).unwrap().count_set_bits(), 100);
}

/// The bits of nulls are no values of the column.
#[test]
fn bounds_of_booleans_leave_out_nulls() {
    let array = BooleanArray::from(vec![None, Some(true), None]);
    let directory = encode(&[Arc::new(array) as ArrayRef], &EncodeOptions::default())
        .unwrap()
        .directory;
    let no = Predicate::compare(Operator::LtEq, &BooleanArray::from(vec![false])).unwrap();
    assert!(!directory.may_match(0, &no).unwrap());
}

#[test]
fn literals_outside_of_the_bounds_rule_out() {
    let array = column(&DataType::Utf8, SHAPES[4], 100, 0, 1);
    let directory = encode(&[array], &EncodeOptions::default()).unwrap().directory;
    let text = |text: &str| StringArray::from(vec![text]);
    let may = |predicate: Predicate| directory.may_match(0, &predicate).unwrap();
    assert!(!may(Predicate::compare(Operator::Eq, &text("zebra")).unwrap()));
    assert!(!may(Predicate::compare(Operator::Gt, &text("zebra")).unwrap()));
    assert!(!may(Predicate::is_in(&text("zebra")).unwrap()));
    assert!(!may(Predicate::is_null()));
    let number = arrow_array::Int64Array::from(vec![1]);
    let error = directory
        .may_match(0, &Predicate::compare(Operator::Eq, &number).unwrap())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the literal is of type Int64, and the column of type Utf8"
    );
}

/// Strings that begin alike, or end where others have zeros, compare byte by byte.
#[test]
fn bounds_of_short_strings_are_exact() {
    let strings = [
        "a", "a\0", "a\0\0\0", "a\0\0\0b", "", "\0", "abcd", "abcde", "abcc", "b",
    ];
    for first in 0..strings.len() {
        for end in first + 1..=strings.len() {
            let some = &strings[first..end];
            let array = StringArray::from(some.to_vec());
            let leaf = encode(&[Arc::new(array) as ArrayRef], &EncodeOptions::default());
            let directory = leaf.unwrap().directory;
            let (min, max) = (some.iter().min().unwrap(), some.iter().max().unwrap());
            for literal in strings {
                let value = StringArray::from(vec![literal]);
                let may = |operator| {
                    let predicate = Predicate::compare(operator, &value).unwrap();
                    directory.may_match(0, &predicate).unwrap()
                };
                assert_eq!(may(Operator::Lt), *min < literal, "{some:?} < {literal:?}");
                assert_eq!(may(Operator::Gt), *max > literal, "{some:?} > {literal:?}");
            }
        }
    }
}

#[test]
fn sorted_and_constant_columns_are_known() {
    let of = |shape| {
        let array = column(&DataType::Int64, shape, 3000, 0, 3);
        let directory = encode(&[array], &EncodeOptions::default()).unwrap().directory;
        (
            directory.columns()[0].is_sorted(),
            directory.columns()[0].is_constant(),
        )
    };
    assert_eq!(of(SHAPES[0]), (true, true));
    assert_eq!(of(SHAPES[1]), (true, false));
    assert_eq!(of(SHAPES[5]), (false, false));
}

#[test]
fn strings_of_a_dictionary_have_their_bounds_and_order() {
    let of = |strings: [&str; 3]| {
        let rows = strings.iter().flat_map(|string| std::iter::repeat_n(string, 700));
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
        let directory = encode(&[array], &EncodeOptions::default()).unwrap().directory;
        let column = &directory.columns()[0];
        (column.is_sorted(), column.bounds().unwrap().unwrap())
    };
    let bounds = (Value::Text("ab".into()), Value::Text("b".into()));
    assert_eq!(of(["ab", "abc", "b"]), (true, bounds.clone()));
    assert_eq!(of(["b", "abc", "ab"]), (false, bounds.clone()));
    assert_eq!(of(["abc", "b", "ab"]), (false, bounds));
}
