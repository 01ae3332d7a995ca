//! Compares zone maps with Arrow's kernels: a leaf with a matching row is never excluded.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, DictionaryArray, Scalar, StringArray};
use arrow_ord::cmp;
use arrow_schema::DataType;
use bedload_columns::{EncodeOptions, Operator, Predicate, Value, encode};
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

fn some_row_matches(array: &dyn Datum, operator: Operator, literal: ArrayRef) -> bool {
    let literal = Scalar::new(literal);
    let compared = match operator {
        Operator::Eq => cmp::eq(array, &literal),
        Operator::NotEq => cmp::neq(array, &literal),
        Operator::Lt => cmp::lt(array, &literal),
        Operator::LtEq => cmp::lt_eq(array, &literal),
        Operator::Gt => cmp::gt(array, &literal),
        Operator::GtEq => cmp::gt_eq(array, &literal),
    };
    compared.unwrap().iter().any(|matched| matched == Some(true))
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
        let exact = directory.columns()[0].bounds().unwrap().is_some();
        let others = column(array.data_type(), SHAPES[shape], 8, 4, seed);
        let own = (0..array.len()).step_by(array.len().div_ceil(4).max(1)).map(|row| array.slice(row, 1));
        for literal in own.chain((0..8).map(|row| others.slice(row, 1))) {
            for operator in OPERATORS {
                let predicate = Predicate::compare(operator, &literal).unwrap();
                let may = directory.may_match(0, &predicate).unwrap();
                let does = some_row_matches(&array, operator, literal.clone());
                prop_assert!(may || !does, "{operator:?} {literal:?}");
                if exact && !matches!(operator, Operator::Eq | Operator::NotEq) {
                    prop_assert_eq!(may, does, "{:?} {:?}", operator, literal);
                }
            }
        }
        let any_of = directory.may_match(0, &Predicate::is_in(&others).unwrap()).unwrap();
        let found = (0..8).any(|row| some_row_matches(&array, Operator::Eq, others.slice(row, 1)));
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
                let literal = Scalar::new(literals.slice(literal, 1));
                for (row, matched) in cmp::eq(&array, &literal).unwrap().iter().enumerate() {
                    expected[row] |= matched == Some(true);
                }
            }
            prop_assert_eq!(selected.iter().collect::<Vec<_>>(), expected);
        }
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
