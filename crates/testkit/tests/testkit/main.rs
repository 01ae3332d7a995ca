//! The suite itself under test: it passes an index that is right and finds the fault in each that is wrong.

mod concurrent;
mod documents;
mod sequential;
