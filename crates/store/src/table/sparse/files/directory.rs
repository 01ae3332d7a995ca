//! The directories of sparse tables: which files there are, how long, and which go.

use std::io;
use std::path::{Path, PathBuf};

use super::{BlockFiles, EXTENSION};
use crate::error::{Error, Result};

impl BlockFiles {
    /// Removes files that the catalogue does not have, and directories of tables that are empty
    /// then; `is_live(table, file)` says which files it has. Called before anything is read or
    /// written.
    pub(crate) fn remove_unknown(&self, is_live: impl Fn(u32, i64) -> bool) -> Result<()> {
        for (table, dir) in self.list_tables()? {
            let mut is_empty = true;
            for (file, path) in self.list_files(&dir)? {
                if is_live(table, file) {
                    is_empty = false;
                    continue;
                }
                self.disk
                    .remove(&path)
                    .map_err(|source| Error::io(&path, "remove", source))?;
                // Recovery may have opened it: another file is going to have its name.
                self.open.lock().files.remove(&(table, file));
            }
            if is_empty {
                self.remove_dir(table);
            }
        }
        Ok(())
    }

    /// Removes the directory of a table if there is nothing in it. The next file of the table
    /// creates it again.
    pub(super) fn remove_dir(&self, table: u32) {
        let dir = self.table_dir(table);
        // A file is created under this lock, and finds its directory or creates it.
        let _creating = self.creating.lock();
        match self.disk.remove_dir(&dir) {
            Ok(false) => return,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, path = %dir.display(), "an empty directory stays");
            }
            Ok(true) | Err(_) => {}
        }
        let mut open = self.open.lock();
        open.dirs.remove(&table);
        open.synced.remove(&table);
    }

    /// Removes all files, and the directories that are empty then.
    pub(crate) fn remove_all(&self) -> Result<()> {
        self.remove_unknown(|_, _| false)?;
        let tables = self.list_tables()?.into_iter().map(|(_, dir)| dir);
        for dir in tables.chain([self.dir.clone()]) {
            match self.disk.remove_dir(&dir) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(&dir, "remove", source));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The directories of tables that there are.
    pub(in super::super) fn list_tables(&self) -> Result<Vec<(u32, PathBuf)>> {
        let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
        let entries = self.list(&self.dir)?.into_iter();
        Ok(entries.filter_map(|path| Some((number(&path)?, path))).collect())
    }

    /// The files in the directory of a table, in the order of their blocks.
    pub(in super::super) fn list_files(&self, dir: &Path) -> Result<Vec<(i64, PathBuf)>> {
        let number = |path: &Path| {
            let name = path.file_stem()?.to_str()?;
            let is_ours = path.extension()? == EXTENSION && name.len() == 16;
            let number = is_ours.then(|| u64::from_str_radix(name, 16).ok())??;
            Some((number ^ (1 << 63)).cast_signed())
        };
        let entries = self.list(dir)?.into_iter();
        let mut files: Vec<_> = entries.filter_map(|path| Some((number(&path)?, path))).collect();
        files.sort_unstable();
        Ok(files)
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        match self.disk.list(dir) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|source| Error::io(dir, "read", source)),
        }
    }

    /// The numbers of the files of a table that are there.
    pub(in super::super) fn files_of(&self, table: u32) -> Result<Vec<i64>> {
        let files = self.list_files(&self.table_dir(table))?;
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }

    /// Bytes that the files of a table take on the disk. A file may be removed meanwhile, as no
    /// view needs to have it: so it is not kept open.
    pub(crate) fn disk_bytes(&self, table: u32) -> Result<u64> {
        let mut bytes = 0;
        for (_, path) in self.list_files(&self.table_dir(table))? {
            match self.disk.open(&path).and_then(|file| file.disk_bytes()) {
                Ok(of_file) => bytes += of_file,
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::io(&path, "read", source)),
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;
    use crate::pages::Cache;

    #[test]
    fn a_file_that_is_counted_is_not_kept_open() {
        let disk = Arc::new(SimDisk::new(1));
        let store = Path::new("/store");
        disk.create_dir(store).expect("a sound disk");
        let open = || BlockFiles::new(disk.clone(), store, [0; 16], Arc::new(Cache::new(0, 0)), 1);
        open().open_or_create(7, 0).expect("a sound disk");
        let files = open();
        files.disk_bytes(7).expect("a sound disk");
        disk.remove(&files.path_of(7, 0)).expect("it is there");
        assert!(matches!(files.open(7, 0), Err(Error::Corrupt { .. })));
    }
}
