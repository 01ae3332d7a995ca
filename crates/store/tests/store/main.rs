//! The store as its users see it.

mod backup;
mod between;
mod bloated;
mod concurrency;
mod contract;
mod damage;
mod file_pages;
mod filter;
mod fixtures;
mod intruders;
mod keyed;
mod lifecycle;
mod long_batches;
mod metrics;
mod or_create;
mod order;
mod packed;
mod pages;
mod reading;
mod retention;
mod rows;
mod salvage;
mod space;
mod sparse;
mod types;
mod write_batch;
