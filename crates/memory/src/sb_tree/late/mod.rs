//! Late keys, which wait with their thread until there are many.

pub(crate) mod classes;
pub(crate) mod lanes;
