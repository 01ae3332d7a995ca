//! What this process remembers of pages of runs: the nodes at the top of runs and of their filters,
//! so that a scan that meets many runs reads a page less of each.
//!
//! A run is never written again under its name while its file lives. So what is remembered is
//! either true, or asked for no more; a reader whose list of runs is old finds out by the page
//! below. A file that is built a second time within its transaction is forgotten.

use std::cell::RefCell;
use std::sync::Arc;

use bedload_pages::{PageId, RunLife};

use crate::compat::FileName;

/// Pages that are remembered, of all indexes; each at one of a few places.
const PLACES: usize = 256;
const PLACES_OF_PAGE: usize = 2;

type Place = Option<(FileName, PageId, RunLife, Arc<[u64]>)>;

thread_local! {
    static MEMORY: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// The first of the places of a page.
fn place_of(page: PageId, (first_page, generation): RunLife) -> usize {
    let mixed = (u64::from(page.get()) << 32 ^ u64::from(first_page.get()) ^ generation << 16)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(mixed.to_be_bytes()[0]) & !(PLACES_OF_PAGE - 1)
}

const _: () = assert!(PLACES == 256, "a byte names a place");

pub(super) fn recall(file: FileName, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
    MEMORY.with_borrow(|memory| {
        let places = memory.get(place_of(page, run)..)?.iter().take(PLACES_OF_PAGE);
        let known = places
            .flatten()
            .find(|place| (place.0, place.1, place.2) == (file, page, run))?;
        Some(known.3.clone())
    })
}

pub(super) fn remember(file: FileName, page: PageId, run: RunLife, found: &Arc<[u64]>) {
    MEMORY.with_borrow_mut(|memory| {
        memory.resize(PLACES, None);
        // The older one goes.
        let places = &mut memory[place_of(page, run)..][..PLACES_OF_PAGE];
        places.rotate_right(1);
        places[0] = Some((file, page, run, found.clone()));
    });
}

pub(super) fn forget(file: FileName) {
    let is_of_file = |place: &Place| place.as_ref().is_some_and(|place| place.0 == file);
    MEMORY.with_borrow_mut(|memory| {
        for place in memory.iter_mut().filter(|place| is_of_file(place)) {
            *place = None;
        }
    });
}
