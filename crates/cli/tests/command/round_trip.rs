//! Rows come out as they went in: every type, with and without values, through every format that
//! keeps it.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, DurationMillisecondArray, DurationSecondArray, RecordBatch, Time32SecondArray,
    TimestampSecondArray,
};
use bedload::{Store, TableSchema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{LogicalType, TimeUnit as ParquetTimeUnit};

use crate::harness::Place;

/// A table with every type: the widest values, the narrowest and none. Times before 1970 among
/// them.
const SCHEMA: &str = "t:timestamp(us,UTC),b:bool,i8:int8,i16:int16,i32:int32,i64:int64,u8:uint8,u16:uint16,\
                      u32:uint32,u64:uint64,f32:float32,f64:float64,s:utf8,ts:timestamp(s),tms:timestamp(ms),\
                      tns:timestamp(ns,+05:30),d:date32";

const CSV: &str = "\
t,b,i8,i16,i32,i64,u8,u16,u32,u64,f32,f64,s,ts,tms,tns,d
1834-02-03T04:05:06.000007Z,true,-128,-32768,-2147483648,-9223372036854775808,0,0,0,0,-3.4028235e38,-1.7976931348623157e308,\"a \"\"quoted\"\", text\",0001-01-01T00:00:00,0001-01-01T00:00:00.001,1677-09-22T00:12:43.145224192+05:30,0001-01-01
1969-12-31T23:59:59.999999Z,false,127,32767,2147483647,9223372036854775807,255,65535,4294967295,18446744073709551615,1.1754944e-38,5e-324,two
lines,9999-12-31T23:59:59,1969-12-31T23:59:59.999,1970-01-01T05:29:59.999999999+05:30,1969-12-31
1970-01-01T00:00:00Z,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL
1970-01-01T00:00:00Z,true,0,0,0,0,0,0,0,0,0.1,0.1,,1970-01-01T00:00:00,1970-01-01T00:00:00,1970-01-01T05:30:00+05:30,1970-01-01
2013-02-08T17:30:00.250Z,false,1,1,1,1,1,1,1,1,1.5,-0.0,ünïcödé ☃,2013-02-08T17:30:00,2013-02-08T17:30:00.250,2013-02-08T23:00:00.000000001+05:30,2013-02-08
";

/// The text as a writer of CSV quotes it.
fn canonical_csv() -> String {
    CSV.replace("two\nlines", "\"two\nlines\"")
}

fn with_every_type() -> Place {
    let place = Place::new();
    place.write("every.csv", canonical_csv());
    place
        .run_with(&[
            "ingest",
            "s",
            "t",
            "every.csv",
            "--time",
            "t",
            "--schema",
            SCHEMA,
            "--null",
            "NULL",
        ])
        .succeeds();
    place
}

#[test]
fn every_type_through_csv() {
    let place = with_every_type();
    let written = place.output("query s t --format csv --null NULL");
    assert_eq!(normalised(&written), normalised(&canonical_csv()));

    place.write("again.csv", &written);
    place
        .run_with(&[
            "ingest",
            "again",
            "t",
            "again.csv",
            "--time",
            "t",
            "--schema",
            SCHEMA,
            "--null",
            "NULL",
        ])
        .succeeds();
    assert_eq!(place.contents("again"), place.contents("s"));
}

/// CSV with fractions of seconds and floats written in one way.
fn normalised(csv: &str) -> String {
    csv.replace(".250Z", ".25Z")
        .replace(".250,", ".25,")
        .replace("e+", "e")
}

#[test]
fn every_type_through_parquet() {
    let place = with_every_type();
    place.output("query s t --format parquet --output every.parquet");
    place.output("ingest copy t every.parquet --time t");
    assert_eq!(place.contents("copy"), place.contents("s"));

    // And into a table that exists, columns by name.
    place.output("query s t --format parquet --output turned.parquet --columns d,t,s");
    place.output("ingest turned t turned.parquet --time t");
    place.output("query s t --format parquet --output turned.parquet --columns s,d,t");
    place.output("ingest turned t turned.parquet");
    assert_eq!(place.json("info turned --json")["tables"][0]["rows"], 10);

    // To standard output as well.
    let bytes = place
        .command("query s t --format parquet")
        .output()
        .unwrap()
        .stdout;
    assert_eq!(bytes, std::fs::read(place.path("every.parquet")).unwrap());
}

#[test]
fn every_type_as_json() {
    let place = with_every_type();
    let answer = place.output("query s t --format json");
    let rows: Vec<serde_json::Value> = answer
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 5);
    for row in &rows {
        assert_eq!(row.as_object().unwrap().len(), 17);
    }
    assert_eq!(rows[0]["t"], "1834-02-03T04:05:06.000007Z");
    assert_eq!(rows[0]["i64"], i64::MIN);
    assert_eq!(rows[0]["s"], "a \"quoted\", text");
    assert_eq!(rows[1]["u64"], u64::MAX);
    assert_eq!(rows[1]["f64"], 5e-324);
    assert_eq!(rows[1]["s"], "two\nlines");
    assert_eq!(rows[1]["tns"], "1970-01-01T05:29:59.999999999+05:30");
    assert!(
        rows[2]
            .as_object()
            .unwrap()
            .iter()
            .all(|(name, value)| (name == "t") != value.is_null())
    );
    assert_eq!(rows[3]["s"], "");
    assert_eq!(rows[3]["f64"], 0.1);
    assert_eq!(rows[4]["d"], "2013-02-08");
}

/// A table `t` of times `t` and durations `d`.
fn create_with_durations(place: &Place, store: &str, durations: ArrayRef) {
    let seconds = (1..).take(durations.len()).collect::<Vec<i64>>();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(seconds));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("t", times, false), ("d", durations, true)]).unwrap();
    create_with(place, store, &batch);
}

/// A table `t` of the rows of a batch.
fn create_with(place: &Place, store: &str, batch: &RecordBatch) {
    let store = Store::create(place.path(store)).unwrap();
    let schema = TableSchema::new(batch.schema(), "t").unwrap();
    store.create_table("t", schema).unwrap().append(batch).unwrap();
    store.close().unwrap();
}

#[test]
fn durations_are_compared_and_go_round() {
    let place = Place::new();
    let durations = vec![Some(5000), Some(-500), None, Some(0), Some(5_400_001)];
    let durations = DurationMillisecondArray::from(durations);
    create_with_durations(&place, "s", Arc::new(durations.clone()));
    let rows = |condition: &str| {
        let query = [
            "query",
            "s",
            "t",
            "--columns",
            "d",
            "--format",
            "csv",
            "--where",
            condition,
        ];
        place.run_with(&query)
    };
    for (condition, expected) in [
        ("d >= 5s", "d\nPT5S\nPT5400.001S\n"),
        ("d = PT5S", "d\nPT5S\n"),
        ("d < 0s", "d\n-PT0.5S\n"),
        ("d in -PT0.5S, P0D", "d\n-PT0.5S\nP0D\n"),
        ("d > 90min", "d\nPT5400.001S\n"),
    ] {
        assert_eq!(rows(condition).succeeds(), expected, "{condition}");
    }
    for condition in ["d > 5", "d > 1us", "d in 1s,PT0.0005S"] {
        let message = rows(condition).fails(1);
        assert!(
            message.contains("is no duration of whole ms: write 5s"),
            "{message}"
        );
    }

    for format in ["csv", "json"] {
        place.output(&format!("query s t --format {format} --output a.{format}"));
        create_with_durations(&place, format, Arc::new(durations.slice(0, 0)));
        place.output(&format!("ingest {format} t a.{format}"));
        assert_eq!(place.contents(format), place.contents("s"));
    }
    place.write("bad.csv", "t,d\n1970-01-01,5\n");
    let message = place.run("ingest s t bad.csv").fails(1);
    assert!(
        message.starts_with("bad.csv:2: `5` in column d is not of type duration(ms)"),
        "{message}"
    );
}

#[test]
fn a_duration_that_has_no_text_is_an_error() {
    let place = Place::new();
    create_with_durations(
        &place,
        "s",
        Arc::new(DurationSecondArray::from(vec![1, i64::MAX])),
    );
    for format in ["csv", "json", "table"] {
        let message = place
            .run(&format!("query s t --format {format} --output out"))
            .fails(1);
        let value = "row 2 of the answer has no text for the value in column d: 9223372036854775807 s, ";
        assert!(message.starts_with(value), "{format}: {message}");
        assert!(!place.path("out").exists());
    }
    place.output("query s t --format arrow --output out");
}

#[test]
fn every_unit_of_the_time_column() {
    let place = Place::new();
    for (unit, least, greatest) in [
        ("s", -62_135_596_800_i64, 253_402_300_799_i64),
        ("ms", -62_135_596_800_000, 253_402_300_799_999),
        ("us", -62_135_596_800_000_000, 253_402_300_799_999_999),
        ("ns", i64::MIN, i64::MAX),
    ] {
        for zone in ["", ", UTC", ", America/New_York"] {
            // Before 1883 New York kept an offset of odd seconds, which a written time does not
            // show.
            let least = if zone.contains("York") {
                greatest / 253_402_300_799 * -2_000_000_000
            } else {
                least
            };
            let ticks = [3, least, -1, 0, greatest, -2, 1];
            let text = ticks
                .iter()
                .map(|tick| format!("{tick},{tick}\n"))
                .collect::<String>();
            place.write("a.csv", format!("t,n\n{text}"));
            let schema = format!("t:timestamp({unit}{zone}),n:int64");
            let store = format!("{unit}{}", zone.len());
            place
                .run_with(&["ingest", &store, "t", "a.csv", "--time", "t", "--schema", &schema])
                .succeeds();

            let mut sorted = ticks;
            sorted.sort_unstable();
            let expected: String = sorted.iter().map(|tick| format!("{tick}\n")).collect();
            assert_eq!(
                place.output(&format!("query {store} t --columns n --format csv")),
                format!("n\n{expected}")
            );
            assert_eq!(
                place.output(&format!(
                    "query {store} t --columns n --format csv --from @-2 --to @1"
                )),
                "n\n-2\n-1\n0\n"
            );

            // The times as they are written can be read again, in that zone.
            let written = place.output(&format!("query {store} t --format csv"));
            place.write("b.csv", &written);
            let again = format!("{store}_again");
            place
                .run_with(&["ingest", &again, "t", "b.csv", "--time", "t", "--schema", &schema])
                .succeeds();
            assert_eq!(place.contents(&again), place.contents(&store), "{schema}");
        }
    }
}

#[test]
fn bytes_without_a_byte_are_no_null() {
    let place = Place::new();
    place.write("a.csv", "t,b,s\n1,,\n2,NULL,NULL\n3,00ff,a\n");
    let schema = "--time-unit s --schema b:binary,s:utf8 --null NULL";
    place.output(&format!("ingest s t a.csv --time t {schema}"));
    let count = |store: &str, condition: &str| {
        let query = [
            "query",
            store,
            "t",
            "--columns",
            "t",
            "--format",
            "json",
            "--where",
            condition,
        ];
        place.run_with(&query).succeeds().lines().count()
    };
    let written = place.output("query s t --format csv --null NULL");
    place.write("again.csv", written);
    place.output(&format!("ingest again t again.csv --time t {schema}"));
    for store in ["s", "again"] {
        for column in ["b", "s"] {
            assert_eq!(count(store, &format!("{column} is null")), 1, "{store} {column}");
        }
    }
    // Without a text for nulls, an empty field is one.
    place.write("b.csv", "t,b,s\n1,,\n");
    place.output("ingest plain t b.csv --time t --time-unit s --schema b:binary,s:utf8");
    assert_eq!(count("plain", "b is null"), 1);
}

#[test]
fn times_before_clocks_kept_whole_minutes_are_reported_in_utc() {
    let place = Place::new();
    place.write("a.csv", "t\n1880-01-01T00:00:00Z\n1893-03-31T23:54:39+01:00\n");
    let schema = "t:timestamp(s, Europe/Vienna)";
    place
        .run_with(&["ingest", "s", "t", "a.csv", "--time", "t", "--schema", schema])
        .succeeds();
    let info = place.output("info s");
    let times = "times    1880-01-01T00:00:00Z to 1893-03-31T23:54:39+01:00\n";
    assert!(info.contains(times), "{info}");
    let delete = place.output("delete s t --to 1880-01-01T00:00:01Z --dry-run");
    assert!(delete.contains("to 1880-01-01T00:00:01Z (not"), "{delete}");
    let delete = place.run("delete s t --from 1879-01-01T00:00:00Z --to 1879-01-01T00:00:01Z");
    let delete = delete.fails(1);
    assert!(
        delete.contains("lies from 1879-01-01T00:00:00Z (included)"),
        "{delete}"
    );
    assert!(
        delete.contains("go from 1880-01-01T00:00:00Z to 1893-"),
        "{delete}"
    );
}

#[test]
fn times_before_clocks_kept_whole_minutes_go_round() {
    let place = Place::new();
    let rows = "t,z\n1880-01-01T00:00:00Z,\n1893-03-31T22:54:38Z,1972-01-07T00:44:29.999Z\n\
                1893-03-31T23:54:39+01:00,1972-01-07T00:44:30Z\n";
    place.write("a.csv", rows);
    let ingest = |store: &str, file: &str| {
        let schema = "t:timestamp(s, Europe/Vienna),z:timestamp(ms, Africa/Monrovia)";
        place
            .run_with(&["ingest", store, "t", file, "--time", "t", "--schema", schema])
            .succeeds();
    };
    ingest("s", "a.csv");
    for format in ["csv", "json"] {
        let written = place.output(&format!("query s t --format {format}"));
        if format == "csv" {
            assert_eq!(written, rows);
        }
        let file = format!("again.{format}");
        place.write(&file, written);
        ingest(format, &file);
        for column in ["t", "z"] {
            let times = |store| {
                let file = place.path(&format!("{store}.arrow"));
                place.output(&format!(
                    "query {store} t --columns {column} --output {store}.arrow"
                ));
                std::fs::read(file).unwrap()
            };
            assert_eq!(times(format), times("s"), "{format} {column}");
        }
    }
}

#[test]
fn seconds_are_times_for_other_readers_of_parquet() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,z\n1969-12-31T23:59:59,2013-02-08T17:30:00Z\n2013-02-08T17:30:00,\n",
    );
    place.output("ingest s t a.csv --time t --schema z:timestamp(s,America/New_York)");
    place.output("query s t --format parquet --output a.parquet");
    let file = std::fs::File::open(place.path("a.parquet")).unwrap();
    let file = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    for (column, is_adjusted_to_utc) in [(0, false), (1, true)] {
        match file.parquet_schema().column(column).logical_type_ref() {
            Some(LogicalType::Timestamp(found)) => {
                assert_eq!(found.unit, ParquetTimeUnit::MILLIS);
                assert_eq!(found.is_adjusted_to_u_t_c, is_adjusted_to_utc);
            }
            other => panic!("column {column} is {other:?}"),
        }
    }
    // They come back as seconds, into a new table and into the old one.
    place.output("ingest again t a.parquet --time t");
    assert_eq!(place.contents("again"), place.contents("s"));
    place.output("ingest s t a.parquet");
    // The format has no number for seconds this far away.
    place.output("ingest far t a.csv --time t --schema t:timestamp(s),z:utf8");
    place.write("far.csv", "t,z\n9223372036854775,\n9223372036854776,\n");
    place.output("ingest far t far.csv --time-unit s");
    let message = place
        .run("query far t --format parquet --output far.parquet")
        .fails(1);
    assert!(message.contains("cannot be written in this format"), "{message}");
    assert!(!place.path("far.parquet").exists());
}

#[test]
fn times_of_day_in_seconds_are_such_for_other_readers_of_parquet() {
    let place = Place::new();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2, 3]));
    let of_day: ArrayRef = Arc::new(Time32SecondArray::from(vec![Some(0), Some(86_399), None]));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("t", times, false), ("day", of_day, true)]).unwrap();
    create_with(&place, "s", &batch);
    place.output("query s t --format parquet --output a.parquet");
    let file = std::fs::File::open(place.path("a.parquet")).unwrap();
    let file = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    match file.parquet_schema().column(1).logical_type_ref() {
        Some(LogicalType::Time(found)) => assert_eq!(found.unit, ParquetTimeUnit::MILLIS),
        other => panic!("{other:?}"),
    }
    place.output("ingest again t a.parquet --time t");
    assert_eq!(place.contents("again"), place.contents("s"));
}

#[test]
fn parquet_refuses_decimals_of_negative_scale_by_name() {
    let place = Place::new();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let coarse = Decimal128Array::from(vec![12]).with_precision_and_scale(5, -3);
    let coarse: ArrayRef = Arc::new(coarse.unwrap());
    create_with(
        &place,
        "s",
        &RecordBatch::try_from_iter([("t", times), ("coarse", coarse)]).unwrap(),
    );
    let message = place.run("query s t --output a.parquet").fails(1);
    assert!(
        message.contains("column coarse is of type decimal128(5, -3)"),
        "{message}"
    );
    assert!(!place.path("a.parquet").exists());
    assert!(place.output("query s t --format csv").ends_with(",12000\n"));
}

#[test]
fn types_are_inferred() {
    let place = Place::new();
    place.write(
        "a.csv",
        "when,count,share,name,flag,day,post_code,huge,empty\n\
         2013-01-01T00:00:00.5Z,1,0.5,a,true,2013-01-01,01234,18446744073709551615,\n\
         2013-01-01T00:00:00+01:00,,2,b,,,10000,1,\n",
    );
    place.output("ingest s t a.csv --time when");
    let info = place.json("info s --json");
    let columns = info["tables"][0]["columns"].as_array().unwrap();
    let types: Vec<&str> = columns
        .iter()
        .map(|column| column["type"].as_str().unwrap())
        .collect();
    let expected = [
        "timestamp(ms, UTC)",
        "int64",
        "float64",
        "utf8",
        "bool",
        "date32",
        "utf8",
        "uint64",
        "utf8",
    ];
    assert_eq!(types, expected);
    let nullable: Vec<bool> = columns
        .iter()
        .map(|column| column["nullable"].as_bool().unwrap())
        .collect();
    assert_eq!(nullable, [false, true, true, true, true, true, true, true, true]);
}

#[test]
fn a_parquet_file_that_is_not_whole() {
    let place = with_every_type();
    place.output("query s t --format parquet --output a.parquet");
    let bytes = std::fs::read(place.path("a.parquet")).unwrap();
    for len in [4, 12, bytes.len() / 2, bytes.len() - 1] {
        place.write("cut.parquet", &bytes[..len]);
        let message = place.run("ingest n t cut.parquet --time t").fails(1);
        assert!(
            message.starts_with("cut.parquet: not a whole Parquet file"),
            "{message}"
        );
    }
    assert!(
        place
            .run("ingest n t a.parquet --time s")
            .fails(1)
            .contains("is of type utf8, which is no time")
    );
    assert!(
        place
            .run("ingest n t a.parquet --time i64")
            .fails(1)
            .contains("--time-unit")
    );
    assert!(!place.path("n").exists());
}

#[test]
fn rows_of_a_parquet_file_without_a_time() {
    let place = with_every_type();
    place.output("query s t --format parquet --output a.parquet");
    let message = place.run("ingest n t a.parquet --time tms").fails(1);
    assert_eq!(
        message,
        "a.parquet: row 3: no time in column tms; --on-error skip leaves such rows out"
    );
    assert!(!place.path("n").exists());
    let report = place.run("ingest n t a.parquet --time tms --on-error skip --json");
    let report: serde_json::Value = serde_json::from_str(&report.succeeds()).unwrap();
    assert_eq!(
        (&report["rows"], &report["skipped"]["rows"]),
        (&4.into(), &1.into())
    );
    assert_eq!(report["skipped"]["by_reason"]["missing time"], 1);
}
