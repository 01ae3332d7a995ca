//! `bedload add-columns`: further columns of a table.

use serde_json::json;

use crate::args::AddColumnsArgs;
use crate::exit::{Failure, Result};
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::reserved;
use crate::schema;
use crate::store;

pub(crate) fn run(args: &AddColumnsArgs) -> Result<()> {
    interrupt::catch()?;
    reserved::refuse(&args.table)?;
    let columns = schema::parse_columns(&args.columns).map_err(Failure::usage)?;
    let names: Vec<String> = columns.iter().map(|column| column.name().clone()).collect();
    let store = store::open(&args.store)?;
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
