//! The contract of paged indexes, and of the stores they stand on.

mod orders;
mod suite;
