//! How much of its cases a test run tries.

/// The step from one case that a test run tries to the next: 1 where `BEDLOAD_THOROUGH` is set, as
/// it is in soak runs and in CI with a machine for each target, and 5 otherwise, so that a first
/// `make test` takes minutes.
///
/// Suites that try every byte or every call take steps of this length; others divide their number
/// of cases by it.
///
/// ```
/// let tried = (0..90).step_by(bedload_testkit::stride()).count();
/// assert!(tried == 18 || tried == 90);
/// ```
#[must_use]
pub fn stride() -> usize {
    if std::env::var_os("BEDLOAD_THOROUGH").is_some() {
        1
    } else {
        5
    }
}
