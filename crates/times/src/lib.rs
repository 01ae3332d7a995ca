//! Parses times and durations, as people write them, into ticks of a column of Arrow timestamps.
//!
//! The command, the Python package and `bedload`, with its feature `times`, parse every date, time
//! and duration with this crate, so that all accept the same forms and give the same answers.
//!
//! | form | meaning |
//! |---|---|
//! | `2013`, `2013-02`, `2013-02-08` | the beginning of the year, month or day |
//! | `2013-02-08T17:30`, `2013-02-08 17:30:15.25` | a reading of the clock in the column's zone |
//! | `2013-02-08T17:30Z`, `…+02:00`, `…-0500` | an instant |
//! | `-1h`, `-90min`, `-7d` | so long before now |
//! | `@1700000000` | ticks of the column's unit since 1970 |
//!
//! **Where clocks change,** a reading that occurs twice, or never, is an error that asks for the
//! offset; a date begins where clocks no longer show the day before. A column without a zone has no
//! such readings; instants are compared with it in UTC.
//!
//! ```
//! use arrow_schema::TimeUnit;
//! use bedload_times::{Clock, Error};
//!
//! let clock = Clock::new(TimeUnit::Second, Some("America/New_York"))?;
//! let now = std::time::SystemTime::now();
//! assert_eq!(clock.first_tick("2013-02-08 12:30", now)?, 1_360_344_600);
//! assert_eq!(clock.first_tick("2013-02-08T17:30Z", now)?, 1_360_344_600);
//! assert!(matches!(clock.first_tick("2020-11-01 01:30", now), Err(Error::Repeated { .. })));
//! # Ok::<(), Error>(())
//! ```

mod clock;
mod count;
mod duration;
mod error;
mod period;
mod time;
mod unit;
mod written;
mod zone;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use clock::{Clock, Point};
pub use count::WrittenCount;
pub use duration::{format_duration, parse_duration, parse_signed_duration};
pub use error::{Error, Result};
pub use period::Period;
pub use time::Time;
pub use unit::{digits_of_unit, nanos_per_tick, parse_unit, ticks_per_second, unit_for_digits, unit_name};
pub use written::WrittenTime;
pub use zone::Zone;
