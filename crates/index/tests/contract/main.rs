//! The contract of paged indexes, and of the stores they stand on.

mod concurrent;
mod counts;
mod crash;
mod damage;
mod model;
mod orders;
mod page_stores;
mod suite;
