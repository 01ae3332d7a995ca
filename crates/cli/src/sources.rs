//! `bedload sources`: the counts that `ingest --source-id` keeps for a table.

use serde_json::{Value, json};

use crate::args::SourcesArgs;
use crate::exit::{Failure, Result};
use crate::figures::{rows_line, rows_text};
use crate::ingest::Counted;
use crate::input::listed;
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::printable::printable;
use crate::store;

/// Prints the counts of a table, or forgets one.
pub(crate) fn run(args: &SourcesArgs) -> Result<()> {
    match &args.forget {
        Some(id) => forget(args, id),
        None => list(args),
    }
}

fn list(args: &SourcesArgs) -> Result<()> {
    let store = store::open_to_read(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let counts = Counted::of_table(&store, &table)?;
    let mut out = Stdout::lock();
    if args.json {
        let sources: Vec<Value> = counts
            .iter()
            .map(|counted| json!({ "id": counted.id, "rows": counted.rows() }))
            .collect();
        return out.json(&json!({ "table": args.table, "sources": sources }));
    }
    counts.iter().try_for_each(|counted| {
        out.line(&format!(
            "{} of {}",
            rows_line(counted.rows()),
            printable(&counted.id)
        ))
    })
}

fn forget(args: &SourcesArgs, id: &str) -> Result<()> {
    interrupt::catch()?;
    let store = store::open(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let counts = Counted::of_table(&store, &table)?;
    let Some(counted) = counts.iter().find(|counted| counted.id == id) else {
        let ids: Vec<&str> = counts.iter().map(|counted| counted.id.as_str()).collect();
        return Err(Failure::input(format!(
            "table {} has no source {id}; there are: {}",
            args.table,
            listed(&ids)
        )));
    };
    interrupt::check()?;
    counted.forget(&store)?;
    interrupt::done();
    drop(table);
    let closed = store.close().map_err(Failure::from);
    let report = || {
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "table": args.table, "forgot": id, "rows": counted.rows() }));
        }
        let rows = rows_text(counted.rows());
        out.line(&format!(
            "forgot source {id} of table {}, which counted {rows}",
            args.table
        ))
    };
    let reported = closed.and_then(|()| report());
    reported.map_err(|failure| failure.with_note("the count is deleted"))
}
