//! `bedload add-columns`, `bedload rename-column` and `bedload drop-column`: add, rename and drop
//! columns of a table.

use serde_json::json;

use crate::args::{AddColumnsArgs, DropColumnArgs, RenameColumnArgs};
use crate::exit::{Failure, Result};
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::reserved;
use crate::schema;
use crate::store;

/// Adds columns to a table.
pub(crate) fn add(args: &AddColumnsArgs) -> Result<()> {
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    let columns = schema::parse_columns(&args.columns).map_err(Failure::usage)?;
    let names: Vec<String> = columns.iter().map(|column| column.name().clone()).collect();
    let store = store::open(&args.store)?;
    store::table(&store, &args.table)?;
    interrupt::check()?;
    drop(store.add_columns(&args.table, columns)?);
    interrupt::done();
    let closed = store.close().map_err(Failure::from);
    let report = || {
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "table": args.table, "added": names }));
        }
        let what = if names.len() == 1 { "column" } else { "columns" };
        out.line(&format!(
            "added {what} {} to table {}",
            names.join(", "),
            args.table
        ))
    };
    let reported = closed.and_then(|()| report());
    reported.map_err(|failure| failure.with_note("the columns are added"))
}

/// Gives a column of a table another name.
pub(crate) fn rename(args: &RenameColumnArgs) -> Result<()> {
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    let store = store::open(&args.store)?;
    store::table(&store, &args.table)?;
    interrupt::check()?;
    drop(store.rename_column(&args.table, &args.column, &args.new)?);
    interrupt::done();
    let closed = store.close().map_err(Failure::from);
    let report = || {
        let mut out = Stdout::lock();
        if args.json {
            let column = json!({ "table": args.table, "column": args.column, "renamed": args.new });
            return out.json(&column);
        }
        out.line(&format!(
            "column {} of table {} is column {} now",
            args.column, args.table, args.new
        ))
    };
    let reported = closed.and_then(|()| report());
    reported.map_err(|failure| failure.with_note("the column is renamed"))
}

/// Drops a column of a table.
pub(crate) fn drop_one(args: &DropColumnArgs) -> Result<()> {
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    let store = store::open(&args.store)?;
    store::table(&store, &args.table)?;
    interrupt::check()?;
    drop(store.drop_column(&args.table, &args.column)?);
    interrupt::done();
    let closed = store.close().map_err(Failure::from);
    let report = || {
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "table": args.table, "dropped": args.column }));
        }
        out.line(&format!("dropped column {} of table {}", args.column, args.table))
    };
    let reported = closed.and_then(|()| report());
    reported.map_err(|failure| failure.with_note("the column is dropped"))
}
