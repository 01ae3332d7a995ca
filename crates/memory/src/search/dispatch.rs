//! Running an operation with the vectors that the processor has.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "calls of functions compiled for more features")
)]

use super::keys::{Compiled, Vectors};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use super::wide::Wide;

/// An operation that searches nodes.
pub(crate) trait Searching {
    /// The answer of a search.
    type Answer;

    /// Does it. Must be `inline(always)`, and so must everything in it that searches, or vectors
    /// are not used.
    fn run(self) -> Self::Answer;
}

/// A lookup.
pub(crate) trait LookingUp {
    /// Does it. Must be `inline(always)`, and so must everything in it that searches, or vectors
    /// are not used.
    fn run(self, vectors: impl Vectors) -> Option<u64>;
}

/// Does an operation with vectors of 256 bits, if the processor has them.
#[inline(always)]
pub(crate) fn vectorised<S: Searching>(operation: S) -> S::Answer {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { with_avx2(operation) };
        }
    }
    operation.run()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn with_avx2<S: Searching>(operation: S) -> S::Answer {
    operation.run()
}

/// Looks up with the widest vectors that the processor has. The fewer instructions a lookup takes,
/// the more of the next ones the processor begins while the first waits for memory.
#[inline(always)]
pub(crate) fn look_up<L: LookingUp>(lookup: L, _wide: Option<Wide>) -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if let Some(wide) = _wide {
            // SAFETY: the processor has the features, or there were no such value.
            return unsafe { look_up_with_wide(lookup, wide) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { look_up_with_avx2(lookup) };
        }
    }
    lookup.run(Compiled)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn look_up_with_avx2<L: LookingUp>(lookup: L) -> Option<u64> {
    lookup.run(Compiled)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn look_up_with_wide<L: LookingUp>(lookup: L, wide: Wide) -> Option<u64> {
    lookup.run(wide)
}

/// There are none.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wide {}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Wide {
    pub(crate) const fn detect() -> Option<Self> {
        None
    }
}
