use std::ops::Bound;
use bedload_pages::HeapPages;
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{Entry, FixedRow, Position, Row, U64Order};

fn main() -> bedload_pages::Result<()> {
    let pages = HeapPages::new(8192);
    let tree = BPlusTree::create(&pages, U64Order, FixedRow::<8>, BPlusTreeOptions::new().ties(false))?;
    for key in 0..1000_u64 {
        let square = (key * key).to_le_bytes();
        let row = Row { fixed: &square, variable: &[] };
        tree.insert(Entry { key: &U64Order::key(key), tie: 0, row })?;
    }
    let (from, to) = (U64Order::key(10), U64Order::key(20));
    let from = Bound::Included(Position::of_key(&from));
    let to = Bound::Excluded(Position::of_key(&to));
    let mut cursor = tree.range(from, to)?;
    while let Some(leaf) = cursor.next_leaf()? {
        let squares: &[u8] = leaf.fixed_column(0); // 8 bytes a value, without gaps
        println!("{} values, {} bytes", leaf.len(), squares.len());
    }
    Ok(())
}
