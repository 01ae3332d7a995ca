//! The calls made to a simulated disk, and what a loss of power at any of them leaves.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bedload_testkit::Rng;

use super::SimDisk;

pub(super) const SECTOR_BYTES: usize = 512;

/// Something done to a disk, or noted by a test among what is done.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A directory entry changed: these names now lead to these files, or to none.
    Names(Vec<(PathBuf, Option<Inode>)>),
    /// A directory was synced.
    SyncDir(PathBuf),
    /// Bytes were written to a file.
    Write(Inode, u64, Arc<[u8]>),
    /// A file got another length; what is new is zero.
    SetLen(Inode, u64),
    /// A file was synced.
    Sync(Inode),
    /// A part of a file was synced, and its length.
    SyncRange(Inode, u64, usize),
    /// A file's sync failed.
    SyncFailed(Inode),
    Note(Note),
}

/// A note of a test: an operation of a writer has begun, or its end was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    Begun {
        writer: usize,
    },
    Acknowledged {
        writer: usize,
    },
    /// A recovered store was found to hold this many operations.
    Recovered {
        writer: usize,
        operations: usize,
    },
}

/// Names a file, whatever it is called.
pub(super) type Inode = usize;

/// The calls that a disk recorded, and its contents before them.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(super) files: Vec<Vec<u8>>,
    pub(super) names: BTreeMap<PathBuf, Inode>,
    pub(super) events: Vec<Event>,
}

impl Trace {
    /// The number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// How often a file, or a part of one, was synced.
    pub(crate) fn syncs(&self) -> usize {
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Sync(_) | Event::SyncRange(..)))
            .count()
    }

    /// Bytes that were written.
    pub(crate) fn bytes_written(&self) -> usize {
        let bytes = |event: &Event| match event {
            Event::Write(_, _, bytes) => bytes.len(),
            _ => 0,
        };
        self.events.iter().map(bytes).sum()
    }

    /// Begins before the first event.
    pub(crate) fn replay(&self) -> Replay<'_> {
        let durable = |bytes: &Vec<u8>| Durable {
            bytes: bytes.clone(),
            unsynced: Vec::new(),
        };
        Replay {
            events: self.events.iter(),
            files: self.files.iter().map(durable).collect(),
            names: self.names.clone(),
            unsynced_names: Vec::new(),
        }
    }
}

/// A trace followed event by event: what is on the disk, and what is still on its way there.
#[derive(Debug, Clone)]
pub(crate) struct Replay<'t> {
    events: std::slice::Iter<'t, Event>,
    files: Vec<Durable>,
    names: BTreeMap<PathBuf, Inode>,
    unsynced_names: Vec<&'t [(PathBuf, Option<Inode>)]>,
}

impl Replay<'_> {
    /// Goes past one event; returns it if it is a note. `None` at the end.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Option<Option<Note>> {
        match self.events.next()? {
            Event::Names(changes) => {
                let inodes = changes.iter().filter_map(|(_, inode)| *inode);
                let count = inodes
                    .map(|inode| inode + 1)
                    .max()
                    .unwrap_or(0)
                    .max(self.files.len());
                self.files.resize_with(count, Durable::default);
                self.unsynced_names.push(changes);
            }
            Event::SyncDir(dir) => {
                let names = &mut self.names;
                self.unsynced_names.retain(|changes| {
                    let synced = changes.iter().all(|(name, _)| name.parent() == Some(dir));
                    if synced {
                        apply_names(names, changes);
                    }
                    !synced
                });
            }
            Event::Write(inode, offset, bytes) => {
                self.files[*inode]
                    .unsynced
                    .push(Change::Write(*offset, bytes.clone()));
            }
            Event::SetLen(inode, len) => self.files[*inode].unsynced.push(Change::SetLen(*len)),
            Event::Sync(inode) => self.files[*inode].sync(|| true),
            Event::SyncRange(inode, offset, len) => {
                let from = index(*offset);
                self.files[*inode].sync_range(from..from + len);
            }
            Event::SyncFailed(inode) => self.files[*inode].sync(|| rng.percent(50.0)),
            Event::Note(note) => return Some(Some(*note)),
        }
        Some(None)
    }

    /// The disk as power loss may leave it here.
    pub(crate) fn image(&self, seed: u64) -> SimDisk {
        let mut rng = Rng::new(seed);
        // All and nothing matter as much as mixtures.
        let percent = [0.0, 10.0, 50.0, 90.0, 100.0][rng.index(5)];
        let mut names = self.names.clone();
        for changes in &self.unsynced_names {
            if rng.percent(percent) {
                apply_names(&mut names, changes);
            }
        }
        let files = self.files.iter().cloned().map(|mut file| {
            file.sync(|| rng.percent(percent));
            file.bytes
        });
        let files = files.collect();
        // Directories are made before anything is worth losing; the model does not lose them.
        let dirs = names
            .keys()
            .flat_map(|name| name.ancestors().skip(1))
            .map(Path::to_owned)
            .collect();
        SimDisk::of_files(files, names, dirs, seed)
    }
}

fn apply_names(names: &mut BTreeMap<PathBuf, Inode>, changes: &[(PathBuf, Option<Inode>)]) {
    for (name, inode) in changes {
        match inode {
            Some(inode) => drop(names.insert(name.clone(), *inode)),
            None => drop(names.remove(name)),
        }
    }
}

/// A file as it is on the disk, and what was done to it since it was synced.
#[derive(Debug, Clone, Default)]
struct Durable {
    bytes: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Arc<[u8]>),
    SetLen(u64),
}

impl Durable {
    /// Makes durable what was written to some whole sectors, and the length.
    fn sync_range(&mut self, range: Range<usize>) {
        let (mut synced, mut rest) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut self.unsynced) {
            let Change::Write(offset, bytes) = change else {
                synced.push(change);
                continue;
            };
            let len = bytes.len();
            let begin = range.start.saturating_sub(index(offset)).min(len);
            let end = range.end.saturating_sub(index(offset)).clamp(begin, len);
            for (is_synced, part) in [(false, 0..begin), (true, begin..end), (false, end..len)] {
                let changes = if is_synced { &mut synced } else { &mut rest };
                if !part.is_empty() {
                    changes.push(Change::Write(offset + part.start as u64, bytes[part].into()));
                }
            }
        }
        self.unsynced = synced;
        self.sync(|| true);
        self.unsynced = rest;
    }

    /// Makes changes durable, each sector of each write and each length if `keep` says so.
    fn sync(&mut self, mut keep: impl FnMut() -> bool) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::SetLen(len) => {
                    if keep() {
                        self.bytes.resize(index(len), 0);
                    }
                }
                Change::Write(offset, bytes) => {
                    for sector in sectors(offset, bytes.len()) {
                        if keep() {
                            let at = index(offset) + sector.start;
                            write(&mut self.bytes, at, &bytes[sector]);
                        }
                    }
                }
            }
        }
    }
}

/// The parts of a write of `len` bytes at `offset` that lie in one sector each.
fn sectors(offset: u64, len: usize) -> impl Iterator<Item = Range<usize>> {
    let first = SECTOR_BYTES - index(offset) % SECTOR_BYTES;
    let starts = std::iter::once(0).chain((first..len).step_by(SECTOR_BYTES));
    starts.map(move |start| {
        let end = if start == 0 { first } else { start + SECTOR_BYTES };
        start..end.min(len)
    })
}

pub(super) fn write(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

pub(super) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("simulated files are small")
}
