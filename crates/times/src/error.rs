//! Texts that are no times, and times that no column holds.

/// A result of reading a time.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a text or a reading of a clock gives no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text has none of the forms.
    #[error("`{text}` is not a time: {remedy}")]
    NotATime {
        /// The text.
        text: String,
        /// The forms that are meant most likely.
        remedy: String,
    },
    /// The text is no duration.
    #[error(
        "`{text}` is not a duration: expected a positive number and a unit, one of ns, us, ms, s, min, h, d, w"
    )]
    NotADuration {
        /// The text.
        text: String,
    },
    /// The clocks of a zone were set forward over this reading.
    #[error(
        "`{reading}` does not exist in {zone}, where clocks were set forward over it: add an offset, as in …+02:00 or …Z"
    )]
    Skipped {
        /// The reading.
        reading: String,
        /// The zone's name.
        zone: String,
    },
    /// The clocks of a zone were set back and showed this reading twice.
    #[error(
        "`{reading}` occurs twice in {zone}, where clocks were set back: add an offset, as in …+02:00 or …Z"
    )]
    Repeated {
        /// The reading.
        reading: String,
        /// The zone's name.
        zone: String,
    },
    /// The unit's 64 bits do not reach the time.
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
