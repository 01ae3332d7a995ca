//! `--output`: permissions and links of the file that is replaced.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use crate::harness::Place;

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
    for name in ["out.csv.gz", "out.xlsx", "out.tsv"] {
        let message = place.run(&format!("query s t --output {name}")).fails(2);
        assert!(message.contains("name a --format"), "{message}");
        assert!(!place.path(name).exists(), "{name}");
    }
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
