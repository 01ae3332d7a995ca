//! Lazy split: how entries follow, bucket by bucket, a split that has already happened (§4.2 of the paper).
//!
//! # States
//!
//! A split latches no bucket. It only moves the leaf's *generation* on, and that unsettles all buckets at once: a
//! bucket is what the paper calls
//!
//! ```text
//! STABLE         if it has followed as many splits as its leaf:       settled == generation
//! LINKED_LEFT    in a new right half, whose generation is 1:          settled == 0
//! LINKED_RIGHT   in the left half of the last split, from 2 on:       settled == generation - 1
//! ```
//!
//! and unsettled buckets come in pairs of the same index, LINKED_RIGHT on the left and LINKED_LEFT on the right. A
//! pair settles under both latches: what lies at or above the fence moves right, and both become STABLE.
//!
//! # Rules
//!
//! 1. A leaf whose buckets are not all settled is neither split nor converted. So a pair's partner is alive, the fence
//!    between them stands, and no bucket lags by more than one split.
//! 2. A LINKED_LEFT bucket is empty: nobody writes into it before it settles. So there is always room.
//! 3. Where entries are that are not at home is noted anew as buckets settle. Until all have, a key is looked for
//!    wherever it may be, which settles most buckets within a hundred operations. But a left half that keys which ascend
//!    leave behind keeps its notes with most of its entries: they name no place too few.
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

/// The leaves that the unsettled bucket of a leaf links. `None` if the leaf has changed since `version`.
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
    // Valid before it is looked at: only then is the sibling alive.
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

/// Lets one bucket follow its leaf's last split, if it has not. False if somebody was in the way.
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
    // While unsettled, the pair cannot change (rule 1); once settled by another, it is not ours to move.
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

/// Lets every bucket of a leaf follow its last split. False if the leaf has changed since `version`.
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
