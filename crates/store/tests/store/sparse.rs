//! Tables of the sparse layout: what their operations cost, and the rows of the paper.

mod counts;
mod paper;
mod ranges;
