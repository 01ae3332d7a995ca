//! The header of CSV: the names of its columns.

use crate::exit::{Failure, Result};
use crate::input::Wanted;

/// A header whose columns without a name, such as the index that pandas writes, have one by their
/// place.
pub(super) fn with_names(mut header: Vec<String>) -> Vec<String> {
    for (place, name) in header.iter_mut().enumerate().filter(|(_, name)| name.is_empty()) {
        *name = format!("column{}", place + 1);
    }
    header
}

/// Fails if the header is one unwanted column that another separator would divide.
pub(super) fn refuse_undivided(name: &str, header: &[String], wanted: &Wanted) -> Result<()> {
    let [column] = header else { return Ok(()) };
    let separators = [(';', ";"), ('\t', "\\t"), ('|', "|"), (',', ",")];
    let found = separators
        .iter()
        .filter(|(separator, _)| *separator != char::from(wanted.delimiter))
        .find(|(separator, _)| column.contains(*separator));
    let of_table = wanted.table.iter().flat_map(|table| table.fields());
    let asked_for = wanted.time.iter().chain(wanted.columns.iter().flatten());
    let is_known = asked_for
        .chain(of_table.map(|field| field.name()))
        .any(|name| name == column);
    match found {
        Some((_, written)) if !is_known => Err(Failure::input(format!(
            "{name}:1: the header is one column, `{column}`: give --delimiter '{written}' if that \
             separates the columns"
        ))),
        _ => Ok(()),
    }
}
