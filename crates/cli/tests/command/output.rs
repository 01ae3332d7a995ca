//! `--output`: permissions and links of the file that is replaced, and files that are not.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;
use std::thread;

use flate2::read::GzDecoder;

use crate::harness::{Outcome, Place};

const QUERY: &str = "query s t --format csv --output";

fn with_store() -> Place {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    place
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    let place = with_store();
    let path = place.path("out.csv");
    for mode in [0o600, 0o640, 0o400, 0o755] {
        place.write("out.csv", "secret");
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        // Only a privileged process may give a file away.
        let _ = chown(&path, Some(1000), Some(1001));
        let before = fs::metadata(&path).unwrap();
        place.output(&format!("{QUERY} out.csv"));
        let after = fs::metadata(&path).unwrap();
        assert_ne!(before.ino(), after.ino());
        assert_eq!(after.mode() & 0o7777, mode, "{mode:o}");
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        fs::remove_file(&path).unwrap();
    }
    // A new file is like any other.
    place.output(&format!("{QUERY} out.csv"));
    place.write("other", "");
    let mode = |name| fs::metadata(place.path(name)).unwrap().mode();
    assert_eq!(mode("out.csv"), mode("other"));
}

#[test]
fn the_extension_of_a_file_names_its_format() {
    let place = with_store();
    let table = place.output("query s t");
    let formats = [
        ("csv", &b"t,n\n"[..]),
        ("CSV", b"t,n\n"),
        ("json", b"{\"t\":"),
        ("jsonl", b"{\"t\":"),
        ("ndjson", b"{\"t\":"),
        ("parquet", b"PAR1"),
        ("arrow", b"ARROW1"),
        ("feather", b"ARROW1"),
        ("ipc", b"ARROW1"),
        ("arrows", b"\xff\xff\xff\xff"),
        ("txt", table.as_bytes()),
    ];
    for (extension, begin) in formats {
        let name = format!("out.{extension}");
        place.output(&format!("query s t --output {name}"));
        let bytes = fs::read(place.path(&name)).unwrap();
        assert!(bytes.starts_with(begin), "{name}: {bytes:?}");
    }
    place.output("query s t --output out");
    assert_eq!(fs::read(place.path("out")).unwrap(), table.as_bytes());
    // A format that is named counts.
    place.output("query s t --format csv --output named.parquet");
    assert!(
        fs::read(place.path("named.parquet"))
            .unwrap()
            .starts_with(b"t,n\n")
    );
    for name in [
        "out.gz",
        "out.txt.gz",
        "out.parquet.gz",
        "out.csv.zst",
        "out.xlsx",
        "out.tsv",
    ] {
        let message = place.run(&format!("query s t --output {name}")).fails(2);
        assert!(message.contains("name a --format"), "{message}");
        assert!(!place.path(name).exists(), "{name}");
    }
}

#[test]
fn text_in_a_file_named_gz_is_compressed() {
    let place = with_store();
    for (options, name) in [
        ("", "out.csv.gz"),
        ("", "out.CSV.GZ"),
        ("", "out.json.gz"),
        ("", "out.jsonl.gz"),
        ("", "out.ndjson.gz"),
        ("--format csv", "out.gz"),
        ("--format table", "out.txt.gz"),
    ] {
        place.output(&format!("query s t {options} --output {name}"));
        let mut text = String::new();
        let file = fs::File::open(place.path(name)).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let format = match name {
            "out.txt.gz" => "table",
            name if name.contains("js") => "json",
            _ => "csv",
        };
        assert_eq!(
            text,
            place.output(&format!("query s t --format {format}")),
            "{name}"
        );
        if format != "table" {
            place.output(&format!("ingest {format} t {name} --time t --time-unit s"));
        }
    }
    let message = place
        .run("query s t --format parquet --output out.parquet.gz")
        .fails(2);
    assert!(message.ends_with("leave .gz out of its name"), "{message}");

    // A file that cannot be finished leaves the old one.
    symlink("/dev/full", place.path("full.csv.gz")).unwrap();
    let message = place.run("query s t --output full.csv.gz").fails(5);
    assert_eq!(message, "full.csv.gz: no space left on the disk");
    place.output("ingest s t a.csv --schema t:timestamp(s)");
    let line = "ulimit -f 0; trap '' XFSZ; exec $0 query s t --output out.csv.gz";
    let before = fs::read(place.path("out.csv.gz")).unwrap();
    let message = shell(&place, line).fails(5);
    assert_eq!(message, "out.csv.gz: the file would exceed the size limit");
    assert_eq!(fs::read(place.path("out.csv.gz")).unwrap(), before);
    let names = fs::read_dir(place.path("")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains("unfinished")));
}

#[test]
fn a_link_to_nothing_stays_a_link() {
    let place = with_store();
    fs::create_dir(place.path("d")).unwrap();
    symlink("d/second", place.path("first")).unwrap();
    symlink("../out.csv", place.path("d/second")).unwrap();
    place.output(&format!("{QUERY} first"));
    assert!(place.path("first").is_symlink() && place.path("d/second").is_symlink());
    assert_eq!(
        fs::read_to_string(place.path("out.csv")).unwrap(),
        "t,n\n1970-01-01T00:00:01,1\n"
    );

    symlink("self", place.path("self")).unwrap();
    let message = place.run(&format!("{QUERY} self")).fails(5);
    assert!(message.starts_with("self: "), "{message}");
    assert!(place.path("self").is_symlink());
}

/// Runs a line of the shell, in which `$0` is the command.
fn shell(place: &Place, line: &str) -> Outcome {
    let mut shell = Command::new("bash");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_bedload")]);
    shell.current_dir(place.path(".")).output().unwrap().into()
}

#[test]
fn a_file_that_a_descriptor_is_redirected_to_is_not_replaced() {
    let place = with_store();
    let answer = "t,n\n1970-01-01T00:00:01,1\n";
    symlink("/dev/stdout", place.path("link")).unwrap();
    for (output, redirection) in [
        ("/dev/stdout", ">>"),
        ("/dev/fd/1", ">"),
        ("/proc/self/fd/1", ">"),
        ("/proc/thread-self/fd/../../../fd/1", ">"),
        ("link", ">"),
        ("all.csv", ">"),
        ("./all.csv", ">>"),
        ("/dev/stderr", "2>"),
        ("all.csv", "2>>"),
        ("all.csv", "<>"),
        ("/dev/fd/3", "3>"),
        ("/proc/self/fd/17", "17>>"),
    ] {
        let number = redirection.trim_end_matches(['<', '>']);
        let number = if number.is_empty() { "1" } else { number };
        let number = if redirection == "<>" { "0" } else { number };
        place.write("all.csv", "");
        let line = format!(
            "{{ echo before >&{number}; $0 {QUERY} {output}; echo after >&{number}; }} {redirection} all.csv"
        );
        shell(&place, &line).succeeds();
        let all = fs::read_to_string(place.path("all.csv")).unwrap();
        assert_eq!(all, format!("before\n{answer}after\n"), "{line}");
    }
    // Pipes are descriptors, too.
    let line = format!("$0 {QUERY} >(cat) | cat; $0 {QUERY} /dev/fd/3 3>&1 | cat");
    assert_eq!(shell(&place, &line).succeeds(), answer.repeat(2));
    // A file that is only read is like any other.
    shell(&place, &format!("$0 {QUERY} all.csv < all.csv")).succeeds();
    assert_eq!(fs::read_to_string(place.path("all.csv")).unwrap(), answer);
}

#[test]
fn descriptors_of_the_store_are_no_outputs() {
    let place = with_store();
    let before = place.contents("s");
    for number in 3..20 {
        let path = format!("/dev/fd/{number}");
        // The test itself may have inherited some.
        let line = format!("exec {number}>&-; $0 {QUERY} {path}");
        let message = shell(&place, &line).fails(5);
        assert_eq!(message, format!("{path}: bad file descriptor"));
    }
    assert_eq!(place.contents("s"), before);
}

#[test]
fn a_compressed_stream_that_an_error_ends_is_cut_off() {
    let place = Place::new();
    place.write("a.csv", "t,x\n0,1\n9223372036854775806,2\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    let pipe = place.path("pipe.csv.gz");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let read_from = |query: &str| {
        let pipe = pipe.clone();
        let reader = thread::spawn(move || fs::read(pipe).unwrap());
        let outcome = place.run(&format!("{query} --output pipe.csv.gz"));
        let bytes = reader.join().unwrap();
        let mut text = String::new();
        let read = GzDecoder::new(&bytes[..]).read_to_string(&mut text);
        (outcome, read.map(|_| text).map_err(|error| error.kind()))
    };
    let (outcome, text) = read_from("query s t");
    outcome.fails(1);
    assert_eq!(text, Err(ErrorKind::UnexpectedEof));
    let (outcome, text) = read_from("query s t --to 1971");
    outcome.succeeds();
    assert_eq!(text.as_deref(), Ok("t,x\n1970-01-01T00:00:00,1\n"));
}
