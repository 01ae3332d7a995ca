//! About where a key's fence is: the range of the fences in slots of one length.

use crate::search::keys::LANES;

/// Slots for each fence, at least.
const SLOTS_EACH: usize = 2;

/// A slot has the place of the last fence up to the key at which it begins. So the fence of a key is the one of its slot's place,
/// or one of those behind it. As with radix splines (Kipf and others, aiDM 2020), but that there is no line between two slots:
/// where few fences lie in one, these are compared at once.
///
/// Invariants: there are slots for each fence, as many as that; all but the first fence lie in some; places are as above.
#[derive(Debug)]
pub(crate) struct FenceSlots {
    /// Where the first slot begins.
    base: u64,
    /// Bits of the length of a slot.
    length_bits: u32,
    places: Vec<u32>,
}

impl FenceSlots {
    /// Slots of one fence, 0.
    pub(crate) fn new() -> Self {
        Self::of(&[0])
    }

    /// Slots of these fences, with room for as many again and for those above, so that they are made anew seldom. Those of a few
    /// fences, which are compared at once anyway, have room for all keys.
    fn of(fences: &[u64]) -> Self {
        let slots = (2 * SLOTS_EACH * fences.len()).next_power_of_two();
        let last = fences[fences.len() - 1];
        let (base, last) = if fences.len() < LANES {
            (0, u64::MAX)
        } else {
            // The first branch has whatever lies below the second one: keys, probably, as far as other branches have.
            let gap = (last - fences[1]) / (fences.len() - 2) as u64;
            (fences[1].saturating_sub(2 * gap), last)
        };
        // Bits of slots so long that the last fence lies in the first half of them.
        let length_bits = |base: u64| {
            let span_bits = u64::BITS - (last - base).leading_zeros();
            (span_bits + 1).saturating_sub(slots.ilog2()).min(u64::BITS - 1)
        };
        // Distances from the base wrap: a key below it must not lie in a slot.
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

    /// The place of a fence up to this key behind which few others are, if it lies in a slot.
    #[inline(always)]
    pub(crate) fn first_place(&self, key: u64) -> Option<usize> {
        let slot = usize::try_from(key.wrapping_sub(self.base) >> self.length_bits).ok()?;
        self.places.get(slot).map(|&place| place as usize)
    }

    /// The first slot that begins at this fence or above.
    fn first_behind(&self, fence: u64) -> usize {
        let slots = fence.saturating_sub(self.base).div_ceil(1 << self.length_bits);
        usize::try_from(slots).unwrap_or(usize::MAX)
    }

    /// A fence has been put at this place, which is not the first.
    pub(crate) fn insert(&mut self, place: usize, fences: &[u64]) {
        let lies_outside = self.first_place(fences[place]).is_none();
        if lies_outside || self.places.len() < SLOTS_EACH * fences.len() {
            *self = Self::of(fences);
            return;
        }
        let behind = self.first_behind(fences[place]).min(self.places.len());
        self.places[behind..].iter_mut().for_each(|place| *place += 1);
    }

    /// A fence is taken away, which is not the first.
    pub(crate) fn remove(&mut self, fence: u64) {
        let behind = self.first_behind(fence).min(self.places.len());
        self.places[behind..].iter_mut().for_each(|place| *place -= 1);
    }

    /// What does not hold of the invariants.
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
