//! The store as its users see it.

mod backup;
mod concurrency;
mod damage;
mod fixtures;
mod lifecycle;
mod model;
mod rows;
mod salvage;
mod space;
mod sparse;
