//! A latch that readers do not write: they note its version, read, and look whether the version
//! still stands (optimistic latch coupling; Leis, Haubenschild, Neumann, "Optimistic Lock
//! Coupling", 2019).
//!
//! ```text
//!              try_latch(v)                       retire
//!   free v ───────────────────▶ latched, was v ───────────▶ obsolete, for ever
//!      ▲                              │
//!      └────────── v + 1 ◀────────────┘ drop
//! ```
//!
//! # Rules
//!
//! 1. A latch protects atomic memory. Only the latch's holder writes it; any thread may read it.
//! 2. A value that was read counts only after [`VersionLatch::validate`] succeeded: until then it
//!    may be torn between two writers, and must not be used where that could do harm.
//! 3. Nobody waits for a latch while holding one: a second latch is only ever *tried*.
//!
//! # Ordering
//!
//! A reader loads the version (acquire), the data (relaxed), fences (acquire), and loads the
//! version again. A writer exchanges the version (acquire), fences (release), stores the data
//! (relaxed), and stores the new version (release).
//!
//! - *A reader that saw anything of a writer's data fails.* The writer's release fence precedes its
//!   store; the reader's acquire fence follows the load that saw it: the fences synchronise, so the
//!   second load of the version sees the writer's exchange or something later, and versions never
//!   return.
//! - *A reader that saw version v sees all of the writer that made it.* Its first load acquires
//!   what that writer released.

use std::marker::PhantomData;

use super::primitive::{AtomicU64, Backoff, Ordering, fence};

const LATCHED: u64 = 1;
const OBSOLETE: u64 = 2;
const STEP: u64 = 4;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct VersionLatch(AtomicU64);

/// A state in which a latch was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

/// The latch is held; dropping this makes a new version.
#[derive(Debug)]
#[must_use = "dropping it releases the latch"]
pub(crate) struct Latched<'l> {
    latch: &'l VersionLatch,
    before: u64,
}

/// The right to write what a latch protects (rule 1): its latch is held, or nobody else can reach
/// it yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'l>(PhantomData<&'l ()>);

impl Writer<'static> {
    /// The right to write a node that no other thread can reach.
    pub(crate) const UNPUBLISHED: Self = Self(PhantomData);
}

impl VersionLatch {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until the latch is free. `None` if it is obsolete.
    #[inline]
    pub(crate) fn optimistic(&self) -> Option<Version> {
        let mut backoff = Backoff::default();
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & OBSOLETE != 0 {
                return None;
            }
            if word & LATCHED == 0 {
                return Some(Version(word));
            }
            backoff.wait();
        }
    }

    /// Whether the latch has not been held since `version` was observed.
    #[inline]
    pub(crate) fn validate(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Takes the latch if it has not been held since `version` was observed: everything read since
    /// then was valid.
    #[inline]
    pub(crate) fn try_latch(&self, version: Version) -> Option<Latched<'_>> {
        self.0
            .compare_exchange(
                version.0,
                version.0 | LATCHED,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        fence(Ordering::Release);
        Some(Latched {
            latch: self,
            before: version.0,
        })
    }

    /// Waits for the latch and takes it. `None` if it is obsolete.
    #[inline]
    pub(crate) fn latch(&self) -> Option<Latched<'_>> {
        loop {
            let version = self.optimistic()?;
            if let Some(latched) = self.try_latch(version) {
                return Some(latched);
            }
        }
    }

    /// The version, unless the latch is held or obsolete.
    #[inline]
    pub(crate) fn optimistic_now(&self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        (word & (LATCHED | OBSOLETE) == 0).then_some(Version(word))
    }

    /// Takes the latch if it is free and not obsolete.
    #[inline]
    pub(crate) fn try_latch_now(&self) -> Option<Latched<'_>> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (LATCHED | OBSOLETE) == 0 {
            self.try_latch(Version(word))
        } else {
            None
        }
    }
}

impl Latched<'_> {
    /// The right to write, for as long as the latch is held.
    #[inline]
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer(PhantomData)
    }

    /// Releases the latch; returns the version that this makes.
    pub(crate) fn release(self) -> Version {
        Version(self.before.wrapping_add(STEP))
    }

    /// Releases the latch and makes it obsolete.
    pub(crate) fn retire(self) {
        self.latch.0.store(OBSOLETE, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Latched<'_> {
    // Inlined: otherwise it lives in memory, and is stored by words and moved by vectors, for which
    // processors wait.
    #[inline]
    fn drop(&mut self) {
        self.latch
            .0
            .store(self.before.wrapping_add(STEP), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn versions_move_on_with_every_holder() {
        let latch = VersionLatch::new();
        let first = latch.optimistic().expect("not obsolete");
        let held = latch.try_latch(first).expect("free");
        assert!(!latch.validate(first));
        assert!(latch.try_latch(first).is_none());
        assert!(latch.try_latch_now().is_none());
        drop(held);
        assert!(!latch.validate(first));
        let second = latch.optimistic().expect("not obsolete");
        let third = latch.try_latch(second).expect("free").release();
        assert!(!latch.validate(second) && latch.validate(third));
        let second = third;
        assert_ne!(first, second);
        assert!(latch.validate(second));
    }

    #[test]
    fn obsolete_is_for_ever() {
        let latch = VersionLatch::new();
        latch.try_latch_now().expect("free").retire();
        assert!(latch.optimistic().is_none());
        assert!(latch.try_latch_now().is_none());
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p bedload-memory --lib --release loom_`.
#[cfg(all(test, loom))]
mod loom_models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Pair {
        latch: VersionLatch,
        data: [AtomicU64; 2],
    }

    impl Pair {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                latch: VersionLatch::new(),
                data: [AtomicU64::new(0), AtomicU64::new(0)],
            })
        }

        fn add_one(&self) {
            loop {
                let Some(version) = self.latch.optimistic() else {
                    return;
                };
                let Some(_held) = self.latch.try_latch(version) else {
                    thread::yield_now();
                    continue;
                };
                for cell in &self.data {
                    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                return;
            }
        }

        fn read(&self) -> Option<[u64; 2]> {
            let version = self.latch.optimistic()?;
            let read = [0, 1].map(|cell: usize| self.data[cell].load(Ordering::Relaxed));
            self.latch.validate(version).then_some(read)
        }
    }

    #[test]
    fn loom_validated_reads_are_never_torn() {
        loom::model(|| {
            let pair = Pair::new();
            let writer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || pair.add_one())
            };
            if let Some([a, b]) = pair.read() {
                assert_eq!(a, b);
            }
            writer.join().expect("the writer ends");
            assert_eq!(pair.read(), Some([1, 1]));
        });
    }

    #[test]
    fn loom_writers_exclude_each_other() {
        loom::model(|| {
            let pair = Pair::new();
            let writer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || pair.add_one())
            };
            pair.add_one();
            writer.join().expect("the writer ends");
            assert_eq!(pair.read(), Some([2, 2]));
        });
    }

    #[test]
    fn loom_nobody_latches_what_is_obsolete() {
        loom::model(|| {
            let pair = Pair::new();
            let retirer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || pair.latch.try_latch_now().map(Latched::retire).is_some())
            };
            pair.add_one();
            let is_retired = retirer.join().expect("the retirer ends");
            assert_eq!(is_retired, pair.latch.optimistic().is_none());
            assert_eq!(pair.read().is_none(), is_retired);
        });
    }
}
