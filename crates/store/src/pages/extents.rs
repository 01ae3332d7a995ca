//! Sets of places.

use std::collections::BTreeMap;

/// Neighbouring places, those of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    pub(crate) first: u32,
    pub(crate) places: u32,
}

impl Extent {
    /// A single place.
    pub(crate) fn one(first: u32) -> Self {
        Self { first, places: 1 }
    }

    /// The first place after it.
    pub(crate) fn end(self) -> u32 {
        self.first.saturating_add(self.places)
    }
}

/// Places of a file, as extents of which no two touch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Extents {
    /// First place to length.
    extents: BTreeMap<u32, u32>,
    places: u64,
}

impl Extents {
    /// How many places there are.
    pub(super) fn places(&self) -> u64 {
        self.places
    }

    /// The extents in ascending order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Extent> {
        let extent = |(&first, &places): (&u32, &u32)| Extent { first, places };
        self.extents.iter().map(extent)
    }

    /// Adds places, none of which is there.
    pub(super) fn insert(&mut self, extent: Extent) {
        self.places += u64::from(extent.places);
        let (mut first, mut len) = (extent.first, extent.places);
        if let Some((&before, &before_len)) = self.extents.range(..first).next_back()
            && before + before_len == first
        {
            self.extents.remove(&before);
            first = before;
            len += before_len;
        }
        if let Some(after_len) = self.extents.remove(&extent.end()) {
            len += after_len;
        }
        self.extents.insert(first, len);
    }

    /// Takes out whatever is there of some places.
    pub(super) fn remove(&mut self, extent: Extent) {
        let met: Vec<Extent> = self.meeting(extent).collect();
        for part in met {
            self.extents.remove(&part.first);
            self.places -= u64::from(part.places);
            for left in part.without(extent) {
                self.extents.insert(left.first, left.places);
                self.places += u64::from(left.places);
            }
        }
    }

    /// The extents that have places in common with `extent`, ascending.
    pub(super) fn meeting(&self, extent: Extent) -> impl Iterator<Item = Extent> {
        let before = self.extents.range(..extent.first).next_back();
        let within = self.extents.range(extent.first..extent.end());
        before
            .into_iter()
            .chain(within)
            .map(|(&first, &places)| Extent { first, places })
            .filter(move |part| part.end() > extent.first)
    }
}

impl Extent {
    /// Returns what remains without the places of another extent: before it, and after it.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let of = |first: u32, end: u32| {
            (first < end).then(|| Self {
                first,
                places: end - first,
            })
        };
        let before = of(self.first, self.end().min(other.first));
        let after = of(self.first.max(other.end()), self.end());
        before.into_iter().chain(after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn extents_are_a_set_of_places() {
        let mut rng = Rng::new(7);
        let (mut extents, mut places) = (Extents::default(), BTreeSet::new());
        for _ in 0..3000 {
            let first = u32::try_from(1 + rng.below(200)).expect("small");
            let extent = Extent {
                first,
                places: u32::try_from(1 + rng.below(12)).expect("small"),
            };
            let all = extent.first..extent.end();
            if all.clone().any(|place| places.contains(&place)) {
                let met: u32 = extents.meeting(extent).map(|part| part.places).sum();
                assert!(met > 0);
                extents.remove(extent);
                all.for_each(|place| {
                    places.remove(&place);
                });
            } else {
                assert_eq!(extents.meeting(extent).next(), None);
                extents.insert(extent);
                places.extend(all);
            }
            assert_eq!(extents.places(), places.len() as u64);
            let found: Vec<u32> = extents
                .iter()
                .flat_map(|extent| extent.first..extent.end())
                .collect();
            assert!(found.iter().eq(&places));
            let touch = extents
                .iter()
                .zip(extents.iter().skip(1))
                .any(|(a, b)| a.end() == b.first);
            assert!(!touch);
        }
    }
}
