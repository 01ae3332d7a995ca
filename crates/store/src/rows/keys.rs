//! The keys of a batch, in a hash table: a row of the table costs one lookup.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_schema::{ArrowError, DataType, SortOptions};
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

/// The keys of a batch, each once.
pub(crate) struct Keys {
    times: Vec<i64>,
    /// The columns of the key, but for the time.
    columns: Vec<ArrayRef>,
    /// The last row of each key.
    rows: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    /// Takes the keys of a batch: its times, and the other columns of the key.
    pub(crate) fn of(times: Vec<i64>, columns: Vec<ArrayRef>) -> Result<Self, ArrowError> {
        let hasher = DefaultHashBuilder::default();
        let hashes = hashes(&hasher, &times, &columns);
        let equals = comparators(&columns, &columns)?;
        let mut rows = HashTable::with_capacity(times.len());
        for (row, &hash) in hashes.iter().enumerate() {
            let is_same = |&other: &usize| times[other] == times[row] && are_equal(&equals, other, row);
            match rows.entry(hash, is_same, |&other| hashes[other]) {
                Entry::Occupied(mut before) => *before.get_mut() = row,
                Entry::Vacant(free) => {
                    free.insert(row);
                }
            }
        }
        Ok(Self {
            times,
            columns,
            rows,
            hasher,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// For each row of the batch, whether it is the last one with its key.
    pub(crate) fn are_last(&self) -> Vec<bool> {
        let mut are_last = vec![false; self.times.len()];
        self.rows.iter().for_each(|&row| are_last[row] = true);
        are_last
    }

    /// For each of some rows of the table, whether the batch has its key.
    pub(crate) fn have(
        &self,
        times: &[i64],
        columns: &[ArrayRef],
    ) -> Result<impl Iterator<Item = bool>, ArrowError> {
        let hashes = hashes(&self.hasher, times, columns);
        let equals = comparators(&self.columns, columns)?;
        let rows = hashes.into_iter().zip(times).enumerate();
        Ok(rows.map(move |(row, (hash, &time))| {
            let is_same = |&new: &usize| self.times[new] == time && are_equal(&equals, new, row);
            self.rows.find(hash, is_same).is_some()
        }))
    }
}

/// Comparisons of the rows of some columns with those of others.
fn comparators(left: &[ArrayRef], right: &[ArrayRef]) -> Result<Vec<DynComparator>, ArrowError> {
    let pairs = left.iter().zip(right);
    pairs
        .map(|(left, right)| make_comparator(left, right, SortOptions::default()))
        .collect()
}

fn are_equal(columns: &[DynComparator], left: usize, right: usize) -> bool {
    columns
        .iter()
        .all(|compare| compare(left, right) == Ordering::Equal)
}

/// A hash of each key: of keys whose columns compare as equal, the same.
fn hashes(hasher: &DefaultHashBuilder, times: &[i64], columns: &[ArrayRef]) -> Vec<u64> {
    let mut hashes: Vec<u64> = times.iter().map(|time| hasher.hash_one(time)).collect();
    for column in columns {
        add_column(hasher, column, &mut hashes);
    }
    hashes
}

/// Values of a stored type compare as equal if their bytes are the same, floats too.
fn add_column(hasher: &DefaultHashBuilder, column: &ArrayRef, hashes: &mut [u64]) {
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean().values();
            add(hasher, column, hashes, |row| values.value(row));
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            add(hasher, column, hashes, |row| values.value(row));
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            add(hasher, column, hashes, |row| values.value(row));
        }
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            add(hasher, column, hashes, |row| values.value(row));
        }
        other => {
            let data = column.to_data();
            let width = other.primitive_width().unwrap_or_default();
            let bytes = &data.buffers()[0][data.offset() * width..][..data.len() * width];
            match width {
                4 => add_words::<4>(hasher, column, hashes, bytes),
                8 => add_words::<8>(hasher, column, hashes, bytes),
                _ => add(hasher, column, hashes, |row| &bytes[row * width..][..width]),
            }
        }
    }
}

/// Adds values of one of the usual widths.
fn add_words<const WIDTH: usize>(
    hasher: &DefaultHashBuilder,
    column: &ArrayRef,
    hashes: &mut [u64],
    bytes: &[u8],
) {
    let words = bytes.as_chunks::<WIDTH>().0;
    add(hasher, column, hashes, |row| {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(&words[row]);
        u64::from_le_bytes(word)
    });
}

/// Adds a value to the hash of each row; the bytes under a null do not matter.
fn add<V: Hash>(
    hasher: &DefaultHashBuilder,
    column: &ArrayRef,
    hashes: &mut [u64],
    value: impl Fn(usize) -> V,
) {
    let nulls = column.nulls();
    for (row, hash) in hashes.iter_mut().enumerate() {
        *hash = match nulls {
            Some(nulls) if nulls.is_null(row) => hasher.hash_one(*hash),
            _ => hasher.hash_one((*hash, value(row))),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::FixedSizeBinaryBuilder;
    use arrow_array::{
        BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int32Array,
        IntervalMonthDayNanoArray, StringArray,
    };
    use arrow_buffer::{IntervalMonthDayNano, NullBuffer, ScalarBuffer};
    use bedload_testkit::Rng;

    use super::*;

    const ROWS: usize = 200;

    /// A column of each kind, with few values, and nulls that have different bytes.
    fn columns(rng: &mut Rng) -> Vec<ArrayRef> {
        let numbers: Vec<u8> = (0..ROWS)
            .map(|_| u8::try_from(rng.below(4)).expect("small"))
            .collect();
        let nulls = |rng: &mut Rng| NullBuffer::from_iter((0..ROWS).map(|_| rng.below(4) > 0));
        let is_some = |rng: &mut Rng| rng.below(4) > 0;
        let floats = [0.0, -0.0, f64::NAN, 1.0];
        let floats: ScalarBuffer<f64> = numbers
            .iter()
            .map(|&number| floats[usize::from(number)])
            .collect();
        let integers: ScalarBuffer<i32> = numbers.iter().map(|&number| i32::from(number)).collect();
        let texts = ["", "a", "sensor", "a longer name of a sensor"];
        let text = |number: &u8| texts[usize::from(*number)];
        let mut fixed = FixedSizeBinaryBuilder::new(3);
        for number in &numbers {
            match is_some(rng) {
                true => fixed.append_value([0, *number, 1]).expect("three bytes"),
                false => fixed.append_null(),
            }
        }
        let interval = |number: &u8| Some(IntervalMonthDayNano::new(i32::from(*number), 1, 2));
        vec![
            Arc::new(BooleanArray::new(
                numbers.iter().map(|&number| number > 1).collect(),
                Some(nulls(rng)),
            )),
            Arc::new(Int8Array::from_iter_values(
                numbers.iter().map(|&number| number.cast_signed()),
            )),
            Arc::new(Int32Array::new(integers, Some(nulls(rng)))),
            Arc::new(Float64Array::new(floats, Some(nulls(rng)))),
            Arc::new(Decimal128Array::from_iter_values(
                numbers.iter().map(|&number| i128::from(number)),
            )),
            Arc::new(
                numbers
                    .iter()
                    .map(|number| is_some(rng).then(|| text(number)))
                    .collect::<StringArray>(),
            ),
            Arc::new(BinaryArray::from_iter_values(numbers.iter().map(text))),
            Arc::new(fixed.finish()),
            Arc::new(
                numbers
                    .iter()
                    .map(interval)
                    .collect::<IntervalMonthDayNanoArray>(),
            ),
        ]
    }

    #[test]
    fn keys_are_found_among_rows_whatever_their_types() {
        let mut rng = Rng::new(7);
        let kinds = columns(&mut rng).len();
        let mut found = [0; 2];
        for turn in 0..4 * kinds {
            let (new, old) = (columns(&mut rng), columns(&mut rng));
            let chosen = |columns: &[ArrayRef], from: usize, rows: usize| -> Vec<ArrayRef> {
                let both = [turn % kinds, turn / kinds];
                both.iter().map(|&kind| columns[kind].slice(from, rows)).collect()
            };
            let (new, old) = (chosen(&new, 3, 40), chosen(&old, 150, 50));
            let mut times =
                |rows: usize| -> Vec<i64> { (0..rows).map(|_| rng.below(3).cast_signed()).collect() };
            let (new_times, old_times) = (times(40), times(50));
            let equals =
                |left: &[ArrayRef], right: &[ArrayRef]| comparators(left, right).expect("of one type");

            let within = equals(&new, &new);
            let is_last = |row: usize| {
                let mut later = row + 1..40;
                later.all(|later| new_times[later] != new_times[row] || !are_equal(&within, row, later))
            };
            let keys = Keys::of(new_times.clone(), new.clone()).expect("of one type");
            let expected: Vec<bool> = (0..40).map(is_last).collect();
            assert_eq!(keys.are_last(), expected, "turn {turn}");
            assert_eq!(keys.count(), expected.iter().filter(|&&is_last| is_last).count());

            let with = equals(&new, &old);
            let has = |row: usize| {
                (0..40).any(|key| new_times[key] == old_times[row] && are_equal(&with, key, row))
            };
            let expected: Vec<bool> = (0..50).map(has).collect();
            let have: Vec<bool> = keys.have(&old_times, &old).expect("of one type").collect();
            assert_eq!(have, expected, "turn {turn}");
            have.iter().for_each(|&has| found[usize::from(has)] += 1);
        }
        assert!(found.iter().all(|&rows| rows > 200), "{found:?}");
    }
}
