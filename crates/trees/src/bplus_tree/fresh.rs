//! Pages reserved for one change, given back if it does not come about.

use bedload_pages::{PageId, PageStore, Reserved, Result};

/// Reserved pages, released when dropped.
pub(super) struct Fresh<'s, S: PageStore> {
    store: &'s S,
    pages: Vec<Reserved>,
}

/// A page of a [`Fresh`].
#[derive(Debug, Clone, Copy)]
pub(super) struct FreshPage {
    pub(super) id: PageId,
    pub(super) generation: u64,
}

impl<'s, S: PageStore> Fresh<'s, S> {
    pub(super) fn new(store: &'s S) -> Self {
        Self {
            store,
            pages: Vec::new(),
        }
    }

    pub(super) fn reserve(&mut self) -> Result<FreshPage> {
        let reserved = self.store.reserve()?;
        let page = FreshPage {
            id: reserved.id,
            generation: reserved.generation,
        };
        self.pages.push(reserved);
        Ok(page)
    }

    /// The pages were written by a committed batch: they are not given back.
    pub(super) fn written(mut self) {
        self.pages.clear();
    }
}

impl<S: PageStore> Drop for Fresh<'_, S> {
    fn drop(&mut self) {
        for reserved in self.pages.drain(..) {
            self.store.release(reserved);
        }
    }
}
