//! The data layer: the blocks of a tree from left to right, and the edge up to which keys belong to
//! them.

mod append;
pub(crate) mod check;
pub(crate) mod edge;
pub(crate) mod layer;
pub(crate) mod scan;
