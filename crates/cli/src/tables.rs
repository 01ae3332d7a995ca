//! `bedload tables`, `bedload rename` and `bedload drop`: list, rename and drop tables.

use serde_json::json;

use crate::args::{DropArgs, RenameArgs, StoreArgs};
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::reserved;
use crate::store;

/// Note for a failure after which nothing is undone.
const DROPPED: &str = "the table is dropped";

/// Prints the names, a line each, in the order in which the tables were created.
pub(crate) fn list(args: &StoreArgs) -> Result<()> {
    let tables = store::open_to_read(&args.store)?.tables();
    let mut out = Stdout::lock();
    if args.json {
        return out.json(&json!({ "tables": tables }));
    }
    tables.iter().try_for_each(|name| out.line(name))
}

/// Gives a table another name.
pub(crate) fn rename(args: &RenameArgs) -> Result<()> {
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    reserved::refuse(&args.new)?;
    let store = store::open(&args.store)?;
    store::table(&store, &args.table)?;
    interrupt::check()?;
    store.rename_table(&args.table, &args.new)?;
    interrupt::done();
    let closed = store.close().map_err(Failure::from);
    let report = || {
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "table": args.table, "renamed": args.new }));
        }
        out.line(&format!("table {} is table {} now", args.table, args.new))
    };
    let reported = closed.and_then(|()| report());
    reported.map_err(|failure| failure.with_note("the table is renamed"))
}

/// Removes a table.
pub(crate) fn drop(args: &DropArgs) -> Result<()> {
    interrupt::catch()?;
    if args.table != reserved::UNFINISHED {
        reserved::refuse(&args.table)?;
    }
    let store = store::open_unless(args.dry_run, &args.store)?;
    let table = store::table(&store, &args.table)?;
    let rows = table.range(..)?.count()?;
    let (name, described) = (table.name().to_owned(), rows_text(rows));
    std::mem::drop(table);
    // A signal is heard before the table is removed, and not after: it cannot be brought back.
    interrupt::check()?;
    let report = |line: &str| {
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "table": name, "rows": rows, "dropped": !args.dry_run }));
        }
        out.line(line)
    };
    if args.dry_run {
        return report(&format!(
            "table {name} has {described}; nothing was dropped: --dry-run"
        ));
    }
    store.drop_table(&name)?;
    interrupt::done();
    if let Err(error) = store.close() {
        crate::exit::warn(&format!("{DROPPED}; its space is not free yet: {error}"));
    }
    report(&format!("dropped table {name} with {described}")).map_err(|failure| failure.with_note(DROPPED))
}
