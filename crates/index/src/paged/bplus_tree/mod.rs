//! A B+-tree.

mod assemble;
mod bulk;
mod config;
mod cursor;
mod descend;
mod edge;
mod edit;
mod entry_ref;
mod fresh;
mod insert;
mod item;
mod merge;
mod node;
mod point;
mod remove;
mod remove_range;
mod search;
mod shape;
mod sorted;
mod split;
mod tree;
mod verify;

pub use config::Config;
pub use cursor::Cursor;
pub use entry_ref::{EntryRef, LeafSlice};
pub use tree::{BPlusTree, OwnedEntry, OwnedRow};
pub use verify::{Problem, Report};
