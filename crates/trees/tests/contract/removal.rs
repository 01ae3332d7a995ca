//! Removing what lies in a range, entry by entry.

use std::ops::Bound;

use bedload_pages::{PageStore, Result};
use bedload_trees::bplus_tree::{BPlusTree, EntryRef, OwnedEntry};
use bedload_trees::{KeyOrder, Position, RowLayout};

/// Removes the entries between two bounds for which `select` returns true; returns those that were
/// there.
pub(crate) fn remove_between<O: KeyOrder, L: RowLayout, S: PageStore>(
    tree: &BPlusTree<O, L, S>,
    from: Bound<Position<'_>>,
    to: Bound<Position<'_>>,
    select: impl Fn(&EntryRef<'_, O, L>) -> bool,
) -> Result<Vec<OwnedEntry>> {
    let mut selected = Vec::new();
    let mut cursor = tree.range(from, to)?;
    while let Some(entry) = cursor.next_entry()? {
        if select(&entry) {
            selected.push(entry.to_owned_entry());
        }
    }
    let mut removed = Vec::new();
    for entry in selected {
        if tree.remove(&entry.key, entry.tie)? {
            removed.push(entry);
        }
    }
    Ok(removed)
}
