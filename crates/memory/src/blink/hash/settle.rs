//! Lazy split: after a split, entries move bucket by bucket (§4.2 of the paper).
//!
//! # States
//!
//! A split latches no bucket. It only increments the leaf's *generation*, which unsettles all
//! buckets at once. The paper's states of a bucket are:
//!
//! ```text
//! STABLE         if it has followed as many splits as its leaf:       settled == generation
//! LINKED_LEFT    in a new right half, whose generation is 1:          settled == 0
//! LINKED_RIGHT   in the left half of the last split, from 2 on:       settled == generation - 1
//! ```
//!
//! Unsettled buckets come in pairs of the same index, LINKED_RIGHT on the left and LINKED_LEFT on
//! the right. A pair settles under both latches: entries at or above the fence move right, and both
//! become STABLE.
//!
//! # Rules
//!
//! 1. A leaf with unsettled buckets is neither split nor converted. So a pair's partner is alive,
//!    the fence between them is fixed, and no bucket lags by more than one split.
//! 2. A LINKED_LEFT bucket is empty: no thread writes to it before it settles. So there is always
//!    room.
//! 3. Stray entries are noted again as buckets settle. Until all have, a key is searched in every
//!    bucket where it may be, which settles most buckets within a hundred operations. But a left
//!    half that ascending keys leave behind keeps its notes together with most of its entries: they
//!    may list too many buckets, never too few.
//! 4. The left latch of a pair is waited for, the right one tried.

use crossbeam_epoch::Guard;

use super::hash_leaf::HashLeaf;
use crate::search::columns::Words;
use crate::sync::primitive::{Backoff, interleave};
use crate::sync::version_latch::Version;

/// The two leaves of an unsettled pair.
struct Pair<'g, W: Words> {
    left: &'g HashLeaf<W>,
    right: &'g HashLeaf<W>,
    fence: W,
}

/// Returns the two leaves that an unsettled bucket links. `None` if the leaf has changed since
/// `version`.
fn pair_of<'g, W: Words>(leaf: &'g HashLeaf<W>, version: Version, guard: &'g Guard) -> Option<Pair<'g, W>> {
    if leaf.generation() == 1 {
        let left = leaf.left(guard)?.downcast()?;
        let fence = leaf.low()?;
        return leaf.header().latch.validate(version).then_some(Pair {
            left,
            right: leaf,
            fence,
        });
    }
    let (fence, right) = leaf.header().right(guard)?;
    // Validate before reading the sibling: only then is it alive.
    if !leaf.header().latch.validate(version) {
        return None;
    }
    let right = right.downcast()?;
    Some(Pair {
        left: leaf,
        right,
        fence,
    })
}

/// Makes one bucket follow its leaf's last split, if it has not. `false` if another thread was in
/// the way.
pub(super) fn settle<W: Words>(leaf: &HashLeaf<W>, bucket: usize, version: Version, guard: &Guard) -> bool {
    if leaf.is_settled(bucket) {
        return leaf.header().latch.validate(version);
    }
    let Some(Pair { left, right, fence }) = pair_of(leaf, version, guard) else {
        return false;
    };
    let (from, to) = (&left.buckets()[bucket], &right.buckets()[bucket]);
    from.prefetch_all();
    let Some(from_latched) = from.latch.latch() else {
        return false;
    };
    interleave();
    let Some(to_latched) = to.latch.try_latch_now() else {
        return false;
    };
    // While unsettled, the pair cannot change (rule 1); once settled, there is nothing to move.
    if to.settled() != 0 {
        return true;
    }
    for slot in from.entries() {
        let key = from.key(slot);
        if key >= fence {
            if !from.is_viewed(slot) {
                right.view().mark(bucket, to_latched.writer());
            }
            from.move_to(slot, to, to_latched.writer());
            right.note_place(&key, bucket);
        } else if !left.keeps_notes() {
            left.note_place(&key, bucket);
        }
    }
    left.note_settled(bucket, from_latched.writer());
    right.note_settled(bucket, to_latched.writer());
    true
}

/// Makes every bucket of a leaf follow its last split. `false` if the leaf has changed since
/// `version`.
pub(super) fn settle_all<W: Words>(leaf: &HashLeaf<W>, version: Version, guard: &Guard) -> bool {
    let mut backoff = Backoff::default();
    while !leaf.all_settled() {
        for bucket in 0..leaf.buckets().len() {
            if !settle(leaf, bucket, version, guard) {
                backoff.wait();
            }
        }
        if !leaf.header().latch.validate(version) {
            return false;
        }
    }
    leaf.header().latch.validate(version)
}
