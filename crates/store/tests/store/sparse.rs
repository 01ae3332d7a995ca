//! Tables of the sparse layout against a model: a map from times to rows.

mod counts;
mod model;
mod paper;
