//! Pages of a run of columns, as a table's tree has them: an index, a leaf.

#![no_main]

use bedload_columns::{RunIndex, RunLeaf};
use bedload_pages::PageId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &[u8]| {
    let Some(id) = PageId::new(7) else { return };
    if let Ok(index) = RunIndex::parse(id, page) {
        let first = index.leaves()[0].first;
        assert!(index.between(std::ops::Bound::Included(first), std::ops::Bound::Unbounded).start == 0);
    }
    if let Ok(leaf) = RunLeaf::open(id, page) {
        for column in 0..leaf.columns() {
            let _ = leaf.decode(column, 0..leaf.rows());
        }
        for time in [0, leaf.columns() - 1] {
            let middle = leaf.header().last;
            let _ = leaf.search(time, middle);
        }
    }
});
