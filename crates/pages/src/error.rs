//! Errors of paged indexes, separated by what the caller can do about them.

use super::page_id::PageId;

/// The result of an operation on a paged index or a page store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation on a paged index or its page store failed. The index is as it was before, unless
/// the operation works leaf by leaf and says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A page holds bytes that no correct writer produces. The index is unreliable at that page;
    /// restore it from a copy or rebuild it from its source.
    #[error("page {page} is damaged: {reason}")]
    Corrupt {
        /// The damaged page.
        page: PageId,
        /// The rule that its bytes break.
        reason: &'static str,
    },
    /// The entry does not fit in a page. Nothing was changed; shorten the key or the row.
    #[error(
        "an entry of {len_bytes} bytes does not fit: the limit on this page store is {limit_bytes} bytes"
    )]
    EntryTooLarge {
        /// Bytes the entry needs in a leaf page.
        len_bytes: usize,
        /// Bytes the largest admissible entry may need.
        limit_bytes: usize,
    },
    /// The key's length is not the one its order requires. Nothing was changed.
    #[error("a key of {len_bytes} bytes was given to an order of {expected_bytes}-byte keys")]
    KeyWidth {
        /// Length of the given key in bytes.
        len_bytes: usize,
        /// Length in bytes of every key of the order.
        expected_bytes: usize,
    },
    /// The entry does not have the tree's columns, or has a tie where the tree keeps none. Nothing
    /// was changed.
    #[error("the entry has not the shape of the tree: {reason}")]
    Shape {
        /// The difference.
        reason: &'static str,
    },
    /// Entries that must be ascending are not. Nothing after the offending entry was applied.
    #[error("entries must ascend by key, then tie: entry {position} does not lie above the one before it")]
    NotAscending {
        /// Zero-based position of the first entry out of order.
        position: u64,
    },
    /// A node is full, and another thread is making room in it. Try again once it is done.
    #[error("page {page} is full, and another thread is making room in it: try again")]
    Busy {
        /// The full node.
        page: PageId,
    },
    /// The page store failed: an I/O error, exhausted space, a damaged file. The source says which.
    #[error(transparent)]
    Store(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps the error of a page store.
    pub fn store(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store(Box::new(source))
    }
}
