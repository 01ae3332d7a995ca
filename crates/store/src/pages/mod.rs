//! Pages in a file: a versioned map from logical pages to places, never overwriting what a
//! checkpoint names.
//!
//! [`WorkingPages`] is the page store that trees are changed through. A checkpoint turns its state
//! into a [`PageVersion`], durable and immutable, and goes on from there.

mod backup;
mod cache;
mod catalogue_pages;
mod checkpoint;
#[cfg(any(test, fuzzing))]
mod content;
mod extents;
#[cfg(feature = "file-pages")]
mod file_pages;
mod latches;
mod log_end;
mod page;
mod page_file;
mod page_map;
mod page_memory;
mod readers;
mod remains;
mod space;
mod superblock;
#[cfg(test)]
mod tests;
mod version;
mod working;
mod working_state;

pub(crate) use cache::{Cache, CacheKey};
pub(crate) use catalogue_pages::CatalogueText;
#[cfg(test)]
pub(crate) use catalogue_pages::catalogue_chains;
pub(crate) use checkpoint::{CheckpointError, CheckpointMeta};
#[cfg(any(test, fuzzing))]
pub(crate) use content::Content;
#[cfg(feature = "file-pages")]
pub use file_pages::{FilePages, FilePagesOptions, PageCounts};
pub(crate) use page::{HEADER_BYTES, Page, PageRef};
pub(crate) use page_file::PageFile;
pub(crate) use page_map::Slot;
pub(crate) use readers::{Readers, Registration};
pub(crate) use remains::{FoundPage, Remains, Standing};
pub(crate) use superblock::{COUNTER_MAX, FORMAT_VERSION, Superblock, page_bytes_admissible};
pub(crate) use version::PageVersion;
pub(crate) use working::WorkingPages;
