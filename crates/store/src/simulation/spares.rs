//! Segments of the log that become spares, and what is read when the superblock after them is lost
//! as well.

use std::path::Path;
use std::sync::Arc;

use bedload_testkit::Rng;

use super::power::each_event;
use super::workload::{STORE, WRITERS, Writer, create_tables, open, open_at, options};
use crate::disk::Disk;
use crate::disk::sim::{Note, SimDisk, Trace};
use crate::engine::salvage;
use crate::error::{Error, Result};
use crate::pages::{PageFile, Superblock};
use crate::store::Store;

/// Operations of each writer.
const OPERATIONS: usize = 10;

/// Writers in turn, with a flush after every third operation: segments are written over again and
/// again.
fn trace() -> (Trace, Vec<Writer>) {
    let disk = SimDisk::new(1);
    let begun = disk.record();
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, OPERATIONS, 4))
        .collect();
    let store = open(&disk, options()).expect("creates");
    create_tables(&store).expect("fresh tables");
    for operation in 0..OPERATIONS * WRITERS {
        let writer = operation % WRITERS;
        disk.note(Note::Begun { writer });
        writers[writer].step(&store).expect("a sound disk");
        disk.note(Note::Acknowledged { writer });
        if operation % 3 == 0 {
            store.flush().expect("a sound disk");
        }
    }
    drop(store);
    (disk.trace(begun), writers)
}

/// Damages the superblock that counts; none if there is no other.
fn lose_superblock(disk: &SimDisk) -> Option<()> {
    let data = Path::new(STORE).join("data");
    let file = disk.open(&data).ok()?;
    let (superblock, damage) = PageFile::read_superblock(&data, &*file).ok()?;
    let at = usize::try_from(Superblock::offset(superblock.checkpoint)).expect("small");
    (superblock.checkpoint > 1 && damage.is_none()).then(|| disk.change(&data, at + 20, 0x10))
}

/// Returns the number of operations that lead to the contents of each table.
fn operations_in(store: Result<Store>, writers: &[Writer]) -> Result<Vec<Vec<usize>>> {
    let store = store?;
    writers
        .iter()
        .map(|writer| writer.operations_in(&store))
        .collect()
}

#[test]
fn what_stands_before_a_lost_superblock_is_right_or_told() {
    let (trace, writers) = trace();
    let (mut told, mut right, mut complete, mut spares) = (0, 0, 0, 0);
    let mut rng = Rng::new(1);
    each_event(&trace, 1, |event, replay, progress| {
        let image = replay.image(rng.next_u64());
        spares += image
            .files()
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|found| found == "spare"))
            .count();
        if lose_superblock(&image).is_none() || progress.begun.contains(&0) {
            return;
        }
        let is_right = |held: &[Vec<usize>]| {
            (0..WRITERS).all(|writer| {
                let may_be = progress.acknowledged[writer]..=progress.begun[writer];
                held[writer].iter().any(|held| may_be.contains(held))
            })
        };
        let (source, saved) = (image.copy(), Path::new("/saved"));
        match operations_in(open(&image, options()), &writers) {
            Ok(held) => {
                assert!(is_right(&held), "event {event}: {held:?}, {progress:?}");
                right += 1;
            }
            Err(Error::Corrupt { .. } | Error::Index(_)) => told += 1,
            Err(error) => panic!("event {event}: {error}"),
        }
        let report = salvage(Arc::new(source.clone()), Path::new(STORE), saved);
        if report.is_ok_and(|report| report.is_complete()) {
            let held = operations_in(open_at(&source, saved, options()), &writers).expect("a new store");
            assert!(is_right(&held), "event {event}, salvaged: {held:?}, {progress:?}");
            complete += 1;
        }
    });
    assert!(
        told > 10 && right > 10 && complete > 10 && spares > 10,
        "{told} told, {right} right, {complete} salvaged as complete, {spares} spares"
    );
}
