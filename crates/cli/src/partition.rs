//! `bedload query --partition`: an answer as a file for each day or month.

use std::fs;
use std::ops::Bound;
use std::path::Path;

use arrow_schema::SchemaRef;
use bedload::Table;
use bedload_times::{Clock, Period};

use crate::args::QueryArgs;
use crate::exit::{Failure, Result};
use crate::figures::{grouped, rows_text};
use crate::interrupt;
use crate::output::stdout::Stdout;
use crate::output::{Answer, Format};
use crate::selection::Selection;
use crate::store::{self, TickRange};

/// Writes a file for each period that has rows in the answer, named after it, into `directory`.
pub(crate) fn write(
    args: &QueryArgs,
    directory: &Path,
    (table, selection, schema): (&Table, &Selection<'_>, &SchemaRef),
) -> Result<()> {
    let Some(partition) = args.partition else {
        return Err(Failure::usage("--partition is missing"));
    };
    if args.format == Format::Table {
        return Err(Failure::usage(
            "--partition needs a --format for files, such as csv or parquet",
        ));
    }
    let (unit, zone) = store::time_type(table.schema());
    let clock = Clock::new(unit, zone).map_err(|error| Failure::input(error.to_string()))?;
    let file = |name: &str| directory.join(format!("{name}.{}", args.format.extension()));
    for name in cut_periods(&clock, partition.into(), selection.range) {
        let path = file(&name);
        if path.exists() {
            return Err(Failure::input(format!(
                "{} exists, and of {name} the range has only a part: begin and end it at midnight, or move the file away",
                path.display()
            )));
        }
    }
    fs::create_dir_all(directory).map_err(|error| Failure::io(directory, &error))?;
    let (mut from, to) = selection.range;
    let (mut files, mut rows) = (0, 0);
    while let Some(first) = store::first_time(table, (from, to))? {
        let (name, end) = clock
            .period(first, partition.into())
            .map_err(|error| Failure::input(error.to_string()))?;
        let part_to = match (end, to) {
            (Some(end), Bound::Excluded(to)) => Bound::Excluded(end.min(to)),
            (Some(end), _) => Bound::Excluded(end),
            (None, to) => to,
        };
        let mut answer = None;
        for batch in selection.scan(table, (from, part_to))? {
            let batch = batch?;
            interrupt::check()?;
            if batch.num_rows() == 0 {
                continue;
            }
            let open = match &mut answer {
                Some(open) => open,
                None => answer.insert(Answer::begin(
                    args.format,
                    Some(&file(&name)),
                    schema,
                    &args.null,
                )?),
            };
            rows += batch.num_rows() as u64;
            open.write(&batch)?;
        }
        interrupt::check()?;
        if let Some(answer) = answer {
            files += 1;
            answer.finish()?;
        }
        match (end, to) {
            (Some(end), Bound::Excluded(to)) if end >= to => break,
            (Some(end), _) => from = Bound::Included(end),
            (None, _) => break,
        }
    }
    let plural = if files == 1 { "" } else { "s" };
    Stdout::lock().line(&format!(
        "{} in {} file{plural} of {}",
        rows_text(rows),
        grouped(files),
        directory.display()
    ))
}

/// The periods within which a range begins or ends: their files would lack the rows beyond it.
fn cut_periods(clock: &Clock, period: Period, (from, to): TickRange) -> Vec<String> {
    // In ticks, the end of a range is the beginning of what lies beyond it, too.
    let cut = |edge: Bound<i64>| {
        let (Bound::Included(edge) | Bound::Excluded(edge)) = edge else {
            return None;
        };
        let name_at = |tick| Some(clock.period(tick, period).ok()?.0);
        let name = name_at(edge)?;
        (name_at(edge.checked_sub(1)?)? == name).then_some(name)
    };
    [from, to].into_iter().filter_map(cut).collect()
}
