//! `bedload salvage`: copies the undamaged parts of a store into a new one.

use bedload::{Gap, SalvageReport, SalvagedTable};
use serde_json::{Value, json};

use crate::args::SalvageArgs;
use crate::exit::{Failure, Result, Status};
use crate::figures::rows_text;
use crate::output::stdout::Stdout;
use crate::printable::printable;
use crate::store;
use crate::times::format_ticks;
use crate::unfinished;

pub(crate) fn run(args: &SalvageArgs) -> Result<()> {
    let damaged = args.store.clone();
    let report = unfinished::store(&args.new, move |new| bedload::salvage(damaged, new))?;
    say(args, &report).map_err(|failure| failure.with_note(unfinished::COPY_STAYS))?;
    if report.is_complete() {
        return Ok(());
    }
    let (store, new) = (args.store.display(), args.new.display());
    let message = format!("{store} is damaged; what is whole in it was copied to {new}");
    Err(Failure::new(Status::Damaged, message))
}

fn say(args: &SalvageArgs, report: &SalvageReport) -> Result<()> {
    let mut out = Stdout::lock();
    if args.json {
        return out.json(&report_json(report));
    }
    for problem in &report.problems {
        out.line(problem)?;
    }
    for table in &report.tables {
        for line in table_lines(table)? {
            out.line(&line)?;
        }
    }
    Ok(())
}

fn report_json(report: &SalvageReport) -> Value {
    let gap = |gap: &Gap| json!({ "from_tick": gap.from, "to_tick": gap.to });
    let table = |table: &SalvagedTable| {
        json!({
            "name": table.name,
            "rows": table.rows,
            "missing": table.missing,
            "gaps": table.gaps.iter().map(gap).collect::<Vec<_>>(),
        })
    };
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    json!({
        "complete": report.is_complete(),
        "log_records": report.log_records,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
        "problems": problems,
    })
}

fn table_lines(table: &SalvagedTable) -> Result<Vec<String>> {
    let (unit, zone) = store::time_type(&table.schema);
    let time = |ticks: Option<i64>, open: &str| match ticks {
        Some(ticks) => format_ticks(ticks, unit, zone).map_err(Failure::input),
        None => Ok(open.to_owned()),
    };
    let missing = match table.missing {
        Some(0) => String::new(),
        Some(missing) => format!("; {} of the last checkpoint missing", rows_text(missing)),
        None => "; how many are missing cannot be told".to_owned(),
    };
    let mut lines = vec![format!(
        "{}: {}{missing}",
        printable(&table.name),
        rows_text(table.rows)
    )];
    for gap in &table.gaps {
        let (from, to) = (time(gap.from, "the beginning")?, time(gap.to, "the end")?);
        lines.push(format!("  rows may be missing from {from} to {to}"));
    }
    Ok(lines)
}
