//! Block 0 of an index: the pages that it names, and the format.

#![expect(unsafe_code, reason = "an index is an open relation")]

use bedload_pages::PageId;
use bedload_trees::be_tree::BeTree;
use pgrx::PgSqlErrorCode;

use super::config;
use crate::error::{fail, fail_with, name_of};
use crate::head::Head;
use crate::key::Form;
use crate::pages::{self, Latch, Life, Mode, PAYLOAD, PgPages, State};

/// The version of the format of pages that this code writes and reads.
const FORMAT: u32 = 4;
/// The design of the tree: a Bε-tree.
const DESIGN: u32 = 2;
const MAGIC: [u8; 8] = *b"bedload\0";
/// Magic, format, design, the page that names the tree, the head page; then the counts of [`Work`],
/// and when a worker was called.
const META_LEN: usize = 24;
const WORK_AT: usize = META_LEN;
const WORK_END: usize = WORK_AT + 16;
const CALLED_AT: usize = WORK_END;
const CALLED_END: usize = CALLED_AT + 8;

/// The part of block 0 that a relation's descriptor keeps, until PostgreSQL drops it with the
/// descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Remembered {
    pub(super) tree: (PageId, PageId),
    pub(super) head: Head,
    pub(super) form: Form,
    /// When the index was built, which copies of its file share.
    pub(super) built: u64,
    /// The length of the file when it was last asked for: to ask again costs a call into the
    /// system.
    pub(super) blocks: u32,
}

/// Counts of what sessions have written into the runs of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    /// Entries of transactions, of the head and of builds, each written once.
    pub(crate) published: u64,
    /// Entries that merges have written again.
    pub(crate) merged: u64,
}

impl Work {
    fn read(payload: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| payload[at + byte]));
        Self {
            published: number(WORK_AT),
            merged: number(WORK_AT + 8),
        }
    }
}

/// Adds to the counts. They are a hint: not logged, and so less after a crash and on a standby.
pub(super) fn count(pages: &PgPages, work: Work) {
    let mut latch = pages.pin_block(0).latch(Mode::Exclusive);
    let payload = &mut latch.page_mut()[PAYLOAD];
    let sum = Work::read(payload);
    let counts = [
        sum.published.saturating_add(work.published),
        sum.merged.saturating_add(work.merged),
    ];
    for (bytes, count) in payload[WORK_AT..WORK_END].chunks_exact_mut(8).zip(counts) {
        bytes.copy_from_slice(&count.to_le_bytes());
    }
    latch.mark_dirty_unlogged();
}

/// The counts.
pub(super) fn work(pages: &PgPages) -> Work {
    Work::read(&pages.pin_block(0).latch(Mode::Shared).page()[PAYLOAD])
}

/// Lets `change` look at when a worker was called last, in the server's time, and change it;
/// returns what it returns. That is a hint, as the counts are.
pub(super) fn with_call<T>(pages: &PgPages, change: impl FnOnce(&mut i64) -> T) -> T {
    let mut latch = pages.pin_block(0).latch(Mode::Exclusive);
    let bytes = &mut latch.page_mut()[PAYLOAD][CALLED_AT..CALLED_END];
    let found = i64::from_le_bytes(std::array::from_fn(|byte| bytes[byte]));
    let mut called_at = found;
    let result = change(&mut called_at);
    bytes.copy_from_slice(&called_at.to_le_bytes());
    if called_at != found {
        latch.mark_dirty_unlogged();
    }
    result
}

/// Writes block 0, which is new.
pub(super) fn write(pages: &PgPages, meta: &mut Latch, tree: PageId, head: PageId) {
    let mut bytes = [0; CALLED_END];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&DESIGN.to_le_bytes());
    bytes[16..20].copy_from_slice(&tree.get().to_le_bytes());
    bytes[20..META_LEN].copy_from_slice(&head.get().to_le_bytes());
    let life = Life {
        generation: 1,
        stamp: 0,
        state: State::Meta,
    };
    pages.write_whole(meta, life, &bytes);
}

/// The pages that block 0 names.
pub(super) fn read(pages: &PgPages) -> Remembered {
    // SAFETY: the relation is open, as the pages are.
    let name = unsafe { name_of(pages.relation()) };
    let damaged = |what: &str| -> ! {
        fail(
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{name}\": {what}"),
            Some(format!("REINDEX INDEX {name}.")),
        )
    };
    if !pages.has_block(0) {
        damaged("it has no meta page");
    }
    let latch = pages.pin_block(0).latch(Mode::Shared);
    let is_meta = pages::life(latch.page()).is_some_and(|life| life.state == State::Meta);
    let mut bytes = [0; META_LEN];
    bytes.copy_from_slice(&latch.page()[PAYLOAD][..META_LEN]);
    // Looking up the columns below may wait for locks, which the holders of some would get only
    // after they have latched this page.
    drop(latch);
    if !is_meta || bytes[..8] != MAGIC {
        damaged("block 0 is not the meta page of a bedload index");
    }
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (format, design) = (number(8), number(12));
    if (format, design) != (FORMAT, DESIGN) {
        damaged(&format!(
            "it has format {format}.{design}, and this version of bedload reads format {FORMAT}.{DESIGN}"
        ));
    }
    // SAFETY: the relation is open, as the pages are.
    let Ok(form) = (unsafe { Form::of_index(pages.relation()) }) else {
        damaged("it has a column of a type that this version of bedload does not keep")
    };
    let (Some(meta), Some(head)) = (PageId::new(number(16)), PageId::new(number(20))) else {
        damaged("its meta page names no tree, or no head")
    };
    let root = match BeTree::open(pages, meta, form.order(), form.row(), config(pages)) {
        Ok(tree) => tree.root(),
        // SAFETY: the relation is open, as the pages are.
        Err(error) => unsafe { fail_with(pages.relation(), &error) },
    };
    let tree_page = pages.pin_block(meta.get()).latch(Mode::Shared);
    // The page is in its first life, which began with the time.
    let built = pages::life(tree_page.page()).map_or(0, |life| life.generation);
    Remembered {
        tree: (meta, root),
        head: Head::at(head, form),
        form,
        built,
        blocks: pages.known_blocks(),
    }
}
