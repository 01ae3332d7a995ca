//! Sectors that a disk can no longer read: others are read, and the lost ones named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage::{LOST_AT_ONCE, build};
use super::say;
use super::workload::{STORE, Writer, open, open_at, options};
use crate::disk::sim::SimDisk;
use crate::disk::{Disk, SECTOR_BYTES};
use crate::engine::{Problem, SalvageReport, inspect, salvage};

const SAVED: &str = "/saved";
const PAGE: u64 = 4096;
/// Where the pages of the data file begin.
const PAGES: u64 = 64 << 10;

fn data() -> PathBuf {
    Path::new(STORE).join("data")
}

fn is_of(kind: &str) -> impl Fn(&Path) -> bool {
    move |path| path.extension().is_some_and(|found| found == kind)
}

fn salvaged(disk: &SimDisk) -> SalvageReport {
    let disk = Arc::new(disk.clone());
    salvage(disk, Path::new(STORE), Path::new(SAVED)).expect("the rest can be read")
}

/// Salvages a store; how many rows are missing then, and the report.
fn missing(disk: &SimDisk, writers: &[Writer]) -> (usize, SalvageReport) {
    let report = salvaged(disk);
    let store = open_at(disk, Path::new(SAVED), options().create(false)).expect("a new store");
    assert_eq!(store.verify().expect("a new store").problems, []);
    let missing = writers.iter().map(|writer| writer.missing_in(&store));
    (missing.map(|rows| rows.expect("a new store")).sum(), report)
}

#[test]
fn a_sector_costs_a_salvage_no_more_than_what_it_has() {
    let (disk, writers) = build();
    let (mut tried, mut complete, mut in_log) = (0, 0, 0);
    for (name, bytes) in disk.files() {
        let is_log = is_of("log")(&name);
        for at in (0..bytes.len()).step_by(if is_log { SECTOR_BYTES } else { 4096 }) {
            let (spoilt, zeroed) = (disk.copy(), disk.copy());
            let sector = at..bytes.len().min(at + SECTOR_BYTES);
            spoilt.spoil(&name, sector.start as u64..sector.end as u64);
            let (rows, report) = missing(&spoilt, &writers);
            let place = format!("offset {at} of {}", name.display());
            assert!(
                rows < LOST_AT_ONCE,
                "{place}: {rows} rows are missing: {report:?}"
            );
            assert!(rows == 0 || !report.is_complete(), "{place}");
            if is_log {
                // The records around it are found, as they are around any damage.
                let file = zeroed.open(&name).expect("there");
                file.write_at(at as u64, &vec![0; sector.len()])
                    .expect("a sound disk");
                assert_eq!(rows, missing(&zeroed, &writers).0, "{place}: {report:?}");
                in_log += usize::from(rows > 0);
            }
            complete += usize::from(report.is_complete());
            tried += 1;
        }
    }
    say(&format!(
        "{tried} sectors unreadable, one at a time: {complete} stores salvaged as whole"
    ));
    assert!(
        complete < tried && in_log > 4,
        "{in_log} sectors of the log had rows"
    );
}

#[test]
fn blocks_are_known_by_any_that_can_be_read() {
    let (disk, _) = build();
    let rows = |spoils_blocks: bool| -> u64 {
        let disk = disk.copy();
        disk.spoil(&data(), 0..PAGES);
        for (name, _) in disk.files().iter().filter(|(name, _)| is_of("blocks")(name)) {
            disk.spoil(name, 0..u64::from(spoils_blocks));
        }
        salvaged(&disk).tables.iter().map(|table| table.rows).sum()
    };
    let (without, all) = (rows(true), rows(false));
    assert!(without < all, "{without} rows of {all}");
    assert!(without + LOST_AT_ONCE as u64 > all, "{without} rows of {all}");
}

/// The places that problems name in some files.
fn places(problems: &[Problem], of: impl Fn(&Path) -> bool) -> BTreeSet<(PathBuf, u64)> {
    let of_files = problems.iter().filter(|problem| of(&problem.file));
    let place = |problem: &Problem| {
        let (_, offset) = problem.place.split_once("at offset ")?;
        Some((problem.file.clone(), offset.parse().ok()?))
    };
    of_files.filter_map(place).collect()
}

#[test]
fn verify_names_every_page_and_block_that_cannot_be_read() {
    let (disk, _) = build();
    open(&disk, options())
        .expect("opens")
        .close()
        .expect("a sound disk");
    let sound = open(&disk, options()).expect("opens").verify().expect("reads");
    assert_eq!(sound.problems, []);
    let is_data = |path: &Path| path == data();

    let all = disk.copy();
    let store = open(&all, options()).expect("opens");
    let files = all.files().into_iter();
    let blocks: Vec<PathBuf> = files
        .map(|(name, _)| name)
        .filter(|name| is_of("blocks")(name))
        .collect();
    blocks.iter().for_each(|name| all.spoil(name, 0..u64::MAX));
    let report = store.verify().expect("it is in the report");
    assert!(places(&report.problems, is_data).is_empty());
    let blocks = places(&report.problems, is_of("blocks"));
    assert!(sound.blocks > 0);
    assert_eq!(blocks.len() as u64, sound.blocks);
    all.spoil(&data(), PAGES..u64::MAX);
    let report = store.verify().expect("it is in the report");
    let pages = places(&report.problems, is_data);
    assert_eq!(report.pages, sound.pages);
    assert!(
        pages.len() as u64 > sound.pages,
        "{} pages of trees, map and catalogue are named, there are {}",
        pages.len(),
        sound.pages
    );
    drop(store);

    let pages: Vec<(PathBuf, u64)> = pages.into_iter().collect();
    for pair in pages.windows(2) {
        let spoilt = disk.copy();
        let store = open(&spoilt, options()).expect("opens");
        pair.iter()
            .for_each(|(name, at)| spoilt.spoil(name, *at..at + PAGE));
        let expected = BTreeSet::from_iter(pair.iter().cloned());
        let report = store.verify().expect("it is in the report");
        assert_eq!(places(&report.problems, is_data), expected);
        assert_eq!(report.pages, sound.pages, "the others are read");
        drop(store);
        let shared: Arc<dyn Disk> = Arc::new(spoilt);
        let problems = inspect(&shared, Path::new(STORE)).expect("it is in the list");
        assert!(places(&problems, is_data).is_superset(&expected), "{problems:?}");
    }
}
