//! Ordered indexes for keys that arrive nearly in order.
//!
//! [`mem`] holds indexes in memory, for many threads at once. [`paged`] holds trees made of pages behind a
//! [`PageStore`](paged::PageStore): the same tree stands on heap memory, on a file with a page cache, or on a
//! database server's buffers. [`sware`] holds trees in memory that take keys nearly in order at little more than the
//! cost of storing them. [`sortedness`] measures how far a sequence is from sorted. Nothing in this
//! crate opens a file, reads a clock or starts a thread.

pub mod mem;
pub mod paged;
pub mod sortedness;
pub mod sware;
