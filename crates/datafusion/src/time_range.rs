//! Ranges of ticks.

use std::fmt;

use datafusion::logical_expr::Operator;

/// The ticks from `first` to `last`, both included; empty if `first` is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl TimeRange {
    /// All ticks.
    pub(crate) const ALL: Self = Self {
        first: i64::MIN,
        last: i64::MAX,
    };

    /// No tick.
    pub(crate) const EMPTY: Self = Self { first: 0, last: -1 };

    fn new(first: i128, last: i128) -> Self {
        let first = i64::try_from(first.max(i128::from(i64::MIN)));
        let last = i64::try_from(last.min(i128::from(i64::MAX)));
        match (first, last) {
            (Ok(first), Ok(last)) if first <= last => Self { first, last },
            _ => Self::EMPTY,
        }
    }

    /// The ticks that compare so with `value`. `None` for an operator that selects no range.
    pub(crate) fn comparing(operator: Operator, value: i64) -> Option<Self> {
        let value = i128::from(value);
        let (least, greatest) = (i128::from(i64::MIN), i128::from(i64::MAX));
        Some(match operator {
            Operator::Eq => Self::new(value, value),
            Operator::Lt => Self::new(least, value - 1),
            Operator::LtEq => Self::new(least, value),
            Operator::Gt => Self::new(value + 1, greatest),
            Operator::GtEq => Self::new(value, greatest),
            _ => return None,
        })
    }

    /// The ticks in both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self::new(
            i128::from(self.first.max(other.first)),
            i128::from(self.last.min(other.last)),
        )
    }

    pub(crate) fn is_empty(self) -> bool {
        self.first > self.last
    }
}

impl fmt::Display for TimeRange {
    /// Writes the bounds that there are, in ticks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (i64::MIN, i64::MAX) => f.write_str("all"),
            (first, i64::MAX) => write!(f, "{first}.."),
            (i64::MIN, last) => write!(f, "..={last}"),
            (first, last) => write!(f, "{first}..={last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each operator, over each value near zero and at both ends, selects the ticks for which it
    /// holds.
    #[test]
    fn ranges_have_the_ticks_for_which_the_comparison_holds() {
        let near = |middle: i64| (-3..=3).filter_map(move |offset| middle.checked_add(offset));
        let values: Vec<i64> = [i64::MIN, 0, i64::MAX].into_iter().flat_map(near).collect();
        for (&value, &tick) in values
            .iter()
            .flat_map(|value| values.iter().map(move |tick| (value, tick)))
        {
            let order = tick.cmp(&value);
            for (operator, holds) in [
                (Operator::Eq, order.is_eq()),
                (Operator::Lt, order.is_lt()),
                (Operator::LtEq, order.is_le()),
                (Operator::Gt, order.is_gt()),
                (Operator::GtEq, order.is_ge()),
            ] {
                let range = TimeRange::comparing(operator, value).unwrap();
                let has = range.first <= tick && tick <= range.last;
                assert_eq!(has, holds, "{tick} {operator} {value}: {range}");
            }
        }
        assert_eq!(TimeRange::comparing(Operator::NotEq, 1), None);
    }

    #[test]
    fn two_ranges_may_have_nothing_in_common() {
        let below = TimeRange::comparing(Operator::Lt, 5).unwrap();
        let above = TimeRange::comparing(Operator::Gt, 3).unwrap();
        assert_eq!(below.and(above), TimeRange { first: 4, last: 4 });
        let far = TimeRange::comparing(Operator::GtEq, 5).unwrap();
        assert!(below.and(far).is_empty());
        assert!(below.and(far).and(TimeRange::ALL).is_empty());
    }
}
