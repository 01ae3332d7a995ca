//! Reports that cannot be written: what was done stays, and the error says so.

use std::fs::OpenOptions;

use crate::harness::{Outcome, Place};

/// Runs the command with a standard output that is full.
fn run_unheard(place: &Place, arguments: &str) -> Outcome {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    place.command(arguments).stdout(full).output().unwrap().into()
}

#[test]
fn a_change_is_done_and_said_to_be() {
    for (arguments, done) in [
        ("delete s t --from @2", "the rows are deleted"),
        ("delete s t --from @2 --json", "the rows are deleted"),
        ("retention s t 1s", "the retention is set"),
        ("retention s t 1s --json", "the retention is set"),
        ("rename s t u", "the table is renamed"),
        ("rename s t u --json", "the table is renamed"),
        ("add-columns s t x:utf8", "the columns are added"),
        ("add-columns s t x:utf8 --json", "the columns are added"),
        ("rename-column s t n m", "the column is renamed"),
        ("rename-column s t n m --json", "the column is renamed"),
        ("drop-column s t n", "the column is dropped"),
        ("drop-column s t n --json", "the column is dropped"),
        ("drop s t", "the table is dropped"),
        ("drop s t --json", "the table is dropped"),
        (
            "convert s t u --layout sparse --interval 1s",
            "the new table is complete and stays",
        ),
        (
            "convert s t u --layout sparse --interval 1s --json",
            "the new table is complete and stays",
        ),
        ("backup s copy", "the copy is complete and stays"),
        ("salvage s copy --json", "the copy is complete and stays"),
        ("ingest s t a.csv", "the rows are durable and stay in the table"),
    ] {
        let [heard, unheard] = [(); 2].map(|()| Place::new());
        for place in [&heard, &unheard] {
            place.write("a.csv", "t,n\n1,1\n2,2\n3,3\n");
            place.output("ingest s t a.csv --time t --time-unit s");
        }
        let before = unheard.contents("s");
        heard.output(arguments);
        let message = run_unheard(&unheard, arguments).fails(5);
        assert_eq!(
            message,
            format!("standard output: no space left on the disk; {done}"),
            "{arguments}"
        );
        let log = |place: &Place| place.json("info s --json")["wal_bytes"].clone();
        assert_eq!(log(&unheard), log(&heard), "{arguments}");
        for store in ["s", "copy"] {
            assert_eq!(unheard.contents(store), heard.contents(store), "{arguments}");
        }
        assert!(unheard.contents("s") != before || unheard.path("copy").exists());
    }
}

#[test]
fn a_dry_run_has_done_nothing() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n2,2\n3,3\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    let before = place.contents("s");
    for arguments in [
        "delete s t --from @2",
        "retention s t 1s",
        "drop s t",
        "ingest s t a.csv",
    ] {
        let message = run_unheard(&place, &format!("{arguments} --dry-run")).fails(5);
        assert_eq!(
            message, "standard output: no space left on the disk",
            "{arguments}"
        );
        assert_eq!(place.contents("s"), before);
    }
}
