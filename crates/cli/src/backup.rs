//! `bedload backup` and `bedload restore`: a store copied, and checked where it was copied to.

use bedload::{Store, VerifyReport};
use serde_json::json;

use crate::args::CopyArgs;
use crate::exit::Result;
use crate::figures::grouped;
use crate::output::stdout::Stdout;
use crate::store;

pub(crate) fn back_up(args: &CopyArgs) -> Result<()> {
    let store: Store = store::open(&args.from)?;
    say(args, &store.backup(&args.to)?)
}

pub(crate) fn restore(args: &CopyArgs) -> Result<()> {
    say(args, &bedload::restore(&args.from, &args.to)?)
}

fn say(args: &CopyArgs, report: &VerifyReport) -> Result<()> {
    let mut out = Stdout::lock();
    let (rows, pages, blocks) = (report.rows, report.pages, report.blocks);
    if args.json {
        return out.line(&json!({ "rows": rows, "pages": pages, "blocks": blocks }));
    }
    out.line(&format!(
        "copied and checked: {} rows in {} pages and {} blocks",
        grouped(rows),
        grouped(pages),
        grouped(blocks)
    ))
}
