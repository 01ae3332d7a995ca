//! Pages of runs that this process has copied: the nodes at the top of runs, and their filters. A
//! scan that meets many runs reads a page less of each, and a lookup asks most of them without a
//! pin or a lock.
//!
//! A run is never written again under its name: its generation rises with each life of its first
//! page, and begins with the time, so that not even a file that is built again in its transaction,
//! or another that gets its number, has such a run. So a copy is either true or not asked for any
//! more; a reader whose list of runs is old finds out by the page below.

use std::cell::RefCell;
use std::sync::Arc;

use bedload_pages::{PageId, RunLife};

use crate::compat::FileName;

/// The most copies, of all indexes: less than 4 MiB a session, as no page has more than 8 KiB.
const COPIES: usize = 512;
/// Slots in which the copy of a page may be.
const WAYS: usize = 2;
/// How many requests of other pages for its slot a copy withstands for each time that it is used.
/// So a session that meets more pages than there are slots copies few of them, and has those that
/// are asked for most often, as the nodes at the top are.
const PATIENCE: u8 = 8;
/// The most that a copy may have ahead of it.
const PATIENCE_MAX: u8 = 64;

struct Copy {
    file: FileName,
    page: PageId,
    run: RunLife,
    words: Arc<[u64]>,
    patience: u8,
}

impl Copy {
    fn is_of(&self, file: FileName, page: PageId, run: RunLife) -> bool {
        (self.file, self.page, self.run) == (file, page, run)
    }
}

thread_local! {
    static COPIES_BY_SLOT: RefCell<Vec<Option<Copy>>> = const { RefCell::new(Vec::new()) };
}

/// The first of the slots of a page.
fn slot_of(page: PageId, (first_page, generation): RunLife) -> usize {
    let mixed = (u64::from(page.get()) << 32 ^ u64::from(first_page.get()) ^ generation << 16)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [high, low, ..] = mixed.to_be_bytes();
    (usize::from(u16::from_be_bytes([high, low])) % COPIES) & !(WAYS - 1)
}

pub(super) fn recall(file: FileName, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
    COPIES_BY_SLOT.with_borrow_mut(|copies| {
        let slots = copies.get_mut(slot_of(page, run)..)?.iter_mut().take(WAYS);
        let copy = slots.flatten().find(|copy| copy.is_of(file, page, run))?;
        copy.patience = (copy.patience + PATIENCE).min(PATIENCE_MAX);
        Some(copy.words.clone())
    })
}

pub(super) fn remember(
    file: FileName,
    page: PageId,
    run: RunLife,
    words: impl FnOnce() -> Option<Arc<[u64]>>,
) {
    COPIES_BY_SLOT.with_borrow_mut(|copies| {
        copies.resize_with(COPIES, || None);
        let slots = &mut copies[slot_of(page, run)..][..WAYS];
        let patience = |copy: &Option<Copy>| copy.as_ref().map_or(0, |copy| copy.patience);
        let Some(slot) = slots.iter_mut().min_by_key(|copy| patience(copy)) else {
            return;
        };
        match slot {
            Some(copy) if copy.patience > 0 => copy.patience -= 1,
            _ => {
                let copy = |words| Copy {
                    file,
                    page,
                    run,
                    words,
                    patience: PATIENCE,
                };
                *slot = words().map(copy);
            }
        }
    });
}
