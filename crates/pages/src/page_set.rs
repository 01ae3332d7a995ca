//! Sets of pages.

use crate::PageId;

/// A set of pages: a bit for each id up to the greatest in it, so 16 MiB for a store of 1 TiB.
///
/// ```
/// use bedload_pages::{PageId, PageSet};
///
/// let page = |raw| PageId::new(raw).expect("not zero");
/// let mut pages = PageSet::default();
/// pages.insert(page(100));
/// assert!(pages.contains(page(100)) && !pages.contains(page(99)) && !pages.contains(page(1000)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// The word and the bit in it that stand for a page.
    fn place(page: PageId) -> (usize, u64) {
        let raw = page.get() as usize;
        (raw / 64, 1 << (raw % 64))
    }

    /// Adds a page.
    pub fn insert(&mut self, page: PageId) {
        let (word, bit) = Self::place(page);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Whether a page is in the set.
    #[must_use]
    pub fn contains(&self, page: PageId) -> bool {
        let (word, bit) = Self::place(page);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }
}
