//! `bedload delete`: deletes the rows of a range of times.

use std::ops::Bound;

use bedload::Table;
use serde_json::json;

use crate::args::DeleteArgs;
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::reserved;
use crate::store::{self, TickRange};
use crate::times::format_ticks;

/// Note for a failure after which nothing is undone.
const DONE: &str = "the rows are deleted";

pub(crate) fn run(args: &DeleteArgs) -> Result<()> {
    if args.range.is_everything() {
        return Err(Failure::usage(
            "say which rows: give --from, --to or both, or --last",
        ));
    }
    // A signal is heard before the rows are deleted, and not after: a deletion cannot be taken
    // back.
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    let store = store::open_unless(args.dry_run, &args.store)?;
    let table = store::table(&store, &args.table)?;
    let range = store::tick_range(&table, &args.range)?;
    check_overlap(&table, range)?;
    let rows = table.range(range)?.count()?;
    let name = table.name();
    let described = describe(&table, range)?;

    let mut out = Stdout::lock();
    if !args.json {
        // Said before anything is deleted, so that a range that was misunderstood is seen even if
        // the rest fails. A reader that is gone keeps nothing from being deleted.
        let said = out.line(&format!("{} of table {name}, {described}", rows_text(rows)));
        if args.dry_run {
            said?;
        }
    }
    interrupt::check()?;
    let mut report = |deleted: u64, line: &str| {
        if !args.json {
            return out.line(line);
        }
        let (from, to) = (tick_of(range.0), tick_of(range.1));
        out.json(
            &json!({ "rows": rows, "deleted": deleted, "from_tick": from, "to_tick": to, "range": described }),
        )
    };
    if args.dry_run {
        return report(0, "nothing was deleted: --dry-run");
    }
    table.delete_range(range)?;
    interrupt::done();
    drop(table);
    // The deletion is durable; the next command can do the rest as well.
    if let Err(error) = store.close() {
        crate::exit::warn(&format!("{DONE}; their space is not free yet: {error}"));
    }
    report(rows, &format!("deleted {}", rows_text(rows))).map_err(|failure| failure.with_note(DONE))
}

/// Both ends of a range as times of the calendar.
fn describe(table: &Table, (from, to): TickRange) -> Result<String> {
    let from = match tick_of(from) {
        Some(tick) => format!("from {} (included)", time(table, tick)?),
        None => "from the first row".to_owned(),
    };
    let to = match tick_of(to) {
        Some(tick) => format!("to {} (not included)", time(table, tick)?),
        None => "to the last row".to_owned(),
    };
    Ok(format!("{from} {to}"))
}

/// Complains about a range in which a table that has rows can have none: most likely the times were
/// meant otherwise.
fn check_overlap(table: &Table, range: TickRange) -> Result<()> {
    let Some((first, last)) = store::edges(table)? else {
        return Ok(());
    };
    let (from, to) = (tick_of(range.0), tick_of(range.1));
    if from.is_none_or(|from| from <= last) && to.is_none_or(|to| to > first) {
        return Ok(());
    }
    Err(Failure::input(format!(
        "no row of table {} lies {}: its times go from {} to {}",
        table.name(),
        describe(table, range)?,
        time(table, first)?,
        time(table, last)?
    )))
}

fn time(table: &Table, tick: i64) -> Result<String> {
    let (unit, zone) = store::time_type(table.schema());
    format_ticks(tick, unit, zone).map_err(Failure::input)
}

fn tick_of(bound: Bound<i64>) -> Option<i64> {
    match bound {
        Bound::Included(tick) | Bound::Excluded(tick) => Some(tick),
        Bound::Unbounded => None,
    }
}
