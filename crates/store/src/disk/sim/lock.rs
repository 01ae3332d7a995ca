//! A lock that a simulated disk's process holds until it is dropped.

use std::path::PathBuf;

use super::super::DiskLock;
use super::SimDisk;
use super::trace::{Event, Inode};

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) what: Locked,
}

#[derive(Debug)]
pub(super) enum Locked {
    Name(PathBuf),
    File(Inode),
    Shared(Inode),
    /// The file goes with the lock.
    Named(PathBuf, Inode),
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        match &self.what {
            Locked::Name(path) => drop(state.locked.remove(path)),
            Locked::File(inode) => drop(state.locked_files.remove(inode)),
            Locked::Shared(inode) => {
                let holders = state.shared_files.remove(inode).unwrap_or(1) - 1;
                if holders > 0 {
                    state.shared_files.insert(*inode, holders);
                }
            }
            Locked::Named(path, inode) => {
                state.locked_files.remove(inode);
                if state.names.get(path) == Some(inode) {
                    state.names.remove(path);
                    state.did(Event::Names(vec![(path.clone(), None)]));
                }
            }
        }
    }
}
