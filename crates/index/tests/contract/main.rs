//! The contract of paged indexes, and of the stores they stand on.

mod mem;
mod suite;
