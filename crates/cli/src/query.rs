//! `bedload query`: the rows of a range of times, or how many there are.

use serde_json::json;

use crate::args::QueryArgs;
use crate::condition::Condition;
use crate::exit::Result;
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::output::{Answer, Format, is_written_directly};
use crate::selection::{Selection, stream};
use crate::{new_rows, partition, store};

pub(crate) fn run(args: &QueryArgs) -> Result<()> {
    let output = args.output.as_deref();
    // A directory may have any name.
    let file = output.filter(|_| args.partition.is_none());
    let format = Format::chosen(args.format, file)?;
    if output.is_some_and(|path| !is_written_directly(path)) {
        interrupt::catch()?;
    }
    let store = store::open_to_read(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let selection = Selection {
        range: store::tick_range(&table, &args.range)?,
        columns: args.columns.as_deref(),
        conditions: args
            .conditions
            .iter()
            .map(|text| Condition::read(&table, text))
            .collect::<Result<_>>()?,
        limit: args.limit,
        reverse: args.reverse,
    };
    if args.count {
        let rows = selection.ordered_scan(&table)?.count()?;
        let mut out = Stdout::lock();
        return match args.json {
            true => out.json(&json!({ "rows": rows })),
            false => out.line(&rows),
        };
    }
    let schema = selection.schema(&table)?;
    if let (Some(_), Some(directory)) = (args.partition, &args.output) {
        return partition::write(args, directory, (&table, &selection, &schema));
    }
    let begin = || Answer::begin(format, output, &schema, &args.null);
    if let Some(file) = &args.mark {
        let scan = new_rows::since(file, output, &table)?;
        let mark = scan.mark();
        stream(selection.narrow(scan)?, begin()?)?;
        return new_rows::save(file, mark);
    }
    stream(selection.ordered_scan(&table)?, begin()?).map(drop)
}
