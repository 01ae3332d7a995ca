//! Zone maps: the least and the greatest key of a page.

/// Bounds of some keys; of none at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Zone {
    pub(super) const EMPTY: Self = Self {
        min: u64::MAX,
        max: 0,
    };

    pub(super) fn widen(&mut self, key: u64) {
        self.min = self.min.min(key);
        self.max = self.max.max(key);
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.min <= key && key <= self.max
    }

    pub(super) fn of(keys: impl Iterator<Item = u64>) -> Self {
        let mut zone = Self::EMPTY;
        keys.for_each(|key| zone.widen(key));
        zone
    }
}
