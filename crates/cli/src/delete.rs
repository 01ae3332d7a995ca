//! `bedload delete`: forgets the rows of a range of times.

use serde_json::json;

use crate::args::DeleteArgs;
use crate::exit::{Failure, Result};
use crate::figures::grouped;
use crate::output::stdout::Stdout;
use crate::store;

pub(crate) fn run(args: &DeleteArgs) -> Result<()> {
    if args.range.from.is_none() && args.range.to.is_none() {
        return Err(Failure::usage("say which rows: give --from, --to or both"));
    }
    let store = store::open(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let range = store::tick_range(table.schema(), &args.range)?;
    let rows = table.range(range)?.count()?;
    table.delete_range(range)?;
    store.close()?;

    let mut out = Stdout::lock();
    if args.json {
        out.line(&json!({ "deleted": rows }))
    } else {
        out.line(&format!("deleted {} rows", grouped(rows)))
    }
}
