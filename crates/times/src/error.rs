//! Errors of reading times.

/// The result of reading a time.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a text or clock reading is not a valid time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text has none of the accepted forms.
    #[error("`{text}` is not a time: {remedy}")]
    NotATime {
        /// The text.
        text: String,
        /// The forms that were most likely meant.
        remedy: String,
    },
    /// The text is not a duration.
    #[error(
        "`{text}` is not a duration: expected a positive number and a unit, one of ns, us, ms, s, min, h, d, w"
    )]
    NotADuration {
        /// The text.
        text: String,
    },
    /// The zone's clocks were set forward over this reading.
    #[error(
        "`{reading}` does not exist in {zone}, where clocks were set forward over it: add an offset, as in …+02:00 or …Z"
    )]
    Skipped {
        /// The reading.
        reading: String,
        /// The zone's name.
        zone: String,
    },
    /// The zone's clocks were set back and showed this reading twice.
    #[error(
        "`{reading}` occurs twice in {zone}, where clocks were set back: add an offset, as in …+02:00 or …Z"
    )]
    Repeated {
        /// The reading.
        reading: String,
        /// The zone's name.
        zone: String,
    },
    /// The time lies between two ticks of the unit.
    #[error("`{text}` is not a whole number of {unit} since 1970: round it up or down")]
    BetweenTicks {
        /// The time.
        text: String,
        /// The unit's short name.
        unit: &'static str,
    },
    /// The time is out of the range of the unit's 64 bits.
    #[error("`{text}` is beyond the range of a 64-bit number of {unit}")]
    OutOfRange {
        /// The time.
        text: String,
        /// The unit's short name.
        unit: &'static str,
    },
    /// No zone has this name.
    #[error("there is no time zone {name:?}")]
    UnknownZone {
        /// The name.
        name: String,
    },
}
