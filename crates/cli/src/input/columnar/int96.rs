//! Times of 96 bits in Parquet, which older writers make: a day and the nanoseconds within it.
//!
//! They are read as nanoseconds of 64 bits. The reader wraps a time beyond those around into
//! another one, so such times are looked for before any row is read.

use std::fs::File;

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::Int96;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::interrupt;

/// Values that are held at once.
const BATCH_ROWS: usize = 65_536;

/// A time that nanoseconds of 64 bits do not reach.
pub(super) struct Unreachable {
    pub(super) column: String,
    /// Counted from 1.
    pub(super) row: u64,
}

/// Returns the first such time in the columns at `places`. A signal ends the search early.
pub(super) fn first_unreachable(
    metadata: &ParquetMetaData,
    file: File,
    places: &[usize],
) -> Result<Option<Unreachable>, ParquetError> {
    let schema = metadata.file_metadata().schema_descr_ptr();
    // Most files have none, and need not be opened once more.
    if schema
        .columns()
        .iter()
        .all(|column| column.physical_type() != Type::INT96)
    {
        return Ok(None);
    }
    let reader = SerializedFileReader::new(file)?;
    for leaf in 0..schema.num_columns() {
        let column = schema.column(leaf);
        if column.physical_type() != Type::INT96 || !places.contains(&schema.get_column_root_idx(leaf)) {
            continue;
        }
        let mut rows_before = 0;
        for group in 0..reader.num_row_groups() {
            let ColumnReader::Int96ColumnReader(mut times) =
                reader.get_row_group(group)?.get_column_reader(leaf)?
            else {
                continue;
            };
            loop {
                let (mut levels, mut values) = (Vec::new(), Vec::new());
                let (rows, ..) = times.read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
                if rows == 0 || interrupt::caught().is_some() {
                    break;
                }
                if let Some(value) = values.iter().position(is_wrapped) {
                    // Without levels each row has a value.
                    let with_value = (0..)
                        .zip(&levels)
                        .filter(|(_, level)| **level == column.max_def_level());
                    let row = with_value.map(|(row, _)| row).nth(value).unwrap_or(value as u64);
                    return Ok(Some(Unreachable {
                        column: column.name().to_owned(),
                        row: rows_before + row + 1,
                    }));
                }
                rows_before += rows as u64;
            }
        }
    }
    Ok(None)
}

/// Whether the nanoseconds tell another time than the seconds.
fn is_wrapped(time: &Int96) -> bool {
    time.to_nanos().div_euclid(1_000_000_000) != time.to_seconds()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parquet::data_type::Int96Type;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::input::{Input, Wanted};

    /// The day of 1970-01-01 as such times count.
    const EPOCH_DAY: i64 = 2_440_588;

    fn time(seconds: i64, nanos: u32) -> Int96 {
        let day = u32::try_from(EPOCH_DAY + seconds.div_euclid(86_400)).unwrap();
        let nanos = seconds.rem_euclid(86_400) as u64 * 1_000_000_000 + u64::from(nanos);
        let mut time = Int96::new();
        time.set_data((nanos & 0xffff_ffff) as u32, (nanos >> 32) as u32, day);
        time
    }

    /// A file whose column `t` has a time of 1970, and in another group of rows `times`; those of
    /// its column `n` are all beyond reach.
    fn parquet_of(times: &[Option<Int96>]) -> Vec<u8> {
        let schema = parse_message_type("message rows { required int96 n; optional int96 t; }").unwrap();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default()).unwrap();
        for times in [&[Some(time(0, 0))][..], times] {
            let mut group = writer.next_row_group().unwrap();
            let levels: Vec<i16> = times.iter().map(|time| i16::from(time.is_some())).collect();
            let values: Vec<Int96> = times.iter().filter_map(|time| *time).collect();
            let beyond = vec![time(i64::from(i32::MAX) * 10, 0); times.len()];
            for (values, levels) in [(beyond, None), (values, Some(&levels[..]))] {
                let mut column = group.next_column().unwrap().unwrap();
                column
                    .typed::<Int96Type>()
                    .write_batch(&values, levels, None)
                    .unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.into_inner().unwrap()
    }

    #[test]
    fn such_a_file_is_refused_and_its_other_columns_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("int96.parquet");
        let refused = |times: &[Option<Int96>], columns: &[&str]| {
            std::fs::write(&path, parquet_of(times)).unwrap();
            let opened = Input::open(&path, &Wanted::of_test(Some(columns)));
            opened.err().map(|failure| failure.to_string())
        };
        let within = [Some(time(0, 1))];
        assert_eq!(refused(&within, &["t"]), None);
        for (times, columns, place) in [
            (
                &within[..],
                &["t", "n"][..],
                "row 1: the time in column n is of type INT96",
            ),
            (
                &[None, Some(time(i64::MAX / 1_000_000_000 + 1, 0))],
                &["t"],
                "row 3: the time in column t is of type INT96",
            ),
        ] {
            let message = refused(times, columns).unwrap();
            assert!(message.contains(place), "{message}");
        }
    }

    #[test]
    fn times_that_nanoseconds_do_not_reach_are_found() {
        let (last, rest) = (i64::MAX / 1_000_000_000, (i64::MAX % 1_000_000_000) as u32);
        let within = [
            Some(time(last, rest)),
            None,
            Some(time(-last, 0)),
            Some(time(-1, 1)),
        ];
        let found = |times: &[Option<Int96>], place| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&parquet_of(times)).unwrap();
            let reader = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
            first_unreachable(reader.metadata(), file, &[place]).unwrap()
        };
        assert!(found(&within, 1).is_none());
        for beyond in [time(last, rest + 1), time(last + 86_400, 0), time(-last - 2, 0)] {
            let mut times = within.to_vec();
            times.push(Some(beyond));
            let unreachable = found(&times, 1).unwrap();
            assert_eq!((&*unreachable.column, unreachable.row), ("t", 6), "{beyond:?}");
        }
        // Each row of the other column has a value, so there are no levels.
        let unreachable = found(&within, 0).unwrap();
        assert_eq!((&*unreachable.column, unreachable.row), ("n", 1));
    }
}
