//! `bedload verify`: reads everything in a store and lists what is damaged.

use serde_json::json;

use crate::args::StoreArgs;
use crate::exit::{Failure, Result, Status};
use crate::output::stdout::Stdout;
use crate::sortedness::grouped;
use crate::store;

pub(crate) fn run(args: &StoreArgs) -> Result<()> {
    let store = store::open(&args.store)?;
    let report = store.verify()?;
    let mut out = Stdout::lock();
    if args.json {
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        let ok = problems.is_empty();
        let object = json!({ "ok": ok, "pages": report.pages, "log_records": report.log_records, "problems": problems });
        out.line(&object)?;
    } else {
        for problem in &report.problems {
            out.line(problem)?;
        }
        if report.problems.is_empty() {
            out.line(&format!(
                "whole: {} pages, {} rows",
                grouped(report.pages),
                grouped(report.rows)
            ))?;
        }
    }
    match report.problems.len() {
        0 => Ok(()),
        problems => {
            let plural = if problems == 1 { "problem" } else { "problems" };
            let store = args.store.display();
            Err(Failure::new(
                Status::Damaged,
                format!("{store} is damaged: {problems} {plural}"),
            ))
        }
    }
}
