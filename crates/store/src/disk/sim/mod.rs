//! A disk in memory that loses what a real one may lose.
//!
//! # Fault model
//!
//! - **Holes** are zeros that take space: a file system without sparse files, unless the disk is
//!   told to count zeros as holes. Punched ranges are written with zeros.
//! - **Power loss** keeps what was synced. Each aligned sector of 512 bytes that was written since
//!   is kept or lost by itself, whatever the order of writes; so are changes of a file's length.
//! - **A write that is durable on return** makes nothing durable but itself and the file's length;
//!   until it returns, each of its sectors is kept or lost.
//! - **Names** are entries of their directory: creating, renaming and removing a file survives only
//!   once the directory was synced; since then each such change is kept or lost by itself. A rename
//!   is one change.
//! - **Any call may fail** with an I/O error; one that takes space may find none. A write that
//!   fails may have been done in part.
//! - **A failed sync** tells nothing: each unsynced sector has reached the disk or never will,
//!   later syncs succeed, and reads show the new bytes all the same until the next power loss.
//! - **Bytes may become unreadable** for good: a read that has one of them fails.
//! - **The process may die** without power loss: everything stays but locks.
//!
//! The disk can record what is done to it. [`Replay::image`] makes of any prefix of that record a
//! disk as it may be after power loss at that point; which sectors survive follows from a seed.

mod file;
mod lock;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bedload_testkit::Rng;

use super::{Disk, DiskDir, DiskFile, DiskLock, FileId};
use crate::sync::Mutex;

use file::SimFile;
use lock::{Locked, SimLock};
#[cfg(test)]
pub(crate) use trace::Replay;
use trace::{Event, Inode};
pub(crate) use trace::{Note, Trace};

/// Which call is to fail, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Counted from the first call of the disk.
    pub(crate) call: u64,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The call fails; nothing of it is done.
    Error,
    /// A call that takes space finds none, and so does the sync of a directory; others fail.
    NoSpace,
    /// A write is done in part, a sync has an unknown effect, and the call fails.
    Partial,
    /// The process dies: the call and all after it fail, and nothing of them is done.
    Death,
    /// From this call on the process may open no more files; other calls succeed.
    NoDescriptors,
}

/// A call that reads or writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Something that others do right after an access to a file.
struct Interruption {
    access: Access,
    inode: Inode,
    then: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interruption").finish_non_exhaustive()
    }
}

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    files: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, Inode>,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeMap<PathBuf, String>,
    locked_files: BTreeSet<Inode>,
    /// How many hold the lock of a file that they share.
    shared_files: BTreeMap<Inode, usize>,
    /// The calls so far, if they are recorded.
    record: Option<Vec<Event>>,
    calls: u64,
    /// The length of each prefetch request.
    read_ahead: Vec<u64>,
    fault: Option<Fault>,
    interruption: Option<Interruption>,
    /// Bytes that cannot be read.
    unreadable: Vec<(Inode, Range<u64>)>,
    /// Bytes that all files together may have.
    capacity: u64,
    /// Has a clone in each open file.
    open: Arc<()>,
    /// How many files may be open.
    descriptors: usize,
    /// Whether files report sectors of zeros as taking no space.
    has_holes: bool,
    /// Whether nothing can be created.
    is_read_only: bool,
    rng: Rng,
}

impl SimDisk {
    /// An empty disk.
    pub(crate) fn new(seed: u64) -> Self {
        Self::of_files(Vec::new(), BTreeMap::new(), BTreeSet::from(["/".into()]), seed)
    }

    fn of_files(
        files: Vec<Vec<u8>>,
        names: BTreeMap<PathBuf, Inode>,
        dirs: BTreeSet<PathBuf>,
        seed: u64,
    ) -> Self {
        let state = State {
            files,
            names,
            dirs,
            locked: BTreeMap::new(),
            locked_files: BTreeSet::new(),
            shared_files: BTreeMap::new(),
            record: None,
            calls: 0,
            read_ahead: Vec::new(),
            fault: None,
            interruption: None,
            unreadable: Vec::new(),
            capacity: u64::MAX,
            open: Arc::new(()),
            descriptors: usize::MAX,
            has_holes: false,
            is_read_only: false,
            rng: Rng::new(seed),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a note to the record.
    pub(crate) fn note(&self, note: Note) {
        let mut state = self.state.lock();
        state.did(Event::Note(note));
    }

    /// Begins to record; returns the trace so far, to which [`trace`](Self::trace) adds what is
    /// recorded.
    pub(crate) fn record(&self) -> Trace {
        let mut state = self.state.lock();
        state.record = Some(Vec::new());
        Trace {
            files: state.files.clone(),
            names: state.names.clone(),
            events: Vec::new(),
        }
    }

    /// Returns the calls recorded since the trace was begun.
    pub(crate) fn trace(&self, mut begun: Trace) -> Trace {
        begun.events = self.state.lock().record.clone().unwrap_or_default();
        begun
    }

    /// Another disk with the same files.
    pub(crate) fn copy(&self) -> Self {
        let state = self.state.lock();
        Self::of_files(state.files.clone(), state.names.clone(), state.dirs.clone(), 0)
    }

    /// All files.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.state.lock();
        state
            .names
            .iter()
            .map(|(name, &inode)| (name.clone(), state.files[inode].clone()))
            .collect()
    }

    /// Changes some bits of a byte of a file.
    pub(crate) fn change(&self, name: &Path, at: usize, bits: u8) {
        let mut state = self.state.lock();
        let inode = state.names[name];
        state.files[inode][at] ^= bits;
    }

    /// Lets some bytes of a file fail every read from now on.
    pub(crate) fn spoil(&self, name: &Path, bytes: Range<u64>) {
        let mut state = self.state.lock();
        let inode = state.names[name];
        state.unreadable.push((inode, bytes));
    }

    /// Copies all files to a directory of the operating system, to be looked at.
    pub(crate) fn export(&self, to: &Path) -> io::Result<()> {
        let state = self.state.lock();
        for (name, &inode) in &state.names {
            let target = to.join(name.strip_prefix("/").unwrap_or(name));
            std::fs::create_dir_all(target.parent().unwrap_or(to))?;
            std::fs::write(target, &state.files[inode])?;
        }
        Ok(())
    }

    /// The lengths of the prefetch requests since the last call.
    pub(crate) fn take_read_ahead(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.lock().read_ahead)
    }

    /// The number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Lets one call fail.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().fault = fault;
    }

    /// Does something once, after the next access to a file, on the accessing thread, which still
    /// holds its locks.
    pub(crate) fn interrupt(&self, access: Access, name: &Path, then: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.interruption = Some(Interruption {
            access,
            inode: state.names[name],
            then: Box::new(then),
        });
    }

    fn interrupted(&self, access: Access, inode: Inode) {
        let is_due = |due: &mut Interruption| due.access == access && due.inode == inode;
        let due = self.state.lock().interruption.take_if(is_due);
        if let Some(due) = due {
            (due.then)();
        }
    }

    /// Limits the space.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Limits how many files are open.
    pub(crate) fn set_descriptors(&self, files: usize) {
        self.state.lock().descriptors = files;
    }

    /// How many files are open.
    pub(crate) fn open_files(&self) -> usize {
        self.state.lock().open_files()
    }

    /// Sets whether files report holes where they have zeros.
    pub(crate) fn set_holes(&self, has_holes: bool) {
        self.state.lock().has_holes = has_holes;
    }

    /// Lets nothing be created.
    pub(crate) fn set_read_only(&self, is_read_only: bool) {
        self.state.lock().is_read_only = is_read_only;
    }

    /// Bytes of all files that have a name.
    pub(crate) fn used(&self) -> u64 {
        self.state.lock().used()
    }
}

fn id_of(inode: Inode) -> FileId {
    FileId {
        device: 0,
        inode: inode as u64,
    }
}

fn injected() -> io::Error {
    io::Error::other("injected by the simulated disk")
}

impl State {
    fn did(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.push(event);
        }
    }

    /// Counts a call; the fault that is set for it, if one is.
    fn called(&mut self) -> Option<FaultKind> {
        self.calls += 1;
        let fault = self.fault?;
        if fault.kind == FaultKind::NoDescriptors {
            return None;
        }
        let is_dead = fault.kind == FaultKind::Death && fault.call <= self.calls;
        (is_dead || fault.call == self.calls).then_some(fault.kind)
    }

    fn open_files(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    /// Fails if the process may open no more files.
    fn check_descriptors(&self) -> io::Result<()> {
        let is_due = |fault: Fault| fault.kind == FaultKind::NoDescriptors && fault.call <= self.calls;
        if self.open_files() >= self.descriptors || self.fault.is_some_and(is_due) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(())
    }

    /// Counts a call that takes no space.
    fn call(&mut self) -> io::Result<()> {
        if self.called().is_some() {
            Err(injected())
        } else {
            Ok(())
        }
    }

    /// Counts a call after which `inode` has at least `len` bytes; `Ok(true)` if it is to be done
    /// in part and fail.
    fn call_for_space(&mut self, inode: Option<Inode>, len: u64) -> io::Result<bool> {
        let fault = self.called();
        let has = inode.map_or(0, |inode| self.files[inode].len() as u64);
        if fault == Some(FaultKind::NoSpace) || (len > has && self.used() + (len - has) > self.capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fault {
            Some(FaultKind::Partial) => Ok(true),
            Some(_) => Err(injected()),
            None => Ok(false),
        }
    }

    /// Counts a call that makes something durable, and records what it did.
    fn sync(&mut self, done: Event) -> io::Result<()> {
        match (self.called(), &done) {
            (None, _) => {
                self.did(done);
                Ok(())
            }
            (Some(FaultKind::Death), _) => Err(injected()),
            (Some(_), Event::Sync(inode) | Event::SyncRange(inode, ..)) => {
                self.did(Event::SyncFailed(*inode));
                Err(injected())
            }
            (Some(_), _) => Err(injected()),
        }
    }

    /// Whether one of these bytes of a file cannot be read.
    fn is_unreadable(&self, inode: Inode, bytes: &Range<u64>) -> bool {
        let meets = |lost: &Range<u64>| lost.start < bytes.end && bytes.start < lost.end;
        self.unreadable
            .iter()
            .any(|(of, lost)| *of == inode && meets(lost))
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|&inode| self.files[inode].len() as u64)
            .sum()
    }
}

#[derive(Debug)]
struct SimDir {
    disk: SimDisk,
    path: PathBuf,
}

impl DiskDir for SimDir {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        match state.called() {
            None => {}
            // Some file systems look for space no sooner.
            Some(FaultKind::NoSpace) => return Err(io::ErrorKind::StorageFull.into()),
            Some(_) => return Err(injected()),
        }
        state.did(Event::SyncDir(self.path.clone()));
        Ok(())
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        if state.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if state.dirs.insert(path.into()) {
            Ok(())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.check_descriptors()?;
        if state.call_for_space(None, 0)? {
            return Err(injected());
        }
        if state.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.files.len();
        state.files.push(Vec::new());
        state.names.insert(path.into(), inode);
        state.did(Event::Names(vec![(path.into(), Some(inode))]));
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode,
            _open: state.open.clone(),
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.call()?;
        state.check_descriptors()?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode,
            _open: state.open.clone(),
        }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let state = self.state.lock();
        if state.dirs.contains(path) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Option<FileId>> {
        let mut state = self.state.lock();
        state.call()?;
        Ok(state.names.get(path).copied().map(id_of))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state.lock();
        state.call()?;
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let all = state.names.keys().chain(&state.dirs);
        Ok(all.filter(|name| name.parent() == Some(path)).cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), inode);
        state.did(Event::Names(vec![(from.into(), None), (to.into(), Some(inode))]));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.did(Event::Names(vec![(path.into(), None)]));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.call()?;
        if state
            .names
            .keys()
            .chain(&state.dirs)
            .any(|name| name.parent() == Some(path))
        {
            return Ok(false);
        }
        let removed = state.dirs.remove(path);
        removed.then_some(true).ok_or(io::ErrorKind::NotFound.into())
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        self.state.lock().check_descriptors()?;
        Ok(Box::new(SimDir {
            disk: self.clone(),
            path: path.into(),
        }))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.state.lock();
        state.call()?;
        if state.locked.contains_key(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked.insert(path.into(), holder.into());
        Ok(Box::new(SimLock {
            disk: self.clone(),
            what: Locked::Name(path.into()),
        }))
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.state.lock();
        state.call()?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        if state.shared_files.contains_key(&inode) || !state.locked_files.insert(inode) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            disk: self.clone(),
            what: Locked::File(inode),
        }))
    }

    fn share_file(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.state.lock();
        state.call()?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        if state.locked_files.contains(&inode) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *state.shared_files.entry(inode).or_default() += 1;
        Ok(Box::new(SimLock {
            disk: self.clone(),
            what: Locked::Shared(inode),
        }))
    }

    fn create_locked(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if self.check_dir(path.parent().unwrap_or(path)).is_err() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.create(path)?;
        let mut state = self.state.lock();
        let inode = state.names[path];
        state.locked_files.insert(inode);
        Ok(Box::new(SimLock {
            disk: self.clone(),
            what: Locked::Named(path.into(), inode),
        }))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.call()?;
        let Some(&inode) = state.names.get(path) else {
            return Ok(false);
        };
        let is_locked = state.locked_files.contains(&inode);
        if !is_locked {
            state.names.remove(path);
            state.did(Event::Names(vec![(path.into(), None)]));
        }
        Ok(is_locked)
    }

    fn lock_holder(&self, path: &Path) -> String {
        self.state.lock().locked.get(path).cloned().unwrap_or_default()
    }
}
