//! Segments: the files of the log. Each begins where the one before ends and is named after that
//! position.

use std::io;
use std::path::{Path, PathBuf};

use super::buffer::Buffer;
use crate::codec::{Reader, Writer};
use crate::disk::{BLOCK_BYTES, Disk, DiskFile, FileId};
use crate::error::{Error, Result};
use crate::pages::FORMAT_VERSION;

/// Bytes of a segment's header; the record at the segment's first position follows it.
pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"bedlog\n\0";
const EXTENSION: &str = "log";
/// Extension of segments that are no longer needed and are kept to be written over.
const SPARE_EXTENSION: &str = "spare";

/// One file of the log, open.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    /// The position in the log at which the segment begins.
    pub(super) start: u64,
    pub(super) id: FileId,
}

/// A segment that is no longer needed.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) id: FileId,
}

impl Spare {
    /// Opens the file, if it is still the one that became a spare.
    pub(super) fn open(&self, disk: &dyn Disk) -> Result<Box<dyn DiskFile>> {
        let io = |action| move |source| Error::io(&self.path, action, source);
        let file = disk.open(&self.path).map_err(io("open"))?;
        if file.identity().map_err(io("read"))? != self.id {
            let path = self.path.clone();
            return Err(Error::Replaced { path });
        }
        Ok(file)
    }
}

/// The header of a segment.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) store_id: [u8; 16],
    /// The position in the log at which the segment begins.
    pub(super) start: u64,
}

impl Header {
    /// The header in the first bytes of a segment.
    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |reason: &str| Error::corrupt(path, "the header", reason);
        let header: &[u8; SEGMENT_HEADER_BYTES] =
            bytes.first_chunk().ok_or_else(|| damaged("it is cut short"))?;
        let mut fields = Reader::new(header);
        let mut decode = || {
            Some((
                fields.array::<8>()?,
                fields.u32()?,
                fields.u32()?,
                fields.array()?,
                fields.u64()?,
            ))
        };
        let (magic, version, _, store_id, start) = decode().ok_or_else(|| damaged("it is cut short"))?;
        if magic != MAGIC {
            return Err(damaged("it does not begin as one of a log segment"));
        }
        let (body, stored) = header.split_at(SEGMENT_HEADER_BYTES - 4);
        if crc32c::crc32c(body).to_le_bytes() != stored {
            return Err(damaged("its checksum does not match"));
        }
        if version > FORMAT_VERSION {
            return Err(Error::NewerFormat {
                path: path.into(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        Ok(Self { store_id, start })
    }
}

impl Segment {
    /// Creates the segment that begins at `start`, durably; from a spare, if there is one.
    ///
    /// The bytes of a spare are never taken for records of the segment: records name their
    /// positions, and a record of an earlier segment stands where another position is due.
    ///
    /// # Errors
    ///
    /// The disk is full or fails. With [`Error::NoSpace`] nothing of the segment is left.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        store_id: [u8; 16],
        start: u64,
        spare: Option<(&Spare, Box<dyn DiskFile>)>,
    ) -> Result<Self> {
        let path = path_of(dir, start);
        let io = |action| {
            let path = path.clone();
            move |source| Error::io(&path, action, source)
        };
        let mut header = Buffer::of(&header(store_id, start));
        // Once there is a file, nothing may fail for want of a descriptor.
        let names = disk
            .open_dir(dir)
            .map_err(|source| Error::io(dir, "open", source))?;
        let mut begun = None;
        let create = || -> Result<Box<dyn DiskFile>> {
            let file = match spare {
                Some((Spare { path: spare, id }, file)) => {
                    begun = Some(*id);
                    // Until it has its name it is nothing, so the header may say what it will be.
                    header.pad(0, BLOCK_BYTES);
                    file.write_durably(0, &header).map_err(io("write"))?;
                    disk.rename(spare, &path).map_err(io("rename a file to"))?;
                    file
                }
                None => {
                    let file = disk.create(&path).map_err(io("create"))?;
                    // A failure leaves the file, so it is none of a read.
                    begun = Some(file.identity().map_err(io("create"))?);
                    file.write_at(0, &header).map_err(io("write"))?;
                    file.sync().map_err(io("sync"))?;
                    file
                }
            };
            names.sync().map_err(io("sync the directory of"))?;
            Ok(file)
        };
        let created = create();
        match (created, begun) {
            (Ok(file), Some(id)) => Ok(Self {
                path,
                file,
                start,
                id,
            }),
            (Ok(_), None) => unreachable!("what was created was begun"),
            (Err(error), None) => Err(error),
            (Err(error), Some(id)) => {
                remove_own(disk, &path, id)?;
                names.sync().map_err(|source| Error::io(dir, "sync", source))?;
                Err(error)
            }
        }
    }

    /// As [`create`](Self::create), at the beginning of the log, where a process that died may have
    /// left a segment of this name: that holds no record, as its first would stand at `start`,
    /// where the log ends.
    pub(super) fn create_first(disk: &dyn Disk, dir: &Path, store_id: [u8; 16], start: u64) -> Result<Self> {
        let path = path_of(dir, start);
        let io = |action| {
            let path = path.clone();
            move |source| Error::io(&path, action, source)
        };
        let file = match disk.open(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Self::create(disk, dir, store_id, start, None);
            }
            opened => opened.map_err(io("open"))?,
        };
        file.truncate(0).map_err(io("truncate"))?;
        // A segment that a failure here leaves has no record: it is begun again, or skipped by
        // recovery.
        file.write_at(0, &header(store_id, start)).map_err(io("write"))?;
        file.sync().map_err(io("sync"))?;
        disk.sync_dir(dir).map_err(io("sync the directory of"))?;
        let id = file.identity().map_err(io("read"))?;
        Ok(Self {
            path,
            file,
            start,
            id,
        })
    }

    /// Makes a spare of the segment at `path`, if that is still the file `id`. The name is to be
    /// made durable before it is used.
    pub(super) fn make_spare(disk: &dyn Disk, path: &Path, id: FileId) -> Result<Spare> {
        let found = disk
            .identity(path)
            .map_err(|source| Error::io(path, "read", source))?;
        if found != Some(id) {
            return Err(Error::Replaced { path: path.into() });
        }
        let spare = path.with_extension(SPARE_EXTENSION);
        disk.rename(path, &spare)
            .map_err(|source| Error::io(path, "rename", source))?;
        Ok(Spare { path: spare, id })
    }

    /// Whether anything follows the header of the segment at `path`.
    pub(super) fn has_records(disk: &dyn Disk, path: &Path) -> Result<bool> {
        let file = disk
            .open(path)
            .map_err(|source| Error::io(path, "open", source))?;
        let len = file.len().map_err(|source| Error::io(path, "read", source))?;
        Ok(len > SEGMENT_HEADER_BYTES as u64)
    }

    /// Opens a segment and checks its header. `None` if the file is too short to have one, or has
    /// zeros in its place ([`open_segment`](super::reader::open_segment)).
    pub(super) fn open(disk: &dyn Disk, path: &Path, store_id: [u8; 16]) -> Result<Option<Self>> {
        let file = disk
            .open(path)
            .map_err(|source| Error::io(path, "open", source))?;
        let mut header = [0; SEGMENT_HEADER_BYTES];
        if file.len().map_err(|source| Error::io(path, "read", source))? < SEGMENT_HEADER_BYTES as u64 {
            return Ok(None);
        }
        file.read_at(0, &mut header)
            .map_err(|source| Error::io(path, "read", source))?;
        if header == [0; SEGMENT_HEADER_BYTES] {
            return Ok(None);
        }
        let header = Header::decode(path, &header)?;
        if header.store_id != store_id {
            return Err(Error::corrupt(
                path,
                "the header",
                "the segment belongs to another store",
            ));
        }
        let id = file
            .identity()
            .map_err(|source| Error::io(path, "read", source))?;
        Ok(Some(Self {
            path: path.into(),
            file,
            start: header.start,
            id,
        }))
    }

    /// Where in the file the record at `position` stands.
    pub(super) fn offset(&self, position: u64) -> u64 {
        SEGMENT_HEADER_BYTES as u64 + (position - self.start)
    }
}

/// The header of the segment that begins at `start`.
pub(super) fn header(store_id: [u8; 16], start: u64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut out = Writer::with_capacity(SEGMENT_HEADER_BYTES);
    out.bytes(&MAGIC);
    out.u32(FORMAT_VERSION);
    out.u32(0);
    out.bytes(&store_id);
    out.u64(start);
    let mut header = [0; SEGMENT_HEADER_BYTES];
    let out = out.into_bytes();
    header[..out.len()].copy_from_slice(&out);
    let (body, crc) = header.split_at_mut(SEGMENT_HEADER_BYTES - 4);
    crc.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    header
}

/// Removes a file, if it is still the one of this identity. One that is gone already is no failure.
pub(super) fn remove_own(disk: &dyn Disk, path: &Path, id: FileId) -> Result<()> {
    let io = |source| Error::io(path, "remove", source);
    match disk.identity(path).map_err(io)? {
        Some(found) if found == id => disk.remove(path).map_err(io),
        Some(_) => Err(Error::Replaced { path: path.into() }),
        None => Ok(()),
    }
}

fn path_of(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("{start:016x}.{EXTENSION}"))
}

/// The segments of the log in `dir` by the position at which each begins, ascending.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    list_named(disk, dir, EXTENSION)
}

/// As [`list`], for the log of a store that exists: without its directory, there are no segments.
pub(super) fn list_of_store(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let is_missing = |error: &Error| match error {
        Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    match list(disk, dir) {
        // If the store is gone as well, that is another matter: it may have been moved.
        Err(error)
            if is_missing(&error) && dir.parent().is_some_and(|store| disk.check_dir(store).is_ok()) =>
        {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// The spare segments in `dir` by the position at which each began.
pub(super) fn list_spares(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    list_named(disk, dir, SPARE_EXTENSION)
}

fn list_named(disk: &dyn Disk, dir: &Path, extension: &str) -> Result<Vec<(u64, PathBuf)>> {
    let paths = disk.list(dir).map_err(|source| Error::io(dir, "list", source))?;
    let start_of = |path: &Path| {
        let name = path.file_stem()?.to_str()?;
        (path.extension()? == extension && name.len() == 16).then(|| u64::from_str_radix(name, 16).ok())?
    };
    let mut segments: Vec<_> = paths
        .into_iter()
        .filter_map(|path| Some((start_of(&path)?, path)))
        .collect();
    segments.sort_unstable();
    Ok(segments)
}
