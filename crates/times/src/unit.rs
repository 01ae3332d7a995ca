//! Units of ticks.

use arrow_schema::TimeUnit;

/// Returns the ticks of a unit in a second.
#[must_use]
pub const fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the nanoseconds of a tick.
#[must_use]
pub const fn nanos_per_tick(unit: TimeUnit) -> i64 {
    1_000_000_000 / ticks_per_second(unit)
}

/// Returns the short name of a unit: `s`, `ms`, `us` or `ns`.
#[must_use]
pub const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Returns the unit with a short name.
#[must_use]
pub fn parse_unit(name: &str) -> Option<TimeUnit> {
    [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ]
    .into_iter()
    .find(|&unit| unit_name(unit) == name)
}

/// Returns the digits of a second's fraction that a unit represents: 0, 3, 6 or 9.
#[must_use]
pub const fn digits_of_unit(unit: TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Returns the coarsest unit that represents a fraction of this many digits.
#[must_use]
pub const fn unit_for_digits(digits: usize) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}
