//! How much of its cases a test run tries.

/// The step from one case that a test run tries to the next: what `BEDLOAD_THOROUGH` says, 1 in
/// soak runs and 2 in CI, and 5 otherwise, so that a first `make test` takes minutes.
///
/// Suites that try every byte or every call take steps of this length; others divide their number
/// of cases by it.
///
/// ```
/// let tried = (0..90).step_by(bedload_testkit::stride()).count();
/// assert!((18..=90).contains(&tried));
/// ```
///
/// # Panics
///
/// `BEDLOAD_THOROUGH` is no number from 1 to 5.
#[must_use]
pub fn stride() -> usize {
    match std::env::var("BEDLOAD_THOROUGH") {
        Ok(text) => match text.parse() {
            Ok(step @ 1..=5) => step,
            _ => panic!("BEDLOAD_THOROUGH={text} is no number from 1 to 5"),
        },
        Err(_) => 5,
    }
}
