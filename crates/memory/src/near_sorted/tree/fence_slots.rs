//! Approximate positions of fences: their range divided into slots of equal length.

use crate::search::keys::LANES;

/// Minimum number of slots per fence.
const SLOTS_EACH: usize = 2;

/// A slot stores the position of the last fence at or below its first key. So the fence of a key is
/// at that position or shortly after it. This resembles radix splines (Kipf and others, aiDM 2020)
/// without a line between two slots: few fences lie in one slot, and these are compared at once.
///
/// Invariants: there are at least `SLOTS_EACH` slots per fence; all fences but the first lie in
/// one; positions are as above.
#[derive(Debug)]
pub(crate) struct FenceSlots {
    /// The first key of the first slot.
    base: u64,
    /// Log₂ of the length of a slot.
    length_bits: u32,
    places: Vec<u32>,
}

impl FenceSlots {
    /// Creates the slots of one fence, 0.
    pub(crate) fn new() -> Self {
        Self::of(&[0])
    }

    /// Creates the slots of these fences, with room for as many again and for greater ones, so that
    /// rebuilding is rare. The slots of a few fences, which are compared at once anyway, cover all
    /// keys.
    fn of(fences: &[u64]) -> Self {
        let slots = (2 * SLOTS_EACH * fences.len()).next_power_of_two();
        let last = fences[fences.len() - 1];
        let (base, last) = if fences.len() < LANES {
            (0, u64::MAX)
        } else {
            // The first branch has all keys below the second fence; assume that they span as far as
            // those of other branches.
            let gap = (last - fences[1]) / (fences.len() - 2) as u64;
            (fences[1].saturating_sub(2 * gap), last)
        };
        // Makes slots so long that the last fence lies in the first half of them.
        let length_bits = |base: u64| {
            let span_bits = u64::BITS - (last - base).leading_zeros();
            (span_bits + 1).saturating_sub(slots.ilog2()).min(u64::BITS - 1)
        };
        // Distances from the base wrap: a key below the base must not fall into a slot.
        let range = (slots as u128) << length_bits(base);
        let base = if u128::from(base) + range > u128::from(u64::MAX) {
            0
        } else {
            base
        };
        let mut new = Self {
            base,
            length_bits: length_bits(base),
            places: Vec::with_capacity(slots),
        };
        let mut place = 0;
        for &fence in &fences[1..] {
            new.places
                .resize(new.first_behind(fence).max(new.places.len()), place);
            place += 1;
        }
        new.places.resize(slots, place);
        new
    }

    /// Returns the position of a fence at or shortly before this key's, if the key lies in a slot.
    #[inline(always)]
    pub(crate) fn first_place(&self, key: u64) -> Option<usize> {
        let slot = usize::try_from(key.wrapping_sub(self.base) >> self.length_bits).ok()?;
        self.places.get(slot).map(|&place| place as usize)
    }

    /// Returns the first slot that begins at or above this fence.
    fn first_behind(&self, fence: u64) -> usize {
        let slots = fence.saturating_sub(self.base).div_ceil(1 << self.length_bits);
        usize::try_from(slots).unwrap_or(usize::MAX)
    }

    /// Notes a fence inserted at this position, which is not the first.
    pub(crate) fn insert(&mut self, place: usize, fences: &[u64]) {
        let lies_outside = self.first_place(fences[place]).is_none();
        if lies_outside || self.places.len() < SLOTS_EACH * fences.len() {
            *self = Self::of(fences);
            return;
        }
        let behind = self.first_behind(fences[place]).min(self.places.len());
        self.places[behind..].iter_mut().for_each(|place| *place += 1);
    }

    /// Notes the removal of a fence, which is not the first.
    pub(crate) fn remove(&mut self, fence: u64) {
        let behind = self.first_behind(fence).min(self.places.len());
        self.places[behind..].iter_mut().for_each(|place| *place -= 1);
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }

    /// Checks the invariants.
    pub(crate) fn check(&self, fences: &[u64]) -> Result<(), String> {
        for (slot, &place) in self.places.iter().enumerate() {
            let begin = (slot as u64)
                .checked_mul(1 << self.length_bits)
                .and_then(|distance| distance.checked_add(self.base));
            let last = fences.partition_point(|&fence| fence <= begin.unwrap_or(u64::MAX)) - 1;
            if place as usize != last {
                return Err(format!("slot {slot} of fences has {place} in place of {last}"));
            }
        }
        let lies_outside = |&fence: &u64| self.first_place(fence).is_none();
        if let Some(fence) = fences[1..].iter().copied().find(lies_outside) {
            return Err(format!("the fence {fence} lies in no slot"));
        }
        Ok(())
    }
}
