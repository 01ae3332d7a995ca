//! Ticks of a column as times of the calendar.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use bedload_times::unit_name;

/// A number of ticks as a time of the calendar; as a number if the calendar does not reach that
/// far.
pub(crate) fn format_ticks(ticks: i64, unit: TimeUnit, zone: Option<&str>) -> Result<String, String> {
    let data_type = DataType::Timestamp(unit, zone.map(Arc::from));
    let array = cast(&Int64Array::from(vec![ticks]), &data_type).map_err(|error| error.to_string())?;
    let formatter =
        ArrayFormatter::try_new(&array, &FormatOptions::default()).map_err(|error| error.to_string())?;
    let text = formatter.value(0).try_to_string();
    Ok(text.unwrap_or_else(|_| format!("{ticks} {} since 1970", unit_name(unit))))
}
