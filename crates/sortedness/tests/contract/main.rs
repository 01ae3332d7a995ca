//! Estimates beside exact measures.

mod sortedness;
