//! A file of a simulated disk.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::super::{BLOCK_BYTES, DiskFile, FileId};
use super::trace::{Event, Inode, SECTOR_BYTES, index, write};
use super::{Access, SimDisk, id_of, injected};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) inode: Inode,
    /// Counts it as open.
    pub(super) _open: Arc<()>,
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.call()?;
        if state.is_unreadable(self.inode, &(offset..offset + buffer.len() as u64)) {
            return Err(injected());
        }
        let bytes = state.files[self.inode].get(index(offset)..).unwrap_or_default();
        let bytes = bytes.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        drop(state);
        self.disk.interrupted(Access::Read, self.inode);
        Ok(())
    }

    fn read_ahead(&self, _offset: u64, len: u64) {
        self.disk.state.lock().read_ahead.push(len);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut locked = self.disk.state.lock();
        let state = &mut *locked;
        let in_part = state.call_for_space(Some(self.inode), offset + bytes.len() as u64)?;
        let done = if in_part {
            &bytes[..state.rng.index(bytes.len() + 1)]
        } else {
            bytes
        };
        write(&mut state.files[self.inode], index(offset), done);
        state.did(Event::Write(self.inode, offset, done.into()));
        if in_part {
            return Err(injected());
        }
        drop(locked);
        self.disk.interrupted(Access::Write, self.inode);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        if state.call_for_space(Some(self.inode), len)? {
            return Err(injected());
        }
        if (state.files[self.inode].len() as u64) < len {
            state.files[self.inode].resize(index(len), 0);
            state.did(Event::SetLen(self.inode, len));
        }
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        let mut state = self.disk.state.lock();
        let state = &mut *state;
        state.call()?;
        let file = &mut state.files[self.inode];
        let from = index(offset).min(file.len());
        let to = index(offset + len).min(file.len());
        file[from..to].fill(0);
        let zeros = vec![0; to - from].into();
        state.did(Event::Write(self.inode, from as u64, zeros));
        Ok(true)
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        let len = self.len()?;
        let state = self.disk.state.lock();
        if !state.has_holes {
            return Ok(len);
        }
        let sectors = state.files[self.inode].chunks(SECTOR_BYTES);
        let written = sectors.filter(|sector| sector.iter().any(|&byte| byte != 0));
        Ok((written.count() * SECTOR_BYTES) as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.call()?;
        state.files[self.inode].resize(index(len), 0);
        state.did(Event::SetLen(self.inode, len));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state.lock();
        state.call()?;
        Ok(state.files[self.inode].len() as u64)
    }

    fn identity(&self) -> io::Result<FileId> {
        self.disk.state.lock().call()?;
        Ok(id_of(self.inode))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let state = self.disk.state.lock();
        let file = &state.files[self.inode];
        let left = file.get(index(offset)..).unwrap_or_default();
        let first = left.iter().position(|&byte| byte != 0);
        Ok(first.map(|first| offset + first as u64..file.len() as u64))
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(index(offset).is_multiple_of(BLOCK_BYTES) && bytes.len().is_multiple_of(BLOCK_BYTES));
        self.write_at(offset, bytes)?;
        let mut state = self.disk.state.lock();
        state.sync(Event::SyncRange(self.inode, offset, bytes.len()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.sync(Event::Sync(self.inode))
    }
}
