//! `bedload sortedness`: how far a column of a file is from sorted.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal256Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_cast::cast;
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};
use bedload_sortedness::{Sortedness, arrivals_in_sorted_order};

use crate::args::SortednessArgs;
use crate::exit::{Failure, Result};
use crate::figures::{rows_line, sortedness_json, sortedness_text};
use crate::input::{Input, Rejects, STDIN, Wanted, display_name};
use crate::output::stdout::Stdout;
use crate::picture::Picture;
use crate::schema;

const BATCH_ROWS: usize = 65_536;

pub(crate) fn run(args: &SortednessArgs) -> Result<()> {
    let column = Column::read(args)?;
    let order = column.order();
    let measured = order.measured;
    if let Some(path) = &args.picture {
        order.picture(&title_name(&args.file), &args.column).write(path)?;
    }

    let mut out = Stdout::lock();
    if args.json {
        let mut object = sortedness_json(&measured);
        object["without_value"] = column.without_value.into();
        object["skipped"] = column.rejects.json();
        out.json(&object)
    } else {
        out.line(&rows_line(measured.rows))?;
        out.line(&sortedness_text(&measured))?;
        if column.without_value > 0 {
            out.line(&format!("{} skipped: no value", rows_line(column.without_value)))?;
        }
        column.rejects.print();
        Ok(())
    }
}

/// The values of a column in the order of its file, in a form that sorts as they do.
pub(crate) struct Column {
    keys: Keys,
    without_value: u64,
    rejects: Rejects,
}

/// The order in which a column's rows stand.
pub(crate) struct Order {
    pub(crate) measured: Sortedness,
    /// The rows that have a value, by their number of arrival, in the order of their values.
    arrivals: Vec<usize>,
}

enum Keys {
    Integers(Vec<i64>),
    /// Decimals of one scale, as whole numbers of the last digit.
    Decimals(Vec<<Decimal256Type as ArrowPrimitiveType>::Native>),
    Texts(Vec<String>),
}

impl Column {
    /// Reads one column of a file. Rows without a value are counted and left out.
    pub(crate) fn read(args: &SortednessArgs) -> Result<Self> {
        let (path, name) = (&args.file, &args.column);
        let wanted = Wanted {
            time: None,
            columns: Some(vec![name.clone()]),
            given: schema::given("--schema", args.schema.as_deref())?,
            table: None,
            time_unit: None,
            clock: None,
            nulls: args.csv.nulls.clone(),
            delimiter: args.csv.delimiter,
            header: args.csv.header.clone(),
            batch_rows: BATCH_ROWS,
            follow: None,
            snapping: None,
        };
        let mut input = Input::open(path, &wanted)?;
        let keys = match input.schema().field(0).data_type() {
            DataType::Utf8 => Keys::Texts(Vec::new()),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Keys::Decimals(Vec::new()),
            _ => Keys::Integers(Vec::new()),
        };
        let mut column = Self {
            keys,
            without_value: 0,
            rejects: Rejects::new(args.on_error),
        };
        while let Some(batch) = input.next_batch(&mut column.rejects)? {
            column
                .append(batch.column(0))
                .map_err(|error| Failure::input(format!("{}: column {name}: {error}", display_name(path))))?;
        }
        Ok(column)
    }

    fn append(&mut self, array: &ArrayRef) -> Result<(), arrow_schema::ArrowError> {
        self.without_value += array.null_count() as u64;
        match &mut self.keys {
            Keys::Texts(keys) => keys.extend(array.as_string::<i32>().iter().flatten().map(str::to_owned)),
            Keys::Decimals(keys) => {
                let (DataType::Decimal32(_, scale)
                | DataType::Decimal64(_, scale)
                | DataType::Decimal128(_, scale)
                | DataType::Decimal256(_, scale)) = *array.data_type()
                else {
                    unreachable!("batches have the type of their input's schema");
                };
                let array = cast(array, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
                keys.extend(array.as_primitive::<Decimal256Type>().iter().flatten());
            }
            Keys::Integers(keys) => match array.data_type() {
                DataType::UInt64 => {
                    let values = array.as_primitive::<UInt64Type>().iter().flatten();
                    keys.extend(values.map(|value| (value ^ (1 << 63)).cast_signed()));
                }
                DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                    let array = cast(array, &DataType::Float64)?;
                    keys.extend(
                        array
                            .as_primitive::<Float64Type>()
                            .iter()
                            .flatten()
                            .map(ascending),
                    );
                }
                _ => {
                    let array = cast(array, &DataType::Int64)?;
                    keys.extend(array.as_primitive::<Int64Type>().iter().flatten());
                }
            },
        }
        Ok(())
    }

    /// Measures the order in which the rows stand. Sorts them.
    pub(crate) fn order(&self) -> Order {
        fn of<T: Ord>(keys: &[T]) -> Order {
            let arrivals = arrivals_in_sorted_order(keys);
            Order {
                measured: Sortedness::of_order(keys, &arrivals),
                arrivals,
            }
        }
        match &self.keys {
            Keys::Integers(keys) => of(keys),
            Keys::Decimals(keys) => of(keys),
            Keys::Texts(keys) => of(keys),
        }
    }
}

impl Order {
    pub(crate) fn picture(&self, file: &str, column: &str) -> Picture {
        Picture::new(
            &format!("{file}, column {column}"),
            &self.measured,
            &self.arrivals,
        )
    }
}

/// How a picture names a file: without the directories, which are private.
pub(crate) fn title_name(path: &Path) -> String {
    let name = path.file_name().filter(|_| path != Path::new(STDIN));
    name.map_or_else(|| display_name(path), |name| name.display().to_string())
}

/// An integer that sorts as the float does (IEEE 754 total order, but that the two zeros are one).
fn ascending(value: f64) -> i64 {
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_ascend_as_integers() {
        let floats = [
            f64::NEG_INFINITY,
            -1.5,
            -1.0,
            -1e-300,
            0.0,
            1e-300,
            1.0,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(floats.map(ascending).is_sorted_by(|a, b| a < b));
        assert_eq!(ascending(-0.0), ascending(0.0));
    }
}
