//! The contract of paged indexes, and of the stores they stand on.

mod crash;
mod damage;
mod model;
mod orders;
mod suite;
