//! `bedload backup` and `bedload restore`: a store copied, and checked where it was copied to.

use bedload::VerifyReport;
use serde_json::json;

use crate::args::CopyArgs;
use crate::exit::Result;
use crate::figures::{grouped, rows_text};
use crate::output::stdout::Stdout;
use crate::unfinished;

/// Runs both commands: a backup is a store, so restoring it means backing it up.
pub(crate) fn copy(args: &CopyArgs) -> Result<()> {
    let from = args.from.clone();
    let report = unfinished::store(&args.to, move |to| bedload::restore(from, to))?;
    say(args, &report).map_err(|failure| failure.with_note(unfinished::COPY_STAYS))
}

fn say(args: &CopyArgs, report: &VerifyReport) -> Result<()> {
    let mut out = Stdout::lock();
    let (rows, pages, blocks) = (report.rows, report.pages, report.blocks);
    if args.json {
        return out.json(&json!({ "rows": rows, "pages": pages, "blocks": blocks }));
    }
    out.line(&format!(
        "copied and checked: {} in {} pages and {} blocks",
        rows_text(rows),
        grouped(pages),
        grouped(blocks)
    ))
}
