//! Damaged files, zones, and marks of whole seconds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Float64Array, StringArray, Time32MillisecondArray, TimestampMillisecondArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use parquet::basic::Encoding;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::input::{Input, OnError};
use crate::seconds;

const ROWS: i64 = 300;

fn batch() -> RecordBatch {
    let texts = (0..ROWS).map(|row| format!("sensor {} at {row}", row % 7));
    let columns: [(&str, ArrayRef); 3] = [
        (
            "t",
            Arc::new((0..ROWS).map(Some).collect::<TimestampMillisecondArray>()),
        ),
        ("text", Arc::new(texts.map(Some).collect::<StringArray>())),
        (
            "share",
            Arc::new(
                (0..ROWS)
                    .map(|row| Some(row as f64 / 3.0))
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A small file with the encodings whose readers check least.
fn sound_parquet() -> Vec<u8> {
    let batch = batch();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("t".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding("share".into(), Encoding::BYTE_STREAM_SPLIT)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// An Arrow file and an Arrow stream.
fn sound_arrow(codec: Option<CompressionType>) -> [Vec<u8>; 2] {
    arrow_of(&[batch()], codec)
}

fn arrow_of(batches: &[RecordBatch], codec: Option<CompressionType>) -> [Vec<u8>; 2] {
    let (schema, options) = (batches[0].schema(), IpcWriteOptions::default());
    let options = options.try_with_compression(codec).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), &schema, options.clone()).unwrap();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    for batch in batches {
        file.write(batch).unwrap();
        stream.write(batch).unwrap();
    }
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

/// Both compressions, and how the data of each begin.
const CODECS: [(CompressionType, [u8; 4]); 2] = [
    (CompressionType::LZ4_FRAME, [0x04, 0x22, 0x4d, 0x18]),
    (CompressionType::ZSTD, [0x28, 0xb5, 0x2f, 0xfd]),
];

/// Reads a file to its end; returns the rows.
fn read(path: &Path) -> Result<usize> {
    let mut input = Input::open(path, &Wanted::of_test(None))?;
    let mut rejects = Rejects::new(OnError::Skip);
    let mut rows = 0;
    while let Some(batch) = input.next_batch(&mut rejects)? {
        rows += batch.num_rows();
    }
    Ok(rows)
}

/// Flips bits of each `step`th byte of a file; returns how many of the mutants were errors, and
/// panics of a reader.
fn errors_of_mutants(sound: &[u8], step: usize) -> (u32, u32) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mutant");
    std::fs::write(&path, sound).unwrap();
    assert_eq!(read(&path).unwrap(), 300);
    let (mut errors, mut panics) = (0, 0);
    for at in (0..sound.len()).step_by(step) {
        for flipped in [0x80, 0xff] {
            let mut mutant = sound.to_vec();
            mutant[at] ^= flipped;
            std::fs::write(&path, &mutant).unwrap();
            let outcome = catch_unwind(AssertUnwindSafe(|| read(&path)));
            match outcome.unwrap_or_else(|_| panic!("byte {at} ^ {flipped:#x}")) {
                Ok(_) => {}
                Err(failure) => {
                    errors += 1;
                    let message = failure.to_string();
                    assert_eq!(failure.status(), crate::exit::Status::Input, "{message}");
                    panics += u32::from(message.contains("its reader cannot go on"));
                }
            }
        }
    }
    (errors, panics)
}

#[test]
fn a_damaged_parquet_file_is_an_error_or_rows_and_never_a_panic() {
    let (errors, panics) = errors_of_mutants(&sound_parquet(), 1);
    // Without the guard those would have been panics of the command.
    assert!(
        errors > 1000 && panics > 0,
        "{errors} errors, {panics} of them panics"
    );
}

#[test]
fn times_marked_as_whole_seconds_have_no_fraction() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marked.parquet");
    let written = |kind: DataType, times: ArrayRef| {
        let fields = vec![
            Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
            Field::new("c", kind, true),
        ];
        let marked = seconds::written_schema(&Arc::new(Schema::new(fields)));
        let columns = vec![
            Arc::new(TimestampMillisecondArray::from(vec![0; 3])) as ArrayRef,
            times,
        ];
        let batch = RecordBatch::try_new(Arc::clone(&marked), columns).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), marked, None).unwrap();
        writer.write(&batch).unwrap();
        std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
    };
    let timestamps = |last| Arc::new(TimestampMillisecondArray::from(vec![Some(1000), None, last]));
    let of_day = |last| Arc::new(Time32MillisecondArray::from(vec![Some(1000), None, last]));
    let columns = |last: i32| -> [(DataType, ArrayRef); 2] {
        let (timestamp, time) = (
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Time32(TimeUnit::Second),
        );
        [
            (timestamp, timestamps(Some(last.into()))),
            (time, of_day(Some(last))),
        ]
    };
    for (kind, times) in columns(-2000) {
        written(kind.clone(), times);
        let input = Input::open(&path, &Wanted::of_test(None));
        assert_eq!(input.unwrap().schema().field(1).data_type(), &kind);
        assert_eq!(read(&path).unwrap(), 3);
    }
    for (kind, times) in columns(-1500) {
        written(kind, times);
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("row 3: ") && message.contains(" in column c is no "),
            "{message}"
        );
    }
}

#[test]
fn zones_are_stored_by_names_that_can_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zoned");
    for (zone, stored) in [
        ("Z", Some("UTC")),
        ("Asia/Tokyo", Some("Asia/Tokyo")),
        ("Mars", None),
    ] {
        let times = TimestampMillisecondArray::from(vec![1]).with_timezone(zone);
        let batch = RecordBatch::try_from_iter([("t", Arc::new(times) as ArrayRef)]).unwrap();
        for file in arrow_of(&[batch], None) {
            std::fs::write(&path, file).unwrap();
            match (Input::open(&path, &Wanted::of_test(None)), stored) {
                (Ok(input), Some(stored)) => {
                    let expected = DataType::Timestamp(TimeUnit::Millisecond, Some(stored.into()));
                    assert_eq!(input.schema().field(0).data_type(), &expected);
                    assert_eq!(read(&path).unwrap(), 1);
                }
                (Err(failure), None) => {
                    let message = failure.to_string();
                    assert!(message.contains("there is no time zone \"Mars\""), "{message}");
                }
                (input, _) => panic!("{zone}: {:?}", input.map(|input| input.schema().clone())),
            }
        }
    }
}

/// Other writers keep seconds as milliseconds, too, and older ones nanoseconds as microseconds.
#[test]
fn zones_of_parquet_do_not_hang_on_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zoned.parquet");
    let times = TimestampMillisecondArray::from(vec![1000, 3000]).with_timezone("UTC");
    let batch = RecordBatch::try_from_iter([("t", Arc::new(times) as ArrayRef)]).unwrap();
    for (unit, zone) in [
        (TimeUnit::Second, Some("Europe/Vienna")),
        (TimeUnit::Millisecond, Some("Europe/Vienna")),
        (TimeUnit::Nanosecond, Some("+05:30")),
        (TimeUnit::Second, None),
    ] {
        let of_writer = DataType::Timestamp(unit, zone.map(Arc::from));
        let of_writer = Schema::new(vec![Field::new("t", of_writer, true)]);
        let hint = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(&of_writer));
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![hint]));
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        std::fs::write(&path, writer.into_inner().unwrap()).unwrap();

        let mut input = Input::open(&path, &Wanted::of_test(None)).unwrap();
        let read = input
            .next_batch(&mut Rejects::new(OnError::Fail))
            .unwrap()
            .unwrap();
        let expected = TimestampMillisecondArray::from(vec![1000, 3000]);
        let expected = expected.with_timezone(zone.unwrap_or("UTC"));
        assert_eq!(
            read.column(0).as_primitive::<TimestampMillisecondType>(),
            &expected
        );
    }
}

#[test]
fn damaged_arrow_is_an_error_or_rows_and_never_a_panic() {
    for codec in [None, Some(CODECS[0].0), Some(CODECS[1].0)] {
        for sound in sound_arrow(codec) {
            let (errors, _) = errors_of_mutants(&sound, 11);
            assert!(errors > 10, "{errors} errors");
        }
    }
}

/// The bytes where such a buffer lies are those of the next message.
#[test]
fn compressed_batches_may_end_with_an_empty_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sound");
    let columns: [(&str, ArrayRef); 2] = [
        (
            "t",
            Arc::new((0..2).map(Some).collect::<TimestampMillisecondArray>()),
        ),
        ("text", Arc::new(StringArray::from(vec![None, Some("")]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (codec, _) in CODECS {
        for sound in arrow_of(&[batch.clone(), batch.clone()], Some(codec)) {
            std::fs::write(&path, sound).unwrap();
            assert_eq!(read(&path).unwrap(), 4);
        }
    }
}

/// The reader would allocate that much, and the process be aborted.
#[test]
fn a_compressed_buffer_that_no_memory_holds_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    for (codec, magic) in CODECS {
        for mut damaged in sound_arrow(Some(codec)) {
            // The column of times.
            let length = [&(8 * ROWS).to_le_bytes()[..], &magic].concat();
            let at = damaged
                .windows(length.len())
                .position(|bytes| bytes == length)
                .unwrap();
            damaged[at..at + 8].copy_from_slice(&(1_i64 << 62).to_le_bytes());
            std::fs::write(&path, &damaged).unwrap();
            let failure = read(&path).unwrap_err();
            assert_eq!(failure.status(), crate::exit::Status::Input, "{failure}");
            let message = failure.to_string();
            assert!(
                message.contains("a compressed buffer says that it is 4611686018427387904 bytes long"),
                "{message}"
            );
        }
    }
}
