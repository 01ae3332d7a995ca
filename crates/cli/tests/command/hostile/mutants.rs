//! Damaged input files and damaged stores.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};

use bedload_testkit::Rng;
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;

use super::outcome::{Cases, Findings, Limited, orderly, run_limited, whole};
use super::scenario::copy;
use crate::harness::{Place, near_sorted_csv};

/// Changes bytes the way that bad disks, bad transfers and editors do.
fn mutate(bytes: &mut Vec<u8>, random: &mut Rng) {
    let mut below = |limit: usize| usize::try_from(random.below(limit.max(1) as u64)).unwrap();
    for _ in 0..=below(3) {
        let at = below(bytes.len());
        let len = (1 + below(16)).min(bytes.len() - at);
        match below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << below(8),
            1 => bytes[at..at + len].fill_with(|| u8::try_from(below(256)).unwrap()),
            2 => bytes[at..at + len].fill(0),
            3 => bytes[at..at + len].fill(0xff),
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..at + len)),
            6 => {
                let copied = bytes[at..at + len].to_vec();
                let to = below(bytes.len());
                drop(bytes.splice(to..to, copied));
            }
            _ => {
                let strange = [
                    b"\"".as_slice(),
                    b",",
                    b"\n",
                    b"\0",
                    b"\xff\xfe",
                    "\u{202e}".as_bytes(),
                ];
                let to = below(bytes.len());
                drop(bytes.splice(to..to, strange[below(strange.len())].iter().copied()));
            }
        }
    }
}

/// A Parquet file with the encodings whose readers have most to check.
fn parquet_with_encodings() -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("t".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding("name".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
        .set_column_encoding("value".into(), Encoding::BYTE_STREAM_SPLIT)
        .set_data_page_row_count_limit(64)
        .build();
    let text = |row: i64| Some(format!("sensor-{:03}-{row}", row % 7)).filter(|_| row % 5 != 0);
    let columns: [(&str, ArrayRef); 4] = [
        (
            "t",
            Arc::new((0..200_i64).map(|row| row * row % 97).collect::<Int64Array>()),
        ),
        ("text", Arc::new((0..200).map(text).collect::<StringArray>())),
        ("name", Arc::new((0..200).map(text).collect::<StringArray>())),
        (
            "value",
            Arc::new(
                (0..200_i32)
                    .map(|row| f64::from(row) / 7.0)
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Ingests a mutant into a new store; whether it was refused.
fn ingest_mutant(place: &Place, bytes: &[u8], options: &str) -> Result<bool, String> {
    place.write("mutant", bytes);
    let command = format!("ingest new t mutant --time t {options} --batch-rows 50");
    let Limited { code, stderr, .. } = run_limited(&mut place.command(&command), |_| ())?;
    match (orderly(code, &stderr)?, place.path("new").exists()) {
        (true, true) => {
            whole(place, "new")?;
            std::fs::remove_dir_all(place.path("new")).unwrap();
            Ok(false)
        }
        (false, false) => Ok(true),
        (_, exists) => Err(format!(
            "exit code {code:?}; the store exists: {exists}: {stderr}"
        )),
    }
}

#[test]
fn damaged_input_is_refused_or_read() {
    let place = Place::new();
    let mut text = near_sorted_csv(400);
    text.push_str("1000400,\n\"1000401\",7\n");
    place.write("rows.csv", &text);
    place.write_gzip("rows.csv.gz", &text);
    let schema = "--schema t:timestamp(s),n:int64";
    place.output(&format!("ingest s t rows.csv --time t {schema}"));
    place.output("query s t --format parquet --output rows.parquet");
    place.write("encodings.parquet", parquet_with_encodings());
    let files = [
        ("rows.csv", schema),
        ("rows.csv.gz", schema),
        ("rows.parquet", schema),
        ("encodings.parquet", "--time-unit s"),
    ];
    let mut random = Rng::new(0x00da_4a6e);
    let mut findings = Findings::default();
    let (mut refused, mut read) = (0, 0);
    for () in Cases::new(400) {
        let (file, options) = files[usize::try_from(random.below(4)).unwrap()];
        let mut bytes = std::fs::read(place.path(file)).unwrap();
        mutate(&mut bytes, &mut random);
        let case = format!("{file} with {} bytes", bytes.len());
        match findings.note(&case, ingest_mutant(&place, &bytes, options)) {
            Some(true) => refused += 1,
            Some(false) => read += 1,
            None => {
                let _ = std::fs::remove_dir_all(place.path("new"));
            }
        }
    }
    findings.assert_none();
    assert!(refused > 0 && read > 0, "{refused} were refused, {read} read");
}

const TABLES: [&str; 2] = ["t", "g"];

/// How rows are printed.
const AS_LINES: &str = "--format csv --null NULL";

/// A store and its rows, in two states that follow one another.
struct Original {
    place: Place,
    /// The lines of all tables, in either state.
    rows: HashSet<String>,
    /// The answers of each table as it is, and with `more.csv` once more.
    answers: [[String; 2]; 2],
    /// Those of another store.
    others: HashSet<String>,
    files: Vec<PathBuf>,
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn lines(place: &Place, store: &str) -> Vec<String> {
    let contents = place.contents(store).unwrap();
    contents.lines().map(str::to_owned).collect()
}

impl Original {
    fn new() -> Self {
        let place = Place::new();
        let schema = "--time t --schema t:timestamp(s),n:int64";
        place.write("rows.csv", near_sorted_csv(4000));
        place.write("more.csv", near_sorted_csv(2500));
        place.write(
            "grid.csv",
            (0..2000).fold("t,n\n".to_owned(), |csv, t| csv + &format!("{t},5\n")),
        );
        place.output(&format!("ingest s t rows.csv {schema} --batch-rows 700"));
        place.output(&format!(
            "ingest s g grid.csv {schema} --layout sparse --interval 1s"
        ));
        copy(&place.path("s"), &place.path("old"));
        // The same commands make files of the same names, with other numbers in them.
        place.write("others.csv", near_sorted_csv(4000).replace("\n1", "\n2"));
        place.output(&format!("ingest other t others.csv {schema} --batch-rows 700"));
        place.output(&format!(
            "ingest other g grid.csv {schema} --layout sparse --interval 1s"
        ));
        let mut rows: HashSet<String> = lines(&place, "s").into_iter().collect();
        place.output("ingest s t more.csv --time-unit s --batch-rows 300");
        rows.extend(lines(&place, "s"));
        let mut files = Vec::new();
        files_below(&place.path("s"), &mut files);
        let files = files
            .into_iter()
            .map(|file| file.strip_prefix(place.path("s")).unwrap().to_owned())
            .filter(|file| file != Path::new("lock"))
            .collect();
        let others = lines(&place, "other").into_iter().collect();
        copy(&place.path("s"), &place.path("again"));
        place.output("ingest again t more.csv --time-unit s");
        let answers = ["s", "again"]
            .map(|store| TABLES.map(|table| place.output(&format!("query {store} {table} {AS_LINES}"))));
        std::fs::remove_dir_all(place.path("again")).unwrap();
        Self {
            place,
            rows,
            answers,
            others,
            files,
        }
    }

    /// Damages one file of a copy; returns what was done, and whether every answer must be whole:
    /// the log may end at what is damaged.
    fn damaged(&self, random: &mut Rng) -> (Place, String, bool) {
        let place = Place::new();
        copy(&self.place.path(""), &place.path(""));
        let mut below = |limit: usize| usize::try_from(random.below(limit.max(1) as u64)).unwrap();
        let file = &self.files[below(self.files.len())];
        let path = place.path("s").join(file);
        let done = match below(7) {
            kind @ 0..=1 => {
                let (from, done) = match kind {
                    0 => ("old", "is an older one"),
                    _ => ("other", "is another store's"),
                };
                let from = place.path(from).join(file);
                if from.exists() {
                    std::fs::copy(from, &path).unwrap();
                    done
                } else {
                    std::fs::remove_file(&path).unwrap();
                    "is missing"
                }
            }
            2 => {
                let mut bytes = std::fs::read(&path).unwrap();
                let old = std::fs::read(place.path("old").join(file)).unwrap_or_default();
                let len = old.len().min(bytes.len()).min(8192);
                bytes[..len].copy_from_slice(&old[..len]);
                std::fs::write(&path, bytes).unwrap();
                "begins as an older one"
            }
            3 => {
                let mut bytes = std::fs::read(&path).unwrap();
                let page = 4096 * (1 + below(4));
                let (from, to) = (below(bytes.len() / page) * page, below(bytes.len() / page) * page);
                if from.max(to) + page <= bytes.len() {
                    bytes.copy_within(from..from + page, to);
                }
                std::fs::write(&path, bytes).unwrap();
                "has a page twice"
            }
            4 => {
                let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                handle.set_len(1 << (30 + below(13))).unwrap();
                "is terabytes long"
            }
            _ => {
                let mut bytes = std::fs::read(&path).unwrap();
                mutate(&mut bytes, random);
                std::fs::write(&path, bytes).unwrap();
                "is mutated"
            }
        };
        let is_whole = done == "is mutated" && !file.starts_with("log");
        (place, format!("{} {done}", file.display()), is_whole)
    }

    /// Every row that the store gives is one that was put in; if it must be whole, it gives all of
    /// them or an error. With the data file of another store it is that store, and has nothing of
    /// this one.
    fn check(&self, place: &Place, store: &str, is_whole: bool) -> Result<(), String> {
        for (number, table) in TABLES.into_iter().enumerate() {
            let query = format!("query {store} {table} {AS_LINES}");
            let Limited { code, stdout, stderr } = run_limited(&mut place.command(&query), |_| ())?;
            let is_answered = orderly(code, &stderr).map_err(|found| format!("query {table}: {found}"))?;
            if is_whole && is_answered && !self.answers.iter().any(|answers| answers[number] == stdout) {
                return Err(format!("query {table} gives {} lines", stdout.lines().count()));
            }
            let complete = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
            if complete.lines().all(|line| self.others.contains(line)) {
                continue;
            }
            if let Some(wrong) = complete.lines().find(|&line| !self.rows.contains(line)) {
                return Err(format!("query {table} gives the row {wrong:?}"));
            }
        }
        Ok(())
    }
}

#[test]
fn a_damaged_store_gives_right_rows_or_an_error() {
    let original = Original::new();
    let mut random = Rng::new(0x5_70_4e);
    let mut findings = Findings::default();
    for () in Cases::new(60) {
        let (place, case, is_whole) = original.damaged(&mut random);
        for command in [
            "info s",
            "verify s",
            "ingest s t more.csv --time-unit s",
            "salvage s saved",
        ] {
            let checked = run_limited(&mut place.command(command), |_| ())
                .and_then(|Limited { code, stderr, .. }| orderly(code, &stderr));
            findings.note(&format!("{command}: {case}"), checked);
        }
        findings.note(&case, original.check(&place, "s", is_whole));
        if place.path("saved/data").exists() {
            let saved = whole(&place, "saved").and_then(|()| original.check(&place, "saved", false));
            findings.note(&format!("saved: {case}"), saved);
        }
    }
    findings.assert_none();
}
