//! Late keys, which wait in a lane per thread until there are many.

pub(crate) mod classes;
pub(crate) mod lanes;
