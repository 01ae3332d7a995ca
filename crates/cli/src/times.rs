//! Ticks of a column as times of the calendar.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use bedload_times::{Zone, ticks_per_second, unit_name};

/// The second since which all clocks are whole minutes from UTC: those of Monrovia were the last.
const WHOLE_MINUTES_SINCE: i64 = 63_593_070;

/// A number of ticks as a time of the calendar, in the zone if a text can have its offset and else
/// in UTC; as a number if the calendar does not reach that far.
pub(crate) fn format_ticks(ticks: i64, unit: TimeUnit, zone: Option<&str>) -> Result<String, String> {
    // The cast reports an unknown zone.
    let known = zone.and_then(|zone| Zone::parse(zone).ok());
    let zone = match known {
        Some(known) if has_seconds(&known, ticks, unit) => Some("UTC"),
        _ => zone,
    };
    let data_type = DataType::Timestamp(unit, zone.map(Arc::from));
    let array = cast(&Int64Array::from(vec![ticks]), &data_type).map_err(|error| error.to_string())?;
    let formatter =
        ArrayFormatter::try_new(&array, &FormatOptions::default()).map_err(|error| error.to_string())?;
    let text = formatter.value(0).try_to_string();
    Ok(text.unwrap_or_else(|_| format!("{ticks} {} since 1970", unit_name(unit))))
}

/// Whether the clocks of a zone were not whole minutes from UTC at a time, as those of Vienna until
/// 1893, which were 01:05:21 ahead. Texts have offsets in whole minutes, and `+01:05` after the
/// reading of such a clock would be another instant, so these times are written in UTC.
pub(crate) fn has_seconds(zone: &Zone, ticks: i64, unit: TimeUnit) -> bool {
    let since_1970 = ticks.div_euclid(ticks_per_second(unit));
    since_1970 < WHOLE_MINUTES_SINCE && zone.offset_at(since_1970).is_some_and(|ahead| ahead % 60 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_whose_offset_has_seconds_is_written_in_utc() {
        let text = |ticks, zone| format_ticks(ticks, TimeUnit::Second, zone).expect("a known zone");
        let vienna = Some("Europe/Vienna");
        assert_eq!(text(-2_840_140_800, vienna), "1880-01-01T00:00:00Z");
        assert_eq!(text(-2_422_055_122, vienna), "1893-03-31T22:54:38Z");
        assert_eq!(text(-2_422_055_121, vienna), "1893-03-31T23:54:39+01:00");
        assert_eq!(text(0, vienna), "1970-01-01T01:00:00+01:00");
        assert_eq!(text(-2_840_140_800, None), "1880-01-01T00:00:00");
        assert!(format_ticks(0, TimeUnit::Second, Some("Mars/Olympus")).is_err());
    }
}
