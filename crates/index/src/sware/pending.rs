//! Entries that wait to be merged into the leaves of a branch.

/// Entries that a table has room for.
pub(super) const PENDING_ENTRIES: usize = (1 << PLACE_BITS) - 1;

/// Bits of a slot that say which entry it stands for; the others are a part of its hash.
const PLACE_BITS: u32 = 11;

/// Entries in order of arrival, and a hash table over them with linear probing: what is late is found in one step,
/// wherever it is, without a sort and without a filter before it. New entries are written one behind the other, and the
/// table is small, so that the tables of all branches stay in the cache.
#[derive(Debug, Default)]
pub(super) struct Pending {
    entries: Vec<(u64, u64)>,
    /// A power of two of slots, or none as long as there are no entries. 0 in those that are free, and at least one is;
    /// in the others one more than the place of an entry, and a part of its hash.
    slots: Box<[u16]>,
}

impl Pending {
    /// A table for this many entries, which will never fill more than three quarters of it.
    pub(super) fn with_room(entries: usize) -> Self {
        let slots = (entries * 4).div_ceil(3).next_power_of_two().max(4);
        Self {
            entries: Vec::with_capacity(entries),
            slots: vec![0; slots].into(),
        }
    }

    /// Whether this is a table at all.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        !self.slots.is_empty()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, u64)>() + size_of_val(&*self.slots)
    }

    /// Reads where the key would stand and what was written last, so that both are in the cache when they are wanted.
    #[inline(always)]
    pub(super) fn touch(&self, key: u64) -> u64 {
        let slot = self.slots.get(self.home(hash(key))).copied().unwrap_or(0);
        u64::from(slot) ^ self.entries.last().map_or(0, |entry| entry.0)
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the mask leaves an index into the slots"
    )]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    /// The slot of this key, or the free one where it belongs; and what it holds.
    #[inline(always)]
    fn slot(&self, key: u64) -> (usize, u16) {
        let hash = hash(key);
        let mut slot = self.home(hash);
        loop {
            let held = self.slots[slot];
            if held == 0 || (held >> PLACE_BITS == mark(hash) && self.entries[place(held)].0 == key) {
                return (slot, held);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let (_, held) = self.slot(key);
        (held != 0).then(|| self.entries[place(held)].1)
    }

    /// Puts an entry in, over an older one of the same key. There must be room.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: u64, value: u64) {
        let (slot, held) = self.slot(key);
        if held == 0 {
            self.entries.push((key, value));
            self.slots[slot] = slot_of(self.entries.len() - 1, hash(key));
        } else {
            self.entries[place(held)].1 = value;
        }
    }

    /// Takes an entry out, and moves those up that had to give way to it (Knuth, The Art of Computer Programming 3,
    /// 6.4, algorithm R).
    pub(super) fn remove(&mut self, key: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let (mut free, held) = self.slot(key);
        if held == 0 {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut next = free;
        loop {
            next = (next + 1) & mask;
            let moved = self.slots[next];
            if moved == 0 {
                break;
            }
            let home = self.home(hash(self.entries[place(moved)].0));
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(free) & mask {
                self.slots[free] = moved;
                free = next;
            }
        }
        self.slots[free] = 0;

        if let Some(&(last, _)) = self.entries.last()
            && last != key
        {
            let (slot, _) = self.slot(last);
            self.slots[slot] = slot_of(place(held), hash(last));
        }
        Some(self.entries.swap_remove(place(held)).1)
    }

    /// Appends the entries whose keys lie within the bounds, ascending.
    pub(super) fn sorted_between(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) {
        let from = entries.len();
        entries.extend(
            self.entries
                .iter()
                .filter(|(key, _)| (lower..=upper).contains(key)),
        );
        entries[from..].sort_unstable_by_key(|entry| entry.0);
    }

    /// Exchanges all entries, in order of arrival, for room.
    pub(super) fn drain_into(&mut self, entries: &mut Vec<(u64, u64)>) {
        entries.append(&mut self.entries);
        self.slots.fill(0);
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let held = self.slots.iter().filter(|&&slot| slot != 0).count();
        if held != self.entries.len() || (self.has_room() && held == self.slots.len()) {
            return Err(format!(
                "{held} slots are taken by {} pending entries",
                self.entries.len()
            ));
        }
        match (0..).zip(&self.entries).find(|(at, entry)| {
            let (_, held) = self.slot(entry.0);
            held == 0 || place(held) != *at
        }) {
            Some((_, (key, _))) => Err(format!("the pending key {key} is not found")),
            None => Ok(()),
        }
    }
}

#[inline(always)]
fn hash(key: u64) -> u64 {
    let mixed = (key ^ key >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32
}

/// The part of a hash that a slot has room for: bits that do not choose the slot.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "as many bits as there is room for"
)]
fn mark(hash: u64) -> u16 {
    (hash >> 16) as u16 >> PLACE_BITS
}

#[inline(always)]
fn place(held: u16) -> usize {
    usize::from(held & ((1 << PLACE_BITS) - 1)) - 1
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a table has room for fewer entries"
)]
fn slot_of(place: usize, hash: u64) -> u16 {
    mark(hash) << PLACE_BITS | (place + 1) as u16
}
