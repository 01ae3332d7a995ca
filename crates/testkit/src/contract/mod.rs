//! The contract of ordered indexes, as tests.
//!
//! An index is adapted once, to [`ConcurrentIndex`] or to [`OrderedIndex`], and then must pass
//!
//! - [`check`]: long seeded sequences of operations, every answer compared with a `BTreeMap`;
//! - [`check_shrinking`]: generated sequences that shrink to a short one when they fail;
//! - for concurrent indexes [`check_disjoint_writers`], [`check_ascending_writers`],
//!   [`check_ranges_over_writers`] and [`check_histories`].
//!
//! # The contract
//!
//! 1. `insert` sets the value whether or not the key was present.
//! 2. `get` returns the value last set and not removed since. `remove` leaves the key absent.
//! 3. `range` yields the entries between any two bounds, each once, ascending or descending;
//!    inverted or empty bounds yield nothing. `first` and `last` are the least and greatest
//!    entries.
//! 4. Concurrent `insert`, `get` and `remove` are linearizable, the same key from two threads
//!    included.
//! 5. A range concurrent with writers yields, in order and once each, every key that was present
//!    throughout, and no key that was never present; each value is one that the key had.
//! 6. The structure obeys its own invariants whenever no operation is in progress.

mod concurrent;
mod failure;
mod first_in_first_out;
mod index;
mod keys;
mod operation;
mod oracle;
mod sequential;

pub use concurrent::{
    check_ascending_writers, check_disjoint_writers, check_histories, check_ranges_over_writers,
};
pub use failure::Failure;
pub use first_in_first_out::first_in_first_out;
pub use index::{ConcurrentIndex, Direction, Key, OneThread, OrderedIndex, Removed};
pub use keys::{ByteKeys, I64Keys, Keys, U64Keys};
pub use operation::{Operation, Profile};
pub use sequential::{Plan, check, check_shrinking, replay, try_check};
