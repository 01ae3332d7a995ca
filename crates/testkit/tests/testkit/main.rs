//! Tests the suite itself: it passes a correct index and finds the fault in each faulty one.

mod concurrent;
mod documents;
mod packages;
mod prose;
mod sequential;
