//! A scenario of the command line.

use crate::plan::Plan;
use crate::record::Record;

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description of its measurements.
    pub about: &'static str,
    /// The names of its subjects.
    pub subjects: fn() -> Vec<&'static str>,
    /// Runs it.
    pub run: fn(&Plan) -> Vec<Record>,
}
