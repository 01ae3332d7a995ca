//! B-link trees: [`tree`] has sorted leaves, [`hash`] has hash tables for leaves where keys ascend;
//! both share the levels of inner nodes above, [`trunk`].

mod aim;
pub(crate) mod hash;
mod inner;
mod node;
mod sorted_leaf;
pub(crate) mod tree;
mod trunk;
