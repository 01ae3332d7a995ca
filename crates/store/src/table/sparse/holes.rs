//! Whether the file system has holes. Without them everything works, but the files of a sparse
//! table take space up to their last block of the highest layer.

use std::io;
use std::path::Path;

use super::files::BlockFiles;
use crate::disk::Disk;

/// A file that is written to find it out, and removed.
const PROBE_FILE: &str = "probe";
const PROBE_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    16 << 10
} else {
    1 << 20
};

impl BlockFiles {
    /// Whether files of this store can have holes; assumed if that cannot be found out.
    pub(crate) fn has_holes(&self) -> bool {
        if let Some(&known) = self.has_holes.get() {
            return known;
        }
        let path = self.dir.join(PROBE_FILE);
        match probe(&*self.disk, &path) {
            Ok(has_holes) => {
                if self.has_holes.set(has_holes).is_ok() && !has_holes {
                    tracing::warn!(
                        path = %self.dir.display(),
                        "the file system has no holes: the files of sparse tables take their whole length on it"
                    );
                }
                has_holes
            }
            Err(error) => {
                tracing::debug!(%error, "whether the file system has holes is not known");
                true
            }
        }
    }
}

fn probe(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    let file = match disk.create(path) {
        // A process that died has left it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(path)?,
        created => created?,
    };
    let taken = file
        .truncate(0)
        .and_then(|()| file.write_at(PROBE_BYTES - 1, &[1]))
        .and_then(|()| file.disk_bytes());
    drop(file);
    disk.remove(path)?;
    Ok(taken? <= PROBE_BYTES / 2)
}
