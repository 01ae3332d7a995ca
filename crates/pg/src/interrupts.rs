//! Where a cancelled statement ends.

use std::cell::Cell;

use crate::error::error_point;
use crate::key::Entry;

/// Steps of long work between two looks for a cancelled statement.
const INTERRUPT_STEPS: u32 = 4096;

/// Ends with an error if the statement was cancelled.
pub(crate) fn interrupt_point() {
    pgrx::check_for_interrupts!();
    #[cfg(feature = "harness")]
    crate::hooks::note_interrupt_point();
    error_point();
}

/// Counts steps of long work, some of which look for a cancelled statement.
pub(crate) struct Steps(Cell<u32>);

impl Steps {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// A step. It may unwind, so nothing may be half done.
    #[inline]
    pub(crate) fn step(&self) {
        let steps = self.0.get().wrapping_add(1);
        self.0.set(steps);
        if steps.is_multiple_of(INTERRUPT_STEPS) {
            interrupt_point();
        }
    }
}

/// Whether entries ascend, equal ones among them. It can be cancelled, as comparisons may call
/// collations.
pub(crate) fn are_sorted(entries: &[Entry]) -> bool {
    let steps = Steps::new();
    entries.is_sorted_by(|a, b| {
        steps.step();
        a <= b
    })
}

/// Sorts entries, unless they ascend. It can be cancelled: all entries are still there then, in any
/// order.
pub(crate) fn sort(entries: &mut [Entry]) {
    if !are_sorted(entries) {
        let steps = Steps::new();
        entries.sort_unstable_by(|a, b| {
            steps.step();
            a.cmp(b)
        });
    }
}

/// As [`sort`], for entries that consist of ascending stretches: finds these and merges them, by
/// memory for half of the entries.
pub(crate) fn merge_sort(entries: &mut [Entry]) {
    let steps = Steps::new();
    entries.sort_by(|a, b| {
        steps.step();
        a.cmp(b)
    });
}
