//! Errors have an exit code and one line. That the store is then as it was: see `undo`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::harness::{Place, near_sorted_csv};

/// A place with a store `s` that holds three rows in table `t`.
fn with_store() -> Place {
    let place = Place::new();
    place.write(
        "good.csv",
        "t,v\n2013-01-01 10:00:00,1\n2013-01-01 09:00:00,2\n2013-01-01 11:00:00,3\n",
    );
    place.output("ingest s t good.csv --time t");
    place
}

#[test]
fn wrong_usage() {
    let place = with_store();
    for arguments in [
        "",
        "frobnicate",
        "ingest s",
        "query s t --limit many",
        "query s t --format xml",
    ] {
        let message = place.run(arguments).fails(2);
        assert!(message.contains("--help"), "{message}");
        assert!(
            !message.contains("Usage:") && !message.contains("error:"),
            "{message}"
        );
    }
    assert_eq!(
        place.run("").fails(2),
        "a command is missing; bedload --help lists them"
    );
    assert_eq!(
        place.run("query s t --frmat csv").fails(2),
        "unexpected argument '--frmat' found; tip: a similar argument exists: '--format'; --help says more"
    );
    assert_eq!(
        place.run("ingest s").fails(2),
        "the following required arguments were not provided: <TABLE> <FILES>...; --help says more"
    );
    assert_eq!(
        place.run("ingest s new good.csv").fails(2),
        "a new table needs --time, the column that holds each row's time; there are t, v"
    );
    assert!(
        place
            .run("ingest s new good.csv --time t --schema v")
            .fails(2)
            .contains("name:type")
    );
    assert!(
        place
            .run("ingest s new good.csv --time t --columns v")
            .fails(2)
            .contains("--columns")
    );
    assert!(place.run("delete s t").fails(2).contains("--from"));
    assert!(place.run("query s t --columns v,v").fails(2).contains("twice"));
    place.output("query s t --format parquet --output good.parquet");
    for files in ["good.csv", "good.parquet", "good.csv good.parquet"] {
        for table in ["t", "new"] {
            let ingest = format!("ingest s {table} {files} --time t --columns t,v,v");
            let message = place.run(&ingest).fails(2);
            assert_eq!(message, "--columns: column v is named twice", "{ingest}");
        }
    }
    assert_eq!(place.output("tables s"), "t\n");
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 3);
    assert_eq!(
        place.run("sortedness good.csv --column t --picture p.gif").code,
        Some(2)
    );
}

#[test]
fn files_that_are_not_there_or_not_whole() {
    let place = Place::new();
    assert_eq!(
        place.run("ingest s t none.csv --time t").fails(1),
        "none.csv: no such file"
    );
    place.write("a.csv", "t\n1\n");
    place.output("ingest there t a.csv --time t --time-unit s");
    for output in ["query there t --output none/x.csv", "backup there none/x"] {
        let message = place.run(output).fails(5);
        let (_, words) = message.split_once(": ").unwrap();
        assert_eq!(words, "no such file or directory", "{output}");
    }
    place.write("a.csv.zst", b"\x28\xb5\x2f\xfd\x24\x08\x41");
    assert_eq!(
        place.run("ingest s t a.csv.zst --time t").fails(1),
        "a.csv.zst: is compressed, and not by gzip: pipe it through `zstd -dc`"
    );
    std::fs::create_dir(place.path("dir")).unwrap();
    assert_eq!(
        place.run("ingest s t dir --time t").fails(1),
        "dir: is a directory"
    );
    place.write("empty.csv", "");
    assert!(
        place
            .run("ingest s t empty.csv --time t")
            .fails(1)
            .starts_with("empty.csv: is empty")
    );
    place.write("blank.csv", "\n\r\n\n");
    assert!(
        place
            .run("ingest s t blank.csv --time t")
            .fails(1)
            .starts_with("blank.csv: is empty")
    );

    place.write_gzip("whole.csv.gz", near_sorted_csv(1000));
    let mut bytes = std::fs::read(place.path("whole.csv.gz")).unwrap();
    place.write("cut.csv.gz", &bytes[..bytes.len() / 2]);
    let message = place.run("ingest s t cut.csv.gz --time t --time-unit s").fails(1);
    assert_eq!(message, "cut.csv.gz: the gzip stream is cut off before its end");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].fill(0xff);
    place.write("bad.csv.gz", &bytes);
    let message = place.run("ingest s t bad.csv.gz --time t --time-unit s").fails(1);
    assert!(message.starts_with("bad.csv.gz: "), "{message}");
    assert!(!place.path("s").exists());
}

#[test]
fn another_separator() {
    let place = Place::new();
    place.write("a.csv", "t;v\n1;2\n");
    for arguments in [
        "ingest s t a.csv",
        "ingest s t a.csv --time t",
        "sortedness a.csv --column t",
    ] {
        assert_eq!(
            place.run(arguments).fails(1),
            "a.csv:1: the header is one column, `t;v`: give --delimiter ';' if that separates the columns"
        );
    }
    place.write("b.csv", "t\tv\n1\t2\n");
    let message = place.run("ingest s t b.csv --time t").fails(1);
    assert!(message.contains("--delimiter '\\t'"), "{message}");
    place.write("q.csv", "\"t,v\"\n1\n2\n");
    let message = place.run("ingest s t q.csv --time t").fails(1);
    assert_eq!(message, "q.csv: no column is named t; there are t,v");
    assert!(!place.path("s").exists());
    place.write("c.csv", "a;b\n1\n2\n");
    let ingested = place.run("ingest s t c.csv --time a;b --time-unit s").succeeds();
    assert!(ingested.contains("2 rows"), "{ingested}");
    place.run("ingest s t c.csv").succeeds();
}

#[test]
fn missing_and_doubled_columns() {
    let place = Place::new();
    place.write("a.csv", "t,v,v\n1,2,3\n");
    let message = place.run("ingest s t a.csv --time departure").fails(1);
    assert_eq!(message, "a.csv: no column is named departure; there are t, v, v");
    let message = place.run("ingest s t a.csv --time t --time-unit s").fails(1);
    assert_eq!(message, "a.csv: two columns are named v");
    let message = place
        .run("ingest s t a.csv --time t --time-unit s --schema w:int8 --columns t")
        .fails(1);
    assert_eq!(message, "a.csv: no column is named w; there are t, v, v");
    assert!(!place.path("s").exists());
}

#[test]
fn a_time_that_is_none_is_named_with_file_and_line() {
    let place = Place::new();
    // Line 1 the header, 2 to 4 a row with a quoted line end and a blank line behind it, 5 the bad
    // one.
    place.write(
        "bad.csv",
        "text,t\r\n\"two\r\nlines\",2013-01-01\r\n\r\nx,soon\r\n",
    );
    let message = place
        .run("ingest s t bad.csv --time t --schema t:timestamp(s)")
        .fails(1);
    assert_eq!(
        message,
        "bad.csv:5: `soon` in column t is not a time; --on-error skip leaves such rows out"
    );

    // Without a type the first rows tell it, whichever of them are bad.
    let message = place.run("ingest s t bad.csv --time t").fails(1);
    assert!(
        message.starts_with("bad.csv:5: `soon` in column t is not a time"),
        "{message}"
    );
    place.write("worse.csv", "t\nsoon\n2013-01-01\n");
    let message = place.run("ingest s t worse.csv --time t").fails(1);
    assert!(
        message.starts_with("worse.csv:2: `soon` in column t is not a time"),
        "{message}"
    );
    place.write("worst.csv", "t\nsoon\nlater\n");
    for arguments in [
        "ingest s t worst.csv --time t",
        "ingest s t worst.csv --time t --on-error skip",
    ] {
        assert_eq!(
            place.run(arguments).fails(1),
            "worst.csv:2: `soon` in column t is not a time; the first rows do not tell the type of the column: give \
             it with --schema 't:timestamp(…)'"
        );
    }
    place.write("none.csv", "t,n\n");
    let message = place.run("ingest s t none.csv --time t").fails(1);
    assert_eq!(
        message,
        "none.csv: no rows to tell the type of column t: give it with --schema 't:timestamp(…)'"
    );

    place.write("empty.csv", "t,text\n2013-01-01,a\n,\"b\n\"\n");
    let message = place.run("ingest s t empty.csv --time t").fails(1);
    assert_eq!(
        message,
        "empty.csv:3: no time in column t; --on-error skip leaves such rows out"
    );

    // The time is the second field, behind one that ends on another line.
    place.write("spread.csv", "text,t\na,2013-01-01\n\"b\n\nc\",\n");
    let message = place.run("ingest s t spread.csv --time t").fails(1);
    assert_eq!(
        message,
        "spread.csv:5: no time in column t; --on-error skip leaves such rows out"
    );
    assert!(!place.path("s").exists());
}

#[test]
fn times_that_cannot_be_kept_as_they_are() {
    let place = Place::new();
    let message_for = |time: &str, schema: &str| {
        place.write("a.csv", format!("t\n{time}\n"));
        place
            .run(&format!("ingest s t a.csv --time t --schema t:{schema}"))
            .fails(1)
    };
    assert!(
        message_for("2013-01-01T00:00:00.5", "timestamp(s)").contains("finer than its type timestamp(s)")
    );
    assert!(message_for("2413-01-01T00:00:00", "timestamp(ns)").contains("beyond the range"));
    assert!(message_for("2013-01-01T00:00:00Z", "timestamp(s)").contains("has an offset from UTC"));
    assert!(message_for("2013-01-01T00:00:00", "timestamp(s,UTC)").contains("lacks an offset from UTC"));
    let message = place.run("ingest s t a.csv --time t --schema t:int64").fails(2);
    assert_eq!(message, "--schema: the time column t must be a timestamp(…)");
    place.write("a.csv", "t\n17\n");
    assert!(
        place
            .run("ingest s t a.csv --time t")
            .fails(1)
            .contains("--time-unit")
    );
    assert!(!place.path("s").exists());
}

#[test]
fn a_row_that_no_page_holds() {
    let place = Place::new();
    let mut text = "t,text\n".to_owned();
    for _ in 0..150 {
        text += "2013-01-01,x\n";
    }
    place.write("wide.csv", text + "2013-01-02," + &"x".repeat(1_100_000) + "\n");
    let message = place
        .run("ingest s t wide.csv --time t --batch-rows 100")
        .fails(1);
    assert!(
        message.starts_with(
            "wide.csv: row 51 of those from line 102: the row has more than the 1,048,576 bytes"
        ),
        "{message}"
    );
    assert!(!place.path("s").exists());
}

#[test]
fn a_quote_that_is_left_open() {
    let place = Place::new();
    place.write("open.csv", "t,text\n2013-01-01,a\n2013-01-02,\"b\n2013-01-03,c\n");
    for policy in ["fail", "skip"] {
        let message = place
            .run(&format!("ingest s t open.csv --time t --on-error {policy}"))
            .fails(1);
        assert_eq!(message, "open.csv:3: a quote is left open");
    }
    assert!(!place.path("s").exists());
}

#[test]
fn a_field_that_goes_on_after_its_quotes() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,text\n2013-01-01,\"a \"\"b\"\"\"\n2013-01-02,\"x\"y\n2013-01-03,c\"d\"\n2013-01-04,\"e\" \n",
    );
    let message = place.run("ingest s t a.csv --time t").fails(1);
    assert_eq!(
        message,
        "a.csv:3: a field goes on after its closing quote; a quote within quotes is doubled; --on-error skip \
         leaves such rows out"
    );
    assert!(!place.path("s").exists());
    let told = place.run("ingest s t a.csv --time t --on-error skip").stderr;
    assert!(
        told.contains("2 rows skipped: text after a closing quote"),
        "{told}"
    );
    assert_eq!(
        place.output("query s t --columns text --format json"),
        "{\"text\":\"a \\\"b\\\"\"}\n{\"text\":\"c\\\"d\\\"\"}\n"
    );
    place.write("b.csv", "t,\"te\"xt\n2013-01-01,a\n");
    let message = place.run("ingest s u b.csv --time t").fails(1);
    assert!(message.starts_with("b.csv:1: a field goes on"), "{message}");
}

#[test]
fn a_store_is_not_created_where_a_link_leads_to_nothing() {
    let place = with_store();
    std::os::unix::fs::symlink("nothing", place.path("link")).unwrap();
    let message = place.run("ingest link t good.csv --time t").fails(6);
    assert_eq!(
        message,
        "link is not a bedload store: it is a symbolic link that leads to nothing"
    );
    assert!(place.path("link").is_symlink() && !place.path("nothing").exists());
}

#[test]
fn a_later_row_that_contradicts_the_inferred_type() {
    let place = Place::new();
    let mut text = "t,n\n".to_owned();
    for i in 0..70_000 {
        text += &format!("2013-01-01,{i}\n");
    }
    place.write("late.csv", text + "2013-01-01,many\n");
    let message = place.run("ingest s t late.csv --time t").fails(1);
    assert!(
        message.starts_with("late.csv:70002: `many` in column n is not of type int64"),
        "{message}"
    );
    assert!(message.contains("--schema 'n:"), "{message}");
    place.output("ingest s t late.csv --time t --schema n:utf8");
}

#[test]
fn digits_that_an_inferred_number_would_lose() {
    let place = Place::new();
    let sample = |value| format!("t,v\n{}", format!("1,{value}\n").repeat(65_536));
    for (value, late, kind) in [
        ("0.5", "9007199254740993", "float64"),
        ("0.5", "1e309", "float64"),
        ("1", "00501", "int64"),
        ("1", "+4915112345678", "int64"),
    ] {
        place.write("a.csv", sample(value) + &format!("2,{late}\n"));
        let message = place.run("ingest s t a.csv --time t --time-unit s").fails(1);
        assert!(
            message.starts_with(&format!(
                "a.csv:65538: `{late}` in column v is not of type {kind}"
            )),
            "{message}"
        );
        assert!(message.contains("--schema 'v:…'"), "{message}");
    }
    // A type that was given takes them, except what it cannot hold.
    place.write("b.csv", "t,v,w\n1,00501,9007199254740993\n2,+7,1e39\n");
    place.output("ingest s t b.csv --time t --time-unit s --schema v:int64,w:float64");
    let message = place
        .run("ingest s u b.csv --time t --time-unit s --schema v:int64,w:float32")
        .fails(1);
    assert!(
        message.starts_with("b.csv:3: `1e39` in column w is not of type float32"),
        "{message}"
    );
}

#[test]
fn a_header_of_a_million_columns() {
    let place = Place::new();
    let names: Vec<String> = (0..1_000_000).map(|n| format!("c{n}")).collect();
    let values = ",".repeat(names.len() - 1);
    place.write("wide.csv", format!("{}\n2013-01-01{values}\n", names.join(",")));
    assert_eq!(
        place.run("ingest s t wide.csv --time c0").fails(1),
        "wide.csv: 1000000 columns, and a table has at most 4095: choose some with --columns"
    );
    let message = place.run("ingest s t wide.csv --time t").fails(1);
    assert!(
        message.len() < 1000 && message.ends_with("c49 and 999950 more"),
        "{message}"
    );
    place.output("ingest s t wide.csv --time c0 --columns c0,c999999");
    place.write("wide.csv", ",".repeat(2 << 20));
    assert_eq!(
        place.run("ingest s t wide.csv --time c0").fails(1),
        "wide.csv:1: a record of over 1048576 fields"
    );
}

#[test]
fn rows_that_do_not_fit_the_table() {
    let place = with_store();
    let message_for = |text: &str| {
        place.write("a.csv", text);
        place.run("ingest s t a.csv").fails(1)
    };
    assert_eq!(
        message_for("t\n2013-01-01\n"),
        "a.csv: has no column v, which table t has; with --allow-missing it is null in these rows"
    );
    assert_eq!(
        message_for("t,v,w\n2013-01-01,1,2\n"),
        "a.csv: table t has no column w; leave it out with --columns, or add it to the \
         table with add-columns"
    );
    assert!(message_for("t,v\n2013-01-01,x\n").starts_with("a.csv:2: `x` in column v is not of type int64"));
    // An integer is no time where times are written out.
    let message = message_for("t,v\n2013-01-01,1\n20130101,1\n");
    assert!(
        message.starts_with("a.csv:3: `20130101` in column t is not a time"),
        "{message}"
    );
    assert!(message.contains("--time-unit"), "{message}");
    // In another column of times, the type says what a number means.
    place.write("a.csv", "t,seen\n2013-01-01,2013-01-01T10:00:00Z\n");
    place.output("ingest s other a.csv --time t");
    place.write("a.csv", "t,seen\n2013-01-02,1360344600\n");
    let message = place.run("ingest s other a.csv").fails(1);
    let expected = "a.csv:2: `1360344600` in column seen is not a time; if numbers count units since 1970, give the \
                    type with --schema 'seen:timestamp(s, UTC)'; else";
    assert!(message.starts_with(expected), "{message}");
    place
        .run_with(&[
            "ingest",
            "s",
            "other",
            "a.csv",
            "--schema",
            "seen:timestamp(s, UTC)",
        ])
        .succeeds();
    let rows = place.output("query s other --columns seen --format csv");
    assert!(rows.contains("\n2013-02-08T17:30:00"), "{rows}");
    place.write("a.csv", "t,v\n2013-01-01,1\n");
    assert_eq!(
        place.run("ingest s t a.csv --schema v:float64").fails(1),
        "a.csv: column v is of type float64, but int64 in table t"
    );
    assert_eq!(
        place.run("ingest s t a.csv --time v").fails(1),
        "--time v: the time column of table t is t"
    );
}

#[test]
fn questions_that_do_not_fit_the_table() {
    let place = with_store();
    assert_eq!(
        place.run("query s u").fails(1),
        "the store has no table u; there are: t"
    );
    assert_eq!(
        place.run("info s u").fails(1),
        "the store has no table u; there are: t"
    );
    assert_eq!(
        place.run("query s t --columns v,w").fails(1),
        "table t has no column w; there are: t, v"
    );
    assert!(
        place
            .run("query s t --from soon")
            .fails(1)
            .starts_with("--from: `soon` is not a time")
    );
    assert_eq!(
        place.run("query s t --from 2014-01-01 --to 2013-01-01").fails(1),
        "--from lies after --to"
    );
    assert_eq!(
        place.run("sortedness good.csv --column w").fails(1),
        "good.csv: no column is named w; there are t, v"
    );
}

#[test]
fn a_directory_that_is_no_store() {
    let place = Place::new();
    place.write("a.csv", "t\n2013-01-01\n");
    std::fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/letter.txt", "Dear all");
    for arguments in [
        "query dir t",
        "info dir",
        "verify dir",
        "delete dir t --from @0",
        "ingest dir t a.csv --time t",
    ] {
        assert!(place.run(arguments).fails(6).contains("dir"), "{arguments}");
    }
    for arguments in [
        "query none t",
        "info none",
        "verify none",
        "delete none t --from @0",
    ] {
        assert!(place.run(arguments).fails(6).contains("none"), "{arguments}");
        assert!(!place.path("none").exists(), "{arguments}");
    }
    assert_eq!(place.run("query a.csv t").code, Some(6));
    assert_eq!(place.run("ingest a.csv t a.csv --time t").code, Some(6));
    let left: Vec<_> = std::fs::read_dir(place.path("dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["letter.txt"]);
}

#[test]
fn a_store_of_a_newer_version() {
    let place = with_store();
    let mut data = std::fs::read(place.path("s/data")).unwrap();
    // Both superblocks say which version wrote them, behind eight bytes that say what they are, and
    // end with a checksum.
    for slot in [0, 32 * 1024] {
        let slot = &mut data[slot..slot + 4096];
        let version = u32::from_le_bytes(slot[8..12].try_into().unwrap());
        slot[8..12].copy_from_slice(&(version + 1).to_le_bytes());
        let checksum = crc32c::crc32c(&slot[..4092]);
        slot[4092..].copy_from_slice(&checksum.to_le_bytes());
    }
    place.write("s/data", &data);
    for arguments in [
        "query s t",
        "info s",
        "verify s",
        "delete s t --from @0",
        "ingest s t good.csv",
    ] {
        assert!(place.run(arguments).fails(7).contains("newer"), "{arguments}");
    }
    assert_eq!(std::fs::read(place.path("s/data")).unwrap(), data);
}

#[test]
fn damage_is_found_and_never_taken_for_rows() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(5000));
    place.output("ingest s t a.csv --time t --time-unit s");
    let rows = place.output("query s t --format csv");
    let sound = std::fs::read(place.path("s/data")).unwrap();

    let mut found = 0;
    for at in (0..sound.len()).step_by(4096) {
        let mut damaged = sound.clone();
        damaged[at + 100] ^= 0x10;
        place.write("s/data", &damaged);
        let outcome = place.run("verify s");
        if outcome.code == Some(0) {
            // A page that nothing refers to, or a superblock that an intact one stands in for.
            assert_eq!(place.output("query s t --format csv"), rows, "byte {at}");
            continue;
        }
        let listed = outcome.stdout.lines().count();
        let message = outcome.fails(3);
        assert!(listed > 0 || message.contains("damaged"), "byte {at}: {message}");
        found += 1;
        let answer = place.run("query s t --format csv");
        assert!(
            answer.code == Some(3) || answer.stdout == rows,
            "byte {at}: {}",
            answer.stderr
        );
    }
    assert!(found > 4, "{found}");
}

#[test]
fn what_is_whole_is_salvaged() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(5000));
    place.output("ingest s t a.csv --time t --time-unit s");
    let rows = place.output("query s t --format csv");
    assert_eq!(place.output("salvage s whole"), "t: 5,000 rows\n");
    assert_eq!(place.output("query whole t --format csv"), rows);

    // All that leads to the rows is gone: superblocks, and with them the page map.
    let mut bytes = std::fs::read(place.path("s/data")).unwrap();
    bytes[..65_536].fill(0);
    place.write("s/data", &bytes);
    let listed = place.run("verify s");
    assert!(listed.stdout.lines().count() >= 2, "{}", listed.stdout);
    listed.fails(3);
    let saved = place.run("salvage s saved");
    assert!(saved.stdout.contains("\nt: 5,000 rows"), "{}", saved.stdout);
    assert!(saved.fails(3).contains("copied to saved"));
    assert_eq!(std::fs::read(place.path("s/data")).unwrap(), bytes);
    assert_eq!(place.output("query saved t --format csv"), rows);

    let report = place.run("salvage s again --json");
    let object: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(
        (&object["complete"], &object["tables"][0]["rows"]),
        (&false.into(), &5000.into())
    );
    assert!(place.run("salvage s saved").fails(1).contains("exists already"));
}

#[test]
fn a_store_that_is_in_use() {
    let place = with_store();
    let mut holder = place
        .command("ingest s t - --ack --batch-rows 1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    stdin
        .write_all(b"t,v\n2014-01-01 00:00:00,4\n2014-01-01 00:00:01,5\n")
        .unwrap();
    let mut stdout = BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "acknowledged 1\n");

    for arguments in [
        "delete s t --from @0",
        "ingest s t good.csv",
        "retention s t 30d",
        "rename s t u",
        "add-columns s t x:utf8",
        "rename-column s t v x",
        "drop-column s t v",
        "drop s t",
    ] {
        assert!(place.run(arguments).fails(4).contains('s'), "{arguments}");
    }

    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn a_disk_that_is_full() {
    let place = with_store();
    let before = place.contents("s");
    place.write("big.csv", near_sorted_csv(400_000).replace("t,n", "t,v"));

    // A limit on the size of files stands for a full disk: with its signal ignored, writing fails.
    for (store, blocks) in [("new", 2000), ("s", 2000)] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let output = std::process::Command::new("bash")
            .args([
                "-c",
                &script,
                "bash",
                env!("CARGO_BIN_EXE_bedload"),
                "ingest",
                store,
                "t",
                "big.csv",
            ])
            .args(["--time", "t", "--time-unit", "s", "--batch-rows", "1000"])
            .current_dir(place.path("."))
            .output()
            .unwrap();
        let message = crate::harness::Outcome::from(output).fails(5);
        assert!(!message.contains("could not be put back"), "{message}");
    }
    assert_eq!(place.contents("new"), None);
    assert_eq!(place.contents("s"), before);
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn an_answer_that_cannot_be_written() {
    let place = with_store();
    let message = place.run("query s t --format csv --output none/a.csv").fails(5);
    assert!(message.starts_with("none/a.csv: "), "{message}");
    if std::path::Path::new("/dev/full").exists() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place
            .command("query s t --format csv")
            .stdout(full)
            .output()
            .unwrap();
        let message = crate::harness::Outcome::from(output).fails(5);
        assert_eq!(message, "standard output: no space left on the disk");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_query_quietly() {
    let place = Place::new();
    place.write("big.csv", near_sorted_csv(200_000));
    place.output("ingest s t big.csv --time t --time-unit s");
    for format in ["table", "csv", "json", "parquet"] {
        let mut child = place
            .command(&format!("query s t --format {format}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
    }
}

#[test]
fn gzip_data_of_several_members_and_what_follows_it() {
    let place = Place::new();
    let csv = near_sorted_csv(1000);
    let (head, tail) = csv.split_at(csv.len() / 2);
    place.write_gzip("head.gz", head);
    place.write_gzip("tail.gz", tail);
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    let both = [read("head.gz"), read("tail.gz")].concat();
    place.write("both.csv.gz", &both);
    place.output("ingest s t both.csv.gz --time t --time-unit s");
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 1000);

    for (trailing, message) in [
        ("x", "trailing.gz: 1 byte after the end of the gzip data"),
        (
            "0123456789abcdef",
            "trailing.gz: 16 bytes after the end of the gzip data",
        ),
    ] {
        place.write("trailing.gz", [&both, trailing.as_bytes()].concat());
        let ingest = "ingest n t trailing.gz --time t --time-unit s";
        assert_eq!(place.run(ingest).fails(1), message);
        assert!(!place.path("n").exists());
    }
}

#[test]
fn json_is_not_taken_for_csv() {
    let place = Place::new();
    let text = "[\n  { \"t\": 1 }\n]\n";
    place.write("a.json", text);
    place.write_gzip("a.json.gz", text);
    for file in ["a.json", "a.json.gz"] {
        assert_eq!(
            place.run(&format!("ingest s t {file} --time t")).fails(1),
            format!("{file}: holds a JSON array; write one object a line, as `jq -c '.[]'` does")
        );
    }
    // A header may begin with a brace.
    place.write("odd.csv", "{t},[v]\n2013-01-01,1\n");
    place.output("ingest s t odd.csv --time {t}");
}

#[test]
fn what_a_terminal_would_obey_is_escaped() {
    let place = Place::new();
    // An override of the direction, an isolate, a control of two bytes (CSI), and a mark.
    let name = "v\u{202e}\u{2066}\u{9b}2J\u{200f}";
    let shown = "v\\u{202e}\\u{2066}\\u{9b}2J\\u{200f}";
    place.write("a.csv", format!("t,{name}\n2013-01-01,{name}\n2013-01-02,\n"));
    place.output("ingest s t a.csv --time t");
    assert!(place.output("info s").contains(shown));
    let answer = place.output("query s t");
    assert_eq!(answer.matches(shown).count(), 2, "{answer}");
    assert!(place.run("query s t --columns w").fails(1).contains(shown));
    let json = place.output("info s --json");
    assert!(!json.contains('\u{202e}'));
    let info: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(info["tables"][0]["columns"][1]["name"], name);
    // Data is data.
    assert!(place.output("query s t --format csv").contains(name));
    let file = format!("{name}.csv");
    let missing = place.run_with(&["ingest", "s", "t", &file]).fails(1);
    assert_eq!(missing, format!("{shown}.csv: no such file"));
    place.write("b.csv", format!("t,{name}\n{name},1\n"));
    let skipped = place.run("ingest s t b.csv --on-error skip");
    assert!(skipped.stderr.contains(shown), "{}", skipped.stderr);
}

#[test]
fn numbers_of_errors_of_the_system_are_not_shown() {
    let place = with_store();
    place.write("file", "");
    std::fs::create_dir(place.path("hollow")).unwrap();
    std::fs::create_dir(place.path("hollow/data")).unwrap();
    for arguments in [
        "info none",
        "info file",
        "info hollow",
        "verify hollow",
        "ingest file/s t good.csv --time t",
        "ingest none/s t good.csv --time t",
        "ingest s t file/good.csv",
        "query s t --output none/a.csv",
        "query s t --output s",
        "backup s none/new",
        "backup s file/new",
        "backup s file",
        "backup none new",
        "salvage s none/new",
        "salvage hollow new",
        "sortedness good.csv --column t --picture none/a.svg",
    ] {
        let outcome = place.run(arguments);
        assert!(outcome.code != Some(0), "{arguments}");
        assert!(
            !outcome.stdout.contains("os error") && !outcome.stderr.contains("os error"),
            "{arguments}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
}

#[test]
fn rows_of_another_width_end_the_run_at_the_first() {
    let place = with_store();
    let wide: String = (0..20_000).map(|row| format!("2026-01-01,{row},\n")).collect();
    place.write("wide.csv", format!("t,v\n{wide}"));
    for table in ["t", "new"] {
        let message = place.run(&format!("ingest s {table} wide.csv --time t")).fails(1);
        assert!(
            message.starts_with("wide.csv:2: 3 fields, where the header has 2"),
            "{message}"
        );
    }
    place.write("both.csv", format!("t,v\n2026-01-01,1\n{wide}2026-01-02,2\n"));
    let report = place.json("ingest s new both.csv --time t --on-error skip --json");
    assert_eq!(report["rows"], 2);
    assert_eq!(report["skipped"]["rows"], 20_000);
    place.write("pretty.json", "{\n  \"t\": \"2026-01-01\"\n}\n");
    let message = place.run("ingest s pretty pretty.json --time t").fails(1);
    assert!(message.starts_with("pretty.json:1:"), "{message}");
}

#[test]
fn rows_without_a_required_value() {
    let place = Place::new();
    let time = DataType::Timestamp(TimeUnit::Second, None);
    let columns = Schema::new(vec![
        Field::new("t", time, false),
        Field::new("v", DataType::Int64, false),
    ]);
    let store = bedload::Store::create(place.path("s")).unwrap();
    let schema = bedload::TableSchema::new(Arc::new(columns), "t").unwrap();
    store.create_table("t", schema).unwrap();
    store.close().unwrap();
    place.write("rows.csv", "t,v\n2026-01-01,1\n2026-01-02,\n2026-01-03,3\n");
    let message = place.run("ingest s t rows.csv").fails(1);
    assert!(
        message.starts_with("rows.csv:3: no value in column v, which must have one"),
        "{message}"
    );
    let report = place.json("ingest s t rows.csv --on-error skip --json");
    assert_eq!(report["rows"], 2);
    place.output("ingest all t rows.csv --time t");
    place.output("query all t --format parquet --output rows.parquet");
    let message = place.run("ingest s t rows.parquet").fails(1);
    assert!(
        message.starts_with("rows.parquet: row 2: no value in column v"),
        "{message}"
    );
    let report = place.json("ingest s t rows.parquet --on-error skip --json");
    assert_eq!(report["rows"], 2);
}
