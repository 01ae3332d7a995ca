//! Parallel scans: several processes read the ranges of one search, each of them stretches.
//!
//! The processes share a *fence*, the position up to which stretches have been taken. A process
//! that wants a stretch reads the fence, asks the tree where a stretch from there should end, and
//! moves the fence there. If another process has moved it meanwhile, it tries again from the new
//! fence. No process waits for another that reads pages.
//!
//! 1. A stretch is what lies between two fences in the order of positions, whatever pages it is on.
//!    Entries with equal keys differ by the addresses of their rows. So each entry lies in one
//!    stretch, and merges, splits and bulk deletions do not change that: the tree's advice about
//!    where to end a stretch matters for speed alone.
//! 2. Each process reads its stretches as any scan reads a range, and has read the head before the
//!    tree. All of them began after the query's snapshot was taken, so each finds the entries of
//!    all rows that the snapshot sees.
//! 3. A fence moves in the direction of the scan alone: what a process returns is in order.
//! 4. No entries wait in the leader: they are published before a statement that may have workers
//!    (rule 4 of `pending`).

#![expect(unsafe_code, reason = "the fence is in memory that PostgreSQL shares")]

use std::ffi::c_void;
use std::hint::spin_loop;
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use pgrx::{pg_guard, pg_sys};

use super::position::Place;
use super::search::Search;
use super::state::Scan;
use crate::compat;
use crate::index::{ENTRY_LEN_MAX, Index, Way};
use crate::key::{Entry, EntryRef, Form};

/// Leaves of each run in a stretch: enough for a claim to take little of the time that its stretch
/// takes, and few enough for processes to end at about the same time.
const STRETCH_LEAVES: usize = 16;

const WORD_LEN: usize = size_of::<u64>();
const KEY_WORDS: usize = ENTRY_LEN_MAX.div_ceil(WORD_LEN);

/// How often a process looks at a fence that is being written before it yields the processor.
const SPINS: u32 = 100;

/// The fence of a parallel scan, in shared memory: a sequence lock.
///
/// A process that ends between the two changes of the version was killed, and then the server
/// begins again: no error and no signal handler comes between.
#[repr(C)]
pub(super) struct SharedFence {
    /// Odd while a process writes the rest.
    version: AtomicU64,
    /// One of the states below; from [`AT`] on the fence is at a position, with so many bytes of a
    /// key.
    state: AtomicU64,
    prefix: AtomicU64,
    tie: AtomicU64,
    key: [AtomicU64; KEY_WORDS],
}

const UNBEGUN: u64 = 0;
const OVER: u64 = 1;
const AT: u64 = 2;

/// Up to where stretches have been taken.
enum Fence {
    Unbegun,
    /// Ascending, the next stretch begins here; descending, it ends before.
    At(Entry),
    Over,
}

/// A part of the order that one process reads, and the ranges of the search that meet it.
#[derive(Debug)]
pub(super) struct Stretch {
    low: Bound<Entry>,
    high: Bound<Entry>,
    pub(super) ranges: RangeInclusive<usize>,
}

impl Stretch {
    /// The part of a range that lies within.
    pub(super) fn clip<'e>(&'e self, from: &'e Entry, to: &'e Entry) -> (Bound<&'e Entry>, Bound<&'e Entry>) {
        let low = match &self.low {
            Bound::Included(low) if low > from => Bound::Included(low),
            _ => Bound::Included(from),
        };
        let high = match &self.high {
            Bound::Included(high) if high < to => Bound::Included(high),
            Bound::Excluded(high) if high <= to => Bound::Excluded(high),
            _ => Bound::Included(to),
        };
        (low, high)
    }
}

impl SharedFence {
    /// The fence, and its version.
    fn read(&self, form: Form) -> (u64, Fence) {
        let mut looks = 0_u32;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let state = self.state.load(Ordering::Relaxed);
                let (prefix, tie) = (
                    self.prefix.load(Ordering::Relaxed),
                    self.tie.load(Ordering::Relaxed),
                );
                let key = self.copy_key(state);
                // The reads above come before the second read of the version: if it has not
                // changed, no writer was between them.
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    let found = match state {
                        UNBEGUN => Fence::Unbegun,
                        OVER => Fence::Over,
                        _ => Fence::At(form.owned(EntryRef {
                            prefix,
                            tie,
                            key: &key,
                            payload: &[],
                        })),
                    };
                    return (version, found);
                }
            }
            looks += 1;
            if looks.is_multiple_of(SPINS) {
                std::thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// The key of a fence in a state, or nonsense if it is being written.
    fn copy_key(&self, state: u64) -> Vec<u8> {
        let len = usize::try_from(state.saturating_sub(AT)).unwrap_or(usize::MAX);
        let len = len.min(KEY_WORDS * WORD_LEN);
        let words = self.key[..len.div_ceil(WORD_LEN)].iter();
        let bytes = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        bytes.take(len).collect()
    }

    /// Moves the fence, unless another process has moved it since it had this version.
    fn advance(&self, version: u64, to: &Fence) -> bool {
        let is_ours = self
            .version
            .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !is_ours {
            return false;
        }
        // The odd version becomes visible before any of the writes below: a reader that sees one
        // of them finds that the version has changed.
        fence(Ordering::Release);
        let state = match to {
            Fence::Unbegun => UNBEGUN,
            Fence::Over => OVER,
            Fence::At(entry) => {
                let at = entry.borrowed();
                self.prefix.store(at.prefix, Ordering::Relaxed);
                self.tie.store(at.tie, Ordering::Relaxed);
                for (word, bytes) in self.key.iter().zip(at.key.chunks(WORD_LEN)) {
                    let mut padded = [0; WORD_LEN];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
                }
                AT + at.key.len() as u64
            }
        };
        self.state.store(state, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
        true
    }
}

impl Search {
    /// Where the first stretch beyond a fence begins, and the range in which it does; `None` if no
    /// range goes on there.
    fn beyond(&self, fence: &Fence, way: Way) -> Option<(usize, Bound<Entry>)> {
        let fence = match fence {
            Fence::Unbegun => None,
            Fence::At(fence) => Some(fence),
            Fence::Over => return None,
        };
        match way {
            Way::Up => {
                let range = fence.map_or(0, |fence| self.ranges.partition_point(|(_, to)| to < fence));
                let (from, _) = self.ranges.get(range)?;
                let low = fence.filter(|fence| *fence > from).unwrap_or(from);
                Some((range, Bound::Included(low.clone())))
            }
            Way::Down => {
                let before = fence.map_or(self.ranges.len(), |fence| {
                    self.ranges.partition_point(|(from, _)| from < fence)
                });
                let range = before.checked_sub(1)?;
                let (_, to) = self.ranges.get(range)?;
                let high = match fence {
                    Some(fence) if fence <= to => Bound::Excluded(fence.clone()),
                    _ => Bound::Included(to.clone()),
                };
                Some((range, high))
            }
        }
    }

    /// A stretch that begins in a range, up to the next fence.
    fn stretch(&self, (range, begin): (usize, Bound<Entry>), next: &Fence, way: Way) -> Stretch {
        let end = match next {
            Fence::At(end) => Some(end),
            _ => None,
        };
        match way {
            Way::Up => {
                let last = end.map_or(self.ranges.len(), |end| {
                    self.ranges.partition_point(|(from, _)| from < end)
                });
                Stretch {
                    low: begin,
                    high: end.cloned().map_or(Bound::Unbounded, Bound::Excluded),
                    ranges: range..=last.saturating_sub(1).max(range),
                }
            }
            Way::Down => {
                let first = end.map_or(0, |end| self.ranges.partition_point(|(_, to)| to < end));
                Stretch {
                    low: end.cloned().map_or(Bound::Unbounded, Bound::Included),
                    high: begin,
                    ranges: first.min(range)..=range,
                }
            }
        }
    }

    /// The fence at the end of a stretch: over, if no range goes on behind it.
    fn fence_at(&self, end: Option<Entry>, way: Way) -> Fence {
        let (Some(end), Some((from, to))) = (end, self.hull()) else {
            return Fence::Over;
        };
        let goes_on = match way {
            Way::Up => end <= *to,
            Way::Down => end > *from,
        };
        // No key is longer; were one, the rest would be one stretch.
        if goes_on && end.borrowed().key.len() <= KEY_WORDS * WORD_LEN {
            Fence::At(end)
        } else {
            Fence::Over
        }
    }
}

impl Scan {
    /// Goes to the next stretch that no process has taken; `false` if there is none, or if the scan
    /// is not parallel.
    ///
    /// # Safety
    ///
    /// The index is open and locked, and the parallel query, if this is one, under way.
    pub(super) unsafe fn take_stretch(&mut self, index: pg_sys::Relation, way: Way) -> bool {
        let Some(shared) = self.shared else {
            return false;
        };
        // SAFETY: the caller's: the memory is there as long as the query.
        let shared = unsafe { shared.as_ref() };
        let (next, begin) = loop {
            pgrx::check_for_interrupts!();
            let (version, fence) = shared.read(self.form);
            let Some(begin) = self.search.beyond(&fence, way) else {
                return false;
            };
            // SAFETY: the caller's.
            let end = unsafe { Index::open(index) }.stretch_end(begin.1.as_ref(), way, STRETCH_LEAVES);
            let next = self.search.fence_at(end, way);
            if shared.advance(version, &next) {
                break (next, begin);
            }
        };
        self.position.range = begin.0;
        self.position.reset(match way {
            Way::Up => Place::Below,
            Way::Down => Place::Above,
        });
        self.stretch = Some(self.search.stretch(begin, &next, way));
        true
    }
}

/// Has the server make parallel scans.
pub(crate) fn set_functions(am: &mut pg_sys::IndexAmRoutine) {
    am.amcanparallel = true;
    compat::set_parallel_scan_len::<{ size_of::<SharedFence>() }>(am);
    am.aminitparallelscan = Some(aminitparallelscan);
    am.amparallelrescan = Some(amparallelrescan);
}

#[pg_guard]
unsafe extern "C-unwind" fn aminitparallelscan(shared: *mut c_void) {
    const { assert!(UNBEGUN == 0) };
    // SAFETY: PostgreSQL passes memory of the length that it was told, aligned for any type, which
    // no other process has yet. All zero is a fence that is unbegun.
    unsafe { shared.cast::<SharedFence>().write_bytes(0, 1) };
}

#[pg_guard]
unsafe extern "C-unwind" fn amparallelrescan(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a parallel scan whose memory is there, between two executions of
    // it: its workers have ended, and new ones have not begun.
    unsafe {
        if let Some(shared) = compat::shared_of_scan(descriptor) {
            aminitparallelscan(shared.as_ptr());
        }
    }
}
