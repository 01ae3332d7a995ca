//! Numbers of support functions of operator classes.

/// The number of a comparison function among the support functions of an operator class: that of a
/// B-tree's, as version 18 checks it of every ordered access method.
pub(crate) const COMPARE_FUNCTION: u16 = 1;
/// That of a hash function: the first number that a B-tree has no function for.
pub(crate) const HASH_FUNCTION: u16 = 7;
/// The greatest number there is.
pub(crate) const SUPPORT_FUNCTIONS: u16 = 7;
