//! The grid of times on which the rows of a sparse table stand.

use crate::error::{Error, Result};

/// The times that the rows of a sparse table may have: one every `interval`, in ticks of the time
/// column's unit.
///
/// ```
/// use bedload::Grid;
///
/// // Every ten seconds, at :03, :13, …, for a time column in milliseconds.
/// let grid = Grid::every(10_000)?.from(3_000);
/// assert_eq!(grid.interval(), 10_000);
/// # Ok::<(), bedload::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    interval: i64,
    /// The least time of the grid that is not negative, and so less than the interval.
    offset: i64,
}

/// The treatment of a row whose time lies between two times of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Snap {
    /// It is an error.
    #[default]
    Refuse,
    /// It gets the nearest time of the grid, the later one if both are as near.
    Nearest,
    /// It gets the last time of the grid before its own.
    Down,
}

impl Grid {
    /// A grid with a time every `interval` ticks, 0 among them.
    ///
    /// # Errors
    ///
    /// The interval is not positive.
    pub fn every(interval: i64) -> Result<Self> {
        if interval > 0 {
            Ok(Self { interval, offset: 0 })
        } else {
            Err(Error::schema(format!(
                "the interval of a sparse table is {interval}; it must be positive"
            )))
        }
    }

    /// The grid of the same interval that has the time `epoch`.
    #[must_use]
    pub fn from(self, epoch: i64) -> Self {
        Self {
            offset: epoch.rem_euclid(self.interval),
            ..self
        }
    }

    /// Ticks of the time column between two rows.
    #[must_use]
    pub fn interval(&self) -> i64 {
        self.interval
    }

    /// The least time of the grid that is not negative.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The number of the last time of the grid that is not after `time`, and whether it is that
    /// time.
    pub(crate) fn tick(&self, time: i64) -> (i64, bool) {
        match time.checked_sub(self.offset) {
            Some(since) if self.interval == 1 => (since, true),
            Some(since) => (
                since.div_euclid(self.interval),
                since.rem_euclid(self.interval) == 0,
            ),
            // The offset is less than the interval, so only the first interval of all reaches below
            // the numbers.
            None => {
                let tick = (i128::from(time) - i128::from(self.offset)).div_euclid(self.interval.into());
                let tick = i64::try_from(tick).unwrap_or(i64::MIN);
                (tick, self.time_wide(tick) == i128::from(time))
            }
        }
    }

    /// Returns the time of a tick that a row has; of other ticks, which may have no time, the
    /// wrapped result.
    pub(crate) fn time(&self, tick: i64) -> i64 {
        tick.wrapping_mul(self.interval).wrapping_add(self.offset)
    }

    fn time_wide(&self, tick: i64) -> i128 {
        i128::from(tick) * i128::from(self.interval) + i128::from(self.offset)
    }

    /// The time of a tick, or the time nearest to it where that has none.
    pub(super) fn nearest_time(&self, tick: i128) -> i64 {
        let tick = tick.clamp(i64::MIN.into(), i64::MAX.into());
        let time = tick * i128::from(self.interval) + i128::from(self.offset);
        let nearest = time.clamp(i64::MIN.into(), i64::MAX.into());
        i64::try_from(nearest).unwrap_or(i64::MIN)
    }

    /// Whether the tick has a time.
    pub(crate) fn has_tick(&self, tick: i64) -> bool {
        i64::try_from(self.time_wide(tick)).is_ok()
    }

    /// The tick that `snap` chooses for `time`; none if the time is refused.
    pub(crate) fn snap(&self, time: i64, snap: Snap) -> Option<i64> {
        let (tick, is_exact) = self.tick(time);
        if is_exact {
            return Some(tick);
        }
        // The grid may begin after the first time that there is, and end before the last.
        let chosen = match snap {
            Snap::Refuse => return None,
            Snap::Down => tick,
            Snap::Nearest => {
                let past = i128::from(time) - self.time_wide(tick);
                tick + i64::from(2 * past >= i128::from(self.interval))
            }
        };
        self.has_tick(chosen).then_some(chosen)
    }

    /// Whether the times are those of the grid, one after another.
    pub(crate) fn is_dense(&self, times: &[i64]) -> bool {
        let interval = Some(self.interval);
        times.first().is_none_or(|&first| self.tick(first).1)
            && times
                .windows(2)
                .all(|pair| pair[1].checked_sub(pair[0]) == interval)
    }

    /// The ticks whose times lie in a range; none if there are no such.
    pub(crate) fn ticks(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        let (from, is_exact) = self.tick(first);
        let from = if is_exact { from } else { from.checked_add(1)? };
        let (to, _) = self.tick(last);
        (from <= to).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_its_tick_at_the_ends_too() {
        for interval in [1, 2, 7, 60, 1_000_000_007, i64::MAX - 1, i64::MAX] {
            for epoch in [0, 1, 5, -3, i64::MIN, i64::MAX] {
                let grid = Grid::every(interval).expect("positive").from(epoch);
                let mut times = vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
                times.extend([-61, -60, -59, 59, 60, 61, grid.offset(), -grid.offset()]);
                for time in times {
                    let (tick, is_exact) = grid.tick(time);
                    let at = grid.time_wide(tick);
                    let next = at + i128::from(interval);
                    assert!(at <= time.into() && next > time.into(), "{grid:?} {time}");
                    assert_eq!(is_exact, at == time.into(), "{grid:?} {time}");
                    assert_eq!(
                        is_exact,
                        epoch.wrapping_sub(time) == 0 || {
                            (i128::from(time) - i128::from(epoch)).rem_euclid(interval.into()) == 0
                        }
                    );
                    if is_exact {
                        assert_eq!(grid.time(tick), time);
                    }
                }
            }
        }
    }

    #[test]
    fn off_grid_times_go_where_they_are_told() {
        let grid = Grid::every(10).expect("positive").from(3);
        assert_eq!(grid.snap(13, Snap::Refuse), Some(1));
        assert_eq!(grid.snap(14, Snap::Refuse), None);
        let snapped =
            |snap| [-8, -7, -3, -2, 2, 3, 7, 8, 12].map(|time| grid.snap(time, snap).map(|t| grid.time(t)));
        assert_eq!(snapped(Snap::Down), [-17, -7, -7, -7, -7, 3, 3, 3, 3].map(Some));
        assert_eq!(snapped(Snap::Nearest), [-7, -7, -7, 3, 3, 3, 3, 13, 13].map(Some));
        assert_eq!(grid.snap(i64::MIN, Snap::Down), None);
        assert_eq!(
            grid.snap(i64::MAX, Snap::Nearest).map(|tick| grid.time(tick)),
            Some(i64::MAX - 4)
        );
    }

    #[test]
    fn ranges_have_the_ticks_between_them() {
        let grid = Grid::every(10).expect("positive");
        assert_eq!(grid.ticks(0, 20), Some((0, 2)));
        assert_eq!(grid.ticks(1, 19), Some((1, 1)));
        assert_eq!(grid.ticks(1, 9), None);
        assert_eq!(grid.ticks(-10, -1), Some((-1, -1)));
        assert!(grid.ticks(i64::MIN, i64::MAX).is_some());
    }
}
