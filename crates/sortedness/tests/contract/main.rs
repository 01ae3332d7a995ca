//! Compares estimates with exact measures.

mod sortedness;
