//! Switching the head, and uniting parts (rules 2, 5 and 7 of the [module above](super)).

use std::ops::Bound;

use crossbeam_epoch as epoch;

use super::index::HeadIndex;
use super::layout::Parts;
use super::options::HeadKind;
use super::role::{Frozen, Role, UNITED_FROM};
use crate::map::key::Key;
use crate::sync::primitive::interleave;

/// Maximum number of entries in a chunk.
pub(super) const CHUNK: usize = if cfg!(any(test, miri, loom)) { 4 } else { 128 };
/// Consecutive thaws of a chunk after which writers may not thaw it.
const THAWS: u32 = 8;

impl<K: Key> HeadIndex<K> {
    /// Ends the head and begins one of this kind, unless it is of this kind already. `false` if all
    /// parts are in use.
    pub(super) fn switch(&self, role: &mut Role<K::Words>, kind: HeadKind) -> bool {
        let before = self.head();
        if before == kind {
            return true;
        }
        self.maps.make(kind);
        if !self.layout.switch(kind) {
            return false;
        }
        if before == HeadKind::SbTree {
            // Appends by writers that believe this to be the head end here (rule 4).
            self.maps.sb_tree.seal();
        }
        let written: u64 = self.slots.iter().map(|slot| slot.writes()).sum();
        role.sizes.push(written.saturating_sub(role.written));
        role.written = written;
        role.switches += 1;
        role.gauge.note_switch();
        true
    }

    /// Freezes a chunk, or moves the frozen one. `false` if there is nothing to do, or a writer
    /// must be waited for.
    pub(super) fn unite_some(&self, role: &mut Role<K::Words>, writer: Option<usize>) -> bool {
        match role.frozen.take() {
            None => self.freeze_chunk(role),
            Some(mut frozen) => {
                frozen
                    .present
                    .retain(|&(slot, turn)| !self.slots[slot].has_ended(turn));
                if !frozen.present.is_empty() {
                    role.frozen = Some(frozen);
                    return false;
                }
                if self.layout.begin_to_copy() {
                    role.thaws = 0;
                    self.move_chunk(role, writer, &frozen);
                } else {
                    role.thaws += 1;
                }
                true
            }
        }
    }

    /// Returns the part that is cheapest to move to its left neighbour; never the head, nor the
    /// first.
    fn lesser_part(role: &Role<K::Words>, parts: &Parts<K::Words>) -> Option<usize> {
        (1..parts.kinds.len() - 1).min_by_key(|&place| role.sizes.get(place).copied().unwrap_or(0))
    }

    fn freeze_chunk(&self, role: &mut Role<K::Words>) -> bool {
        let parts = self.layout.parts();
        if parts.kinds.len() < UNITED_FROM {
            return false;
        }
        let Some(place) = Self::lesser_part(role, &parts) else {
            return false;
        };
        let (low, end) = (parts.limits[place - 1], parts.limits[place]);
        let entries = self.entries_between(parts.kinds[place], low, end, CHUNK);
        let high = entries
            .last()
            .filter(|_| entries.len() == CHUNK)
            .map_or(end, |last| last.0);
        self.layout.freeze(low, high, role.thaws >= THAWS);
        self.barrier.pass();
        let slots = self.slots.iter().enumerate();
        let present = slots.filter_map(|(slot, writer)| Some((slot, writer.turn_under_way()?)));
        role.frozen = Some(Frozen {
            place,
            low,
            high,
            present: present.collect(),
        });
        true
    }

    /// Copies a chunk, updates the layout, and removes the entries from their old map.
    fn move_chunk(&self, role: &mut Role<K::Words>, writer: Option<usize>, frozen: &Frozen<K::Words>) {
        let mut parts = self.layout.parts();
        let (place, kind) = (frozen.place, parts.kinds[frozen.place]);
        let entries = self.entries_between(kind, frozen.low, frozen.high, usize::MAX);
        let to = parts.kinds[place - 1];
        for &(key, value) in &entries {
            let is_there = self.maps.insert(to, writer, K::from_words(key), value);
            debug_assert!(is_there, "a part's map is there (rule 2 of `maps`)");
        }
        interleave();
        let moved = entries.len() as u64;
        role.chunks += 1;
        role.moved += moved;
        role.sizes[place - 1] += moved;
        role.sizes[place] = role.sizes[place].saturating_sub(moved);
        let is_whole = frozen.high == parts.limits[place];
        parts.limits[place - 1] = frozen.high;
        if is_whole {
            parts.kinds.remove(place);
            parts.limits.remove(place);
            let rest = role.sizes.remove(place);
            role.sizes[place - 1] += rest;
            if parts.kinds[place - 1] == parts.kinds[place] {
                parts.kinds.remove(place - 1);
                parts.limits.remove(place - 1);
                let before = role.sizes.remove(place - 1);
                match role.sizes.get_mut(place - 1) {
                    Some(size) => *size += before,
                    // The entries belong to the head, whose size is computed at the switch.
                    None => role.written = role.written.saturating_sub(before),
                }
            }
        }
        self.layout.replace(&parts);
        interleave();
        // The SB-tree is kept (rule 6), so its entries must be removed.
        if kind != HeadKind::SbTree && !parts.kinds.contains(&kind) {
            self.maps.retire(kind, &epoch::pin());
            return;
        }
        for (key, _) in entries {
            self.maps.remove(kind, K::from_words(key));
        }
    }

    /// Returns the first entries of a map with keys above `low`, up to `high`.
    fn entries_between(
        &self,
        kind: HeadKind,
        low: K::Words,
        high: K::Words,
        limit: usize,
    ) -> Vec<(K::Words, u64)> {
        let guard = &epoch::pin();
        let Some(map) = self.maps.map(kind, guard) else {
            return Vec::new();
        };
        let bounds = (
            Bound::Excluded(K::from_words(low)),
            Bound::Included(K::from_words(high)),
        );
        let range = map.range(bounds).take(limit);
        range.map(|(key, value)| (key.to_words(), value)).collect()
    }
}
