//! A tree on pages whose bytes a fuzzer chooses.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::bplus_tree::{BPlusTree, BPlusTreeOptions, tree_of};
use crate::entry::{Columns, Entries, Entry, FixedRow, Position, Row, RowLayout};
use crate::key_order::{ByteOrder, KeyOrder, U64Order};
use bedload_pages::{Batch, HeapPages, PageId, PageRead, PageStore, VacuumStore};

const PAYLOAD_LEN: usize = 512;
const NUMBERS: u64 = 120;
/// More leaves than any of these trees can have.
const LEAVES_MAX: usize = 10_000;

/// Builds a small tree, changes its pages as `data` says and uses it: whatever is in the pages,
/// each call must return, with an answer or an error. For fuzzers; panics if a cursor does not end.
///
/// The first byte of `data` chooses among four trees. Changes follow, each of a page (one byte,
/// counted from the first), an offset (two bytes, little-endian), a length and as many bytes that
/// are put there.
///
/// ```
/// bedload_trees::contract::check_damaged_tree(&[0, 2, 4, 0, 2, 0xff, 0xff]);
/// ```
pub fn check_damaged_tree(data: &[u8]) {
    let Some((&which, changes)) = data.split_first() else {
        return;
    };
    let config = if which % 2 == 0 {
        BPlusTreeOptions::new().max_entries(4)
    } else {
        BPlusTreeOptions::new()
    };
    if which % 4 < 2 {
        let key = |number| U64Order::key(number * 7).to_vec();
        check(U64Order, FixedRow::<8>, config, changes, key);
    } else {
        let key = |number| format!("key {}", number * number % 997).into_bytes();
        check(ByteOrder, Columns::new(&[3], 2), config, changes, key);
    }
}

fn check<O: KeyOrder, L: RowLayout>(
    order: O,
    layout: L,
    config: BPlusTreeOptions,
    data: &[u8],
    key: impl Fn(u64) -> Vec<u8>,
) {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BPlusTree::create(&pages, order.clone(), layout.clone(), config).expect("pages in memory");
    for number in 0..NUMBERS {
        with_row(&layout, number, |row| {
            let entry = Entry {
                key: &key(number),
                tie: number % 3,
                row,
            };
            tree.insert(entry).expect("a sound tree");
        });
    }
    let all: Vec<PageId> = tree.verify().expect("a sound tree").pages.into_iter().collect();
    change(&pages, PAYLOAD_LEN, &all, data);

    let _ = tree.verify();
    for &id in &all {
        let _ = tree_of(&pages.read(id).expect("pages in memory"));
    }
    let Ok(tree) = BPlusTree::open(&pages, tree.root(), order, layout.clone(), config) else {
        return;
    };
    drain(&tree, Bound::Unbounded);
    for number in (0..NUMBERS + 40).step_by(13) {
        let (key, tie) = (key(number), number % 3);
        let position = Position { key: &key, tie };
        let _ = tree.get(&key, tie);
        drain(&tree, Bound::Excluded(position));
        with_row(&layout, number, |row| {
            let entry = Entry { key: &key, tie, row };
            match number % 3 {
                0 => drop(tree.remove(&key, tie)),
                1 => drop(tree.insert(entry)),
                _ => drop(tree.insert_sorted(&mut Entries::new([entry]))),
            }
        });
    }
    let _ = tree.verify();
}

/// Calls `use_row` with a row that follows from `number`.
pub(super) fn with_row<L: RowLayout, R>(layout: &L, number: u64, use_row: impl FnOnce(Row<'_>) -> R) -> R {
    let byte = number.to_le_bytes()[0];
    let fixed = vec![byte; layout.fixed_len()];
    let text = vec![byte; usize::from(byte) % 23];
    let variable = vec![&text[..]; layout.variable_columns()];
    use_row(Row {
        fixed: &fixed,
        variable: &variable,
    })
}

/// Changes pages of `payload_len` bytes as [`check_damaged_tree`] says.
pub(super) fn change(pages: &HeapPages, payload_len: usize, all: &[PageId], data: &[u8]) {
    let mut data: VecDeque<u8> = data.iter().copied().collect();
    while let (Some(page), Some(low), Some(high), Some(len)) = (
        data.pop_front(),
        data.pop_front(),
        data.pop_front(),
        data.pop_front(),
    ) {
        let page = all[usize::from(page) % all.len()];
        let offset = usize::from(u16::from_le_bytes([low, high])) % payload_len;
        let len = usize::from(len).min(data.len()).min(payload_len - offset);
        let bytes: Vec<u8> = data.drain(..len).collect();
        let put = |page: &mut [u8]| page[offset..offset + len].copy_from_slice(&bytes);
        // A page of a run that a batch changes is none any more.
        let mut is_of_run = false;
        let changed = pages.delete_in_run(page, &mut |page| {
            is_of_run = true;
            put(page);
            Ok(true)
        });
        changed.expect("pages in memory");
        if !is_of_run {
            let batch = pages.batch(&[page]).expect("pages in memory");
            batch.commit(|pages| put(pages[0]));
        }
    }
}

/// Reads to the end in both directions, or until an error.
fn drain<O: KeyOrder, L: RowLayout, S: PageRead>(tree: &BPlusTree<O, L, S>, from: Bound<Position<'_>>) {
    for cursor in [
        tree.range(from, Bound::Unbounded),
        tree.range_back(from, Bound::Unbounded),
    ] {
        let Ok(mut cursor) = cursor else { continue };
        let mut leaves = 0;
        while let Ok(Some(slice)) = cursor.next_leaf() {
            (0..slice.len()).for_each(|index| drop(slice.entry(index).to_owned_entry()));
            leaves += 1;
            assert!(leaves < LEAVES_MAX, "a cursor does not end");
        }
    }
}
