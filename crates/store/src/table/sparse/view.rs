//! A reader's view of one sparse table: the pages and blocks of a checkpoint, and newer heads.

use std::sync::Arc;

use super::files::BlockFiles;
use super::table::SparseEntry;
use crate::pages::PageVersion;
use crate::rows::{BatchMemory, Head};

/// One state of a table.
#[derive(Debug, Clone)]
pub(crate) struct SparseView {
    pub(crate) pages: Arc<PageVersion>,
    /// The files of all sparse tables.
    pub(crate) blocks: Arc<BlockFiles>,
    /// For the batches that are read.
    pub(crate) memory: BatchMemory,
    /// The oldest first.
    pub(crate) heads: Vec<Arc<Head>>,
}

/// The newest state of a table, of which blocks are written without a way through the head.
#[derive(Debug)]
pub(crate) struct Latest {
    pub(crate) view: SparseView,
    /// Whether a long batch is being written, of this table or another, that is not in the view.
    pub(crate) is_behind: bool,
    /// None if the table was dropped.
    pub(crate) sparse: Option<SparseEntry>,
}
