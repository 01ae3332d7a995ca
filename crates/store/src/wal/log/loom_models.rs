//! Writes beside a sync, on a simulated disk. Run with `make loom`.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::disk::sim::{SimDisk, Trace};
use crate::rows::TableId;
use crate::sync::explore;

/// A log, and what was done to its disk since it began.
struct Recorded {
    log: Log,
    disk: SimDisk,
    begun: Trace,
}

const STORE_ID: [u8; 16] = [7; 16];

impl Recorded {
    fn new() -> Arc<Self> {
        let disk = SimDisk::new(1);
        let begun = disk.record();
        disk.create_dir(dir()).expect("a sound disk");
        Log::create(&disk, dir(), STORE_ID).expect("a sound disk");
        let disk_of_log = std::sync::Arc::new(disk.clone());
        let log = Log::begin(disk_of_log, dir().into(), STORE_ID, 0).expect("a sound disk");
        Arc::new(Self { log, disk, begun })
    }

    fn append(&self) -> u64 {
        self.log.append(&[3]).expect("a sound disk")
    }

    /// Appends a record that goes on into a second block.
    fn append_long(&self) -> u64 {
        let head = Record::append_head(TableId(1), 0);
        let appended = self.log.append_naming(&[&head, &[0; BLOCK_BYTES]], None);
        appended.expect("a sound disk")
    }

    /// Records up to `end` survive the process once they are written.
    fn write(&self, end: u64) {
        self.log.write_to(end).expect("a sound disk");
        assert!(position(&self.disk) >= end, "written up to {end}");
    }

    /// Records up to `end` survive power loss once they are synced.
    fn sync(&self, end: u64) {
        self.log.sync_to(end).expect("a sound disk");
        self.check_durable(end);
    }

    /// The same after a pause, in which others may write.
    fn sync_later(&self, end: u64) {
        let synced = self.log.sync_paced(end, Duration::from_nanos(1));
        synced.expect("a sound disk");
        self.check_durable(end);
    }

    fn check_durable(&self, end: u64) {
        let trace = self.disk.trace(self.begun.clone());
        let mut replayed = trace.replay();
        let mut rng = bedload_testkit::Rng::new(1);
        while replayed.step(&mut rng).is_some() {}
        for seed in 0..8 {
            assert!(position(&replayed.image(seed)) >= end, "durable up to {end}");
        }
    }
}

fn dir() -> &'static Path {
    Path::new("/log")
}

/// Up to where recovery reads the log.
fn position(disk: &SimDisk) -> u64 {
    let found = replay(disk, dir(), STORE_ID, 0..u64::MAX, |_, _, _| Ok(true));
    found.expect("it is whole").position
}

/// Runs `acts` beside each other, the last one in the model's own thread.
fn beside<const N: usize>(recorded: &Arc<Recorded>, acts: [fn(&Recorded); N], own: fn(&Recorded)) {
    let threads = acts.map(|act| {
        let recorded = recorded.clone();
        thread::spawn(move || act(&recorded))
    });
    own(recorded);
    for thread in threads {
        thread.join().expect("its records are kept");
    }
}

#[test]
fn loom_commits_that_share_a_sync_are_durable() {
    explore(3, || {
        let recorded = Recorded::new();
        let commit: fn(&Recorded) = |recorded| recorded.sync(recorded.append());
        beside(&recorded, [commit; 2], commit);
        let state = recorded.log.state.lock();
        assert!(!state.writing && !state.syncing && state.synced == state.end);
    });
}

/// The block that is not full is written again while a sync of the records before is under way.
#[test]
fn loom_records_written_beside_a_sync_are_kept() {
    explore(3, || {
        let recorded = Recorded::new();
        beside(
            &recorded,
            [
                |recorded: &Recorded| recorded.sync_later(recorded.append()),
                |recorded| recorded.write(recorded.append()),
            ],
            |recorded| recorded.write(recorded.append_long()),
        );
        recorded.sync(recorded.log.end());
    });
}

/// No thread appends while the log goes on in a new segment, but earlier records may be on their
/// way.
#[test]
fn loom_a_segment_ends_with_all_its_records_durable() {
    explore(3, || {
        let recorded = Recorded::new();
        let end = recorded.append();
        beside(
            &recorded,
            [
                |recorded: &Recorded| recorded.sync(recorded.log.end()),
                |recorded| recorded.write(recorded.log.end()),
            ],
            |recorded| {
                let end = recorded.log.rotate().expect("a sound disk");
                recorded.check_durable(end);
                recorded.sync(recorded.append());
            },
        );
        assert!(recorded.log.end() > end);
    });
}
