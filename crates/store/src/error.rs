//! Errors of a store, separated by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Irregular;

/// The result of an operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation on a store failed. Unless the variant says otherwise, the store is as it was
/// before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a call. Where a read of a page or block failed, `source` says
    /// which, and its own source is the error of the system.
    #[error("cannot {action} {}: {}", path.display(), in_words(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The action that failed: an infinitive such as "read".
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk, or the quota on it, is full. Committed rows are safe; free some space and go on.
    #[error("cannot {action} {}: no space left on the device", path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// The action that failed: an infinitive such as "extend".
        action: &'static str,
    },
    /// Bytes on disk are not what a store wrote there. `bedload verify` lists all such places.
    #[error("{}: {place} is damaged: {reason}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file: a page or an offset.
        place: String,
        /// Which rule the bytes break.
        reason: String,
    },
    /// The directory does not hold a store.
    #[error("{} is not a bedload store: {reason}", path.display())]
    NotAStore {
        /// The directory that was to be opened.
        path: PathBuf,
        /// The reason: what is missing or wrong.
        reason: String,
    },
    /// A store was to be created where something stands already.
    #[error("{} exists already", path.display())]
    AlreadyExists {
        /// The directory that was to be created.
        path: PathBuf,
    },
    /// The store was written by a newer release, in a format this one does not know.
    #[error("{} has format version {found}; this release reads up to {supported}: use a newer release", path.display())]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version this release reads.
        supported: u32,
    },
    /// The store was written in a format from before the first release, which no release reads.
    #[error(
        "{} has format version {found}, which was never released; this release reads version {supported}: export its \
         rows with the program that wrote it, and ingest them into a new store",
        path.display()
    )]
    OlderFormat {
        /// The file that says so.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The version this release reads.
        supported: u32,
    },
    /// Another process, or another handle of this one, has the store open.
    #[error("{} is in use by {holder}", path.display())]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The holder, as the lock file names it.
        holder: String,
    },
    /// The store was opened by another process, from which this one inherited it through `fork`.
    /// Both would write to the same places of the same files. A process must open stores itself.
    #[error("{} was opened by process {opened_by} and is inherited: a process must open a store for itself", path.display())]
    Inherited {
        /// The store's directory.
        path: PathBuf,
        /// The process that opened it.
        opened_by: u32,
    },
    /// A file of an open store was removed or replaced: whatever is there now is left alone, and
    /// nothing more is written through this handle.
    #[error("{} is no longer the file that was opened: it was removed or replaced while the store was open", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// A link, or something else that is not a regular file, is where a store has a file. Stores
    /// are not followed to other places.
    #[error("{} is {found}; a store has regular files, which are not reached through links", path.display())]
    Irregular {
        /// The file or directory.
        path: PathBuf,
        /// The kind of file: a noun with its article.
        found: &'static str,
    },
    /// No table has this name.
    #[error("there is no table {name:?}")]
    NoSuchTable {
        /// The name that was asked for.
        name: String,
    },
    /// A table with this name exists.
    #[error("there is a table {name:?} already")]
    TableExists {
        /// The name that was to be given.
        name: String,
    },
    /// No column has this name.
    #[error("there is no column {name:?}; the columns are {}", columns.join(", "))]
    NoSuchColumn {
        /// The name that was asked for.
        name: String,
        /// The columns that exist.
        columns: Vec<String>,
    },
    /// A schema cannot be stored, or rows do not have the schema of their table.
    #[error("{reason}")]
    Schema {
        /// The reason: what does not fit, and where.
        reason: String,
    },
    /// A row has no time.
    #[error("row {row} has no value in the time column {column:?}")]
    NullTime {
        /// The time column.
        column: String,
        /// Zero-based position of the row in its batch.
        row: usize,
    },
    /// A row of a sparse table has a time between two times of the table's grid. Rows can be moved
    /// to the grid on request: [`Table::snapping`](crate::Table::snapping).
    #[error(
        "row {row} has the time {time} in {column:?}, which is not on the grid of the table (every {interval} ticks from \
         {offset}): snap it to the nearest time or down, or use a table with another layout"
    )]
    OffGrid {
        /// The time column.
        column: String,
        /// Zero-based position of the row in its batch.
        row: usize,
        /// Its time, in ticks of the time column's unit.
        time: i64,
        /// Ticks between two times of the grid.
        interval: i64,
        /// The first time of the grid that is not negative.
        offset: i64,
    },
    /// A row was to be moved to the grid of a sparse table, whose time there is out of the range of
    /// 64 bits.
    #[error(
        "row {row} has the time {time} in {column:?}, and the time of the table's grid to which it would be moved is \
         out of the range of 64 bits"
    )]
    BeyondGrid {
        /// The time column.
        column: String,
        /// Zero-based position of the row in its batch.
        row: usize,
        /// Its time, in ticks of the time column's unit.
        time: i64,
    },
    /// An option has a value that no store can be opened with.
    #[error("the option {option} is {value}; {requirement}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: usize,
        /// The requirement that the value does not meet.
        requirement: &'static str,
    },
    /// A row of a batch is longer than rows of the table may be;
    /// [`Table::long_rows`](crate::Table::long_rows) finds such rows.
    #[error("row {row} has {len_bytes} bytes; the limit of a row is {limit_bytes}")]
    RowTooLong {
        /// The row, counted from 0.
        row: usize,
        /// Bytes of its columns.
        len_bytes: usize,
        /// Bytes admitted.
        limit_bytes: usize,
    },
    /// A batch, or a column of it, is larger than the store's format admits.
    #[error("{what} needs {len_bytes} bytes; the limit is {limit_bytes}")]
    TooLarge {
        /// The thing that is too large: a batch, or a column of it.
        what: String,
        /// Bytes needed.
        len_bytes: usize,
        /// Bytes admitted.
        limit_bytes: usize,
    },
    /// An earlier failure left it unknown what reached the disk, so nothing more is written. Reads
    /// go on; close the store and open it again to recover everything that was acknowledged.
    #[error("the store takes no more writes since an earlier failure: {cause}; close it and open it again")]
    ReadOnly {
        /// The earlier failure.
        cause: Arc<str>,
    },
    /// The store was opened with [`Options::read_only`](crate::Options::read_only), and something
    /// was to be written.
    #[error("{} is open for reading alone: open it without `read_only` to write to it", path.display())]
    OpenForReading {
        /// The store's directory.
        path: PathBuf,
    },
    /// A tree reported an error of its own.
    #[error(transparent)]
    Index(bedload_pages::Error),
}

impl Error {
    /// The error of a failed call on `path`; `action` is an infinitive.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let full = [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::FileTooLarge,
        ];
        let irregular = source
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Irregular>());
        if let Some(&Irregular { found }) = irregular {
            Self::Irregular {
                path: path.into(),
                found,
            }
        } else if full.contains(&source.kind()) {
            Self::NoSpace {
                path: path.into(),
                action,
            }
        } else {
            Self::Io {
                path: path.into(),
                action,
                source,
            }
        }
    }

    /// The error of a read that failed at a place of `path`: a page or an offset.
    pub(crate) fn of_read(path: &Path, place: impl Into<String>, source: io::Error) -> Self {
        let (kind, place) = (source.kind(), place.into());
        Self::io(path, "read", io::Error::new(kind, Misread { place, source }))
    }

    /// Whether bytes are damaged, or cannot be read: others may be whole.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Io { action: "read", .. })
    }

    /// The error of a sync of `path` that failed. Even on a full disk, it is unknown what has
    /// reached the disk: the next sync may succeed without what this one had to write.
    pub(crate) fn of_sync(path: &Path, source: io::Error) -> Self {
        Self::of_unknown(path, "sync", source)
    }

    /// Whether a sync failed.
    pub(crate) fn is_of_sync(&self) -> bool {
        matches!(
            self,
            Self::Io { action: "sync", .. } | Self::NoSpace { action: "sync", .. }
        )
    }

    /// Whether a file was not opened or created because the process, or the system, has too many
    /// open: nothing was changed, and the same call may succeed later.
    pub(crate) fn is_for_want_of_descriptors(&self) -> bool {
        matches!(
            self,
            Self::Io { action: "open" | "create", source, .. }
                if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
        )
    }

    /// An error, even of a full disk, after which the contents of `path` are unknown.
    pub(crate) fn of_unknown(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            action,
            source,
        }
    }

    pub(crate) fn corrupt(file: &Path, place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            file: file.into(),
            place: place.into(),
            reason: reason.into(),
        }
    }

    /// The error of a store too damaged to be opened: it says what can be done. `data` is the name
    /// of its data file.
    pub(crate) fn of_opening(self, dir: &Path, data: &str) -> Self {
        let (file, place, reason) = match self {
            Self::Corrupt { file, place, reason } => (file, place, reason),
            Self::Index(bedload_pages::Error::Corrupt { page, reason }) => {
                (dir.join(data), format!("page {page}"), reason.to_owned())
            }
            error => return error,
        };
        let way_out = format!(
            "the store cannot be opened with it, and `bedload salvage {} NEW` copies what is whole into a new one",
            dir.display()
        );
        Self::corrupt(&file, place, format!("{reason}; {way_out}"))
    }

    pub(crate) fn schema(reason: impl Into<String>) -> Self {
        Self::Schema {
            reason: reason.into(),
        }
    }
}

/// A read that failed, and where in the file. The source of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{place}: {}", in_words(source))]
pub(crate) struct Misread {
    pub(crate) place: String,
    pub(crate) source: io::Error,
}

impl Misread {
    /// The read that an error is about, if it says which.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Returns the message of the operating system without its error number.
pub(crate) fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    match error
        .raw_os_error()
        .and_then(|number| text.strip_suffix(&format!(" (os error {number})")))
    {
        Some(words) => words.to_lowercase(),
        None => text,
    }
}

/// Takes a store's own error back out of the tree it travelled through.
impl From<bedload_pages::Error> for Error {
    fn from(error: bedload_pages::Error) -> Self {
        match error {
            bedload_pages::Error::Store(source) => match source.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Index(bedload_pages::Error::Store(other)),
            },
            other => Self::Index(other),
        }
    }
}

impl From<Error> for bedload_pages::Error {
    fn from(error: Error) -> Self {
        Self::store(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_finds_no_space_is_no_definite_answer() {
        let error = Error::of_sync(Path::new("there"), io::ErrorKind::StorageFull.into());
        assert!(matches!(error, Error::Io { action: "sync", .. }), "{error:?}");
    }

    #[test]
    fn messages_have_no_numbers_of_the_system() {
        let error = Error::io(Path::new("there"), "open", io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "cannot open there: no such file or directory");
        let problem = crate::engine::Problem::from(error);
        assert_eq!(problem.reason, "no such file or directory");
    }
}
