//! Answers on their way out.

pub(crate) mod stdout;
