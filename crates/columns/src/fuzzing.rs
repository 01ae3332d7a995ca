//! Functions that fuzzers call, and the tests that go through their corpora: each reader of bytes
//! as a function of bytes, which must return. Compiled for those two only.

use std::ops::Bound;

use bedload_pages::PageId;

use crate::{LeafReader, RunIndex, RunLeaf};

/// A leaf.
pub fn leaf(data: &[u8]) {
    let Ok(reader) = LeafReader::open_unchecked(data) else {
        return;
    };
    let rows = reader.rows();
    for (number, column) in reader.directory().columns().iter().enumerate() {
        let _ = column.bounds();
        let _ = reader.decode(number, 0..rows);
        let _ = reader.decode(number, rows / 3..rows / 2);
        for row in [0, rows / 2, rows.saturating_sub(1)] {
            let _ = reader.value_at(number, row);
        }
    }
}

/// A page of a run of columns, as a table's tree has them: an index or a leaf.
pub fn run(page: &[u8]) {
    let Some(id) = PageId::new(7) else { return };
    if let Ok(index) = RunIndex::parse(id, page) {
        let first = index.leaves()[0].first;
        let from_first = index.between(Bound::Included(first), Bound::Unbounded);
        assert_eq!(from_first.start, 0);
    }
    if let Ok(leaf) = RunLeaf::open(id, page) {
        for column in 0..leaf.columns() {
            let _ = leaf.decode(column, 0..leaf.rows());
        }
        for time in 0..leaf.columns() {
            let _ = leaf.search(time, leaf.header().last);
            let _ = leaf.last_of_time(time, leaf.header().last);
        }
    }
}

#[cfg(test)]
mod tests {
    use bedload_testkit::go_through_corpus;

    #[test]
    fn corpora_do_no_harm() {
        go_through_corpus("leaf", super::leaf);
        go_through_corpus("run", super::run);
    }
}
