//! `bedload retention`: for how long a table keeps its rows.

use std::ops::Bound;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_schema::TimeUnit;
use bedload::{Scan, Table};
use bedload_times::{format_duration, nanos_per_tick};
use serde_json::json;

use crate::args::RetentionArgs;
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::reserved;
use crate::store;

/// Note for a failure after which nothing is undone.
const DONE: &str = "the retention is set";

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// For ever.
    All,
    /// For so many nanoseconds.
    Nanoseconds(i128),
}

impl Keep {
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "off" {
            return Ok(Self::All);
        }
        match bedload_times::parse_duration(text) {
            Ok(nanoseconds) => Ok(Self::Nanoseconds(nanoseconds)),
            Err(error) => Err(format!("{error}, or `off`")),
        }
    }
}

pub(crate) fn run(args: &RetentionArgs) -> Result<()> {
    // A signal is heard before anything is deleted, and not after: a deletion cannot be taken back.
    interrupt::catch()?;
    let store = store::open_unless(args.dry_run || args.keep.is_none(), &args.store)?;
    let table = store::table(&store, &args.table)?;
    let (name, unit) = (table.name().to_owned(), store::time_type(table.schema()).0);
    let mut out = Stdout::lock();
    let Some(keep) = args.keep else {
        let info = store.info()?;
        let ticks = info.tables.iter().find(|info| info.name == name);
        let ticks = ticks.and_then(|info| info.retention);
        if args.json {
            return out.json(&json!({ "table": name, "retention_ticks": ticks }));
        }
        return out.line(&format!("table {name} keeps its rows {}", kept_text(ticks, unit)));
    };
    reserved::refuse(&name)?;
    let ticks = ticks_of(keep, unit)?;
    if args.dry_run {
        let rows = older_rows(&table, ticks)?;
        if args.json {
            return out
                .json(&json!({ "table": name, "retention_ticks": ticks, "rows": rows, "changed": false }));
        }
        return out.line(&format!(
            "too old in table {name}: {}; nothing was changed: --dry-run",
            rows_text(rows)
        ));
    }
    interrupt::check()?;
    let before = table.range(..)?.count()?;
    let kept = match keep {
        Keep::All => None,
        Keep::Nanoseconds(nanos) => Some(Duration::from_nanos_u128(nanos.unsigned_abs())),
    };
    table.set_retention(kept)?;
    interrupt::done();
    let after = table.range(..).and_then(Scan::count);
    drop(table);
    if let Err(error) = store.close() {
        crate::exit::warn(&format!(
            "{DONE}; the space of deleted rows is not free yet: {error}"
        ));
    }
    let report = || {
        let deleted = before - after?;
        if args.json {
            return out
                .json(&json!({ "table": name, "retention_ticks": ticks, "rows": deleted, "changed": true }));
        }
        out.line(&format!(
            "table {name} keeps its rows {}; deleted {}",
            kept_text(ticks, unit),
            rows_text(deleted)
        ))
    };
    report().map_err(|failure: Failure| failure.with_note(DONE))
}

/// For how long rows are kept, in words.
pub(crate) fn kept_text(ticks: Option<u64>, unit: TimeUnit) -> String {
    match ticks {
        Some(ticks) => {
            let nanos = i128::from(ticks) * i128::from(nanos_per_tick(unit));
            format!("for {}", format_duration(nanos))
        }
        None => "for ever".to_owned(),
    }
}

/// Ticks of a retention; a part of a tick counts as a whole one, as in the store.
fn ticks_of(keep: Keep, unit: TimeUnit) -> Result<Option<u64>> {
    let Keep::Nanoseconds(nanos) = keep else {
        return Ok(None);
    };
    let ticks = nanos
        .unsigned_abs()
        .div_ceil(u128::from(nanos_per_tick(unit).unsigned_abs()));
    let ticks = u64::try_from(ticks).map_err(|_| {
        Failure::usage(format!(
            "{} is more than the time column can count; `off` keeps all rows",
            format_duration(nanos)
        ))
    })?;
    Ok(Some(ticks))
}

/// Rows that lie further before the newest one than a retention reaches, as
/// [`Table::set_retention`] counts.
fn older_rows(table: &Table, ticks: Option<u64>) -> Result<u64> {
    let unit = store::time_type(table.schema()).0;
    let newest = store::edges(table)?.map(|(_, newest)| newest.min(now(unit)));
    match newest
        .zip(ticks)
        .and_then(|(newest, ticks)| newest.checked_sub_unsigned(ticks))
    {
        Some(first) => Ok(table.range((Bound::Unbounded, Bound::Excluded(first)))?.count()?),
        None => Ok(0),
    }
}

/// The present tick.
fn now(unit: TimeUnit) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let ticks = now.map(|now| now.as_nanos() / u128::from(nanos_per_tick(unit).unsigned_abs()));
    ticks.map_or(i64::MAX, |ticks| i64::try_from(ticks).unwrap_or(i64::MAX))
}
