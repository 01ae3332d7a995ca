//! `bedload verify`: reads everything in a store and lists what is damaged.

use bedload::{Error, Options, Problem};
use serde_json::json;

use crate::args::StoreArgs;
use crate::exit::{Failure, Result, Status};
use crate::figures::grouped;
use crate::output::stdout::Stdout;

/// The result of a check.
struct Findings {
    /// Pages and records of the log that were checked; none if the store cannot even be opened.
    checked: Option<(u64, u64)>,
    problems: Vec<Problem>,
}

pub(crate) fn run(args: &StoreArgs) -> Result<()> {
    let Findings { checked, problems } = look(args)?;
    let mut out = Stdout::lock();
    if args.json {
        let (pages, records) = checked.unzip();
        let listed: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let ok = problems.is_empty();
        out.json(&json!({ "ok": ok, "pages": pages, "log_records": records, "problems": listed }))?;
    } else {
        for problem in &problems {
            out.line(problem)?;
        }
        if let (Some((pages, records)), true) = (checked, problems.is_empty()) {
            let (pages, records) = (grouped(pages), grouped(records));
            out.line(&format!("OK: {pages} pages and {records} log records checked"))?;
        }
    }
    match problems.len() {
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

fn look(args: &StoreArgs) -> Result<Findings> {
    match Options::new().read_only(true).open(&args.store) {
        Ok(store) => {
            let report = store.verify()?;
            Ok(Findings {
                checked: Some((report.pages, report.log_records)),
                problems: report.problems,
            })
        }
        Err(error) => look_closed(error, || bedload::inspect(&args.store)),
    }
}

/// Looks into a store that could not be opened, if that is for damage or a read that failed.
fn look_closed(error: Error, inspect: impl FnOnce() -> bedload::Result<Vec<Problem>>) -> Result<Findings> {
    let problems = match error {
        Error::Corrupt { .. } => inspect()?,
        // It may have failed for another reason, or have been in something that is not inspected.
        Error::Io { action: "read", .. } => match inspect() {
            Ok(problems) if !problems.is_empty() => problems,
            _ => return Err(error.into()),
        },
        error => return Err(error.into()),
    };
    Ok(Findings {
        checked: None,
        problems,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn failed(action: &'static str) -> Error {
        Error::Io {
            path: "s/data".into(),
            action,
            source: io::Error::other("a bad sector"),
        }
    }

    #[test]
    fn a_store_that_cannot_be_read_is_inspected() {
        let problems = || vec![Problem::from(failed("read"))];
        let found = look_closed(failed("read"), || Ok(problems())).expect("it is inspected");
        assert_eq!((found.checked, found.problems), (None, problems()));
        for inspected in [Ok(Vec::new()), Err(failed("open"))] {
            let failure = look_closed(failed("read"), || inspected)
                .err()
                .expect("nothing is found");
            assert_eq!(failure.to_string(), "cannot read s/data: a bad sector");
        }
        let failure = look_closed(failed("open"), || panic!("it is not inspected"));
        assert!(failure.is_err());
    }
}
