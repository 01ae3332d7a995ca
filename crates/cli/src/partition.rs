//! `bedload query --partition`: an answer as a file for each day or month.

use std::collections::HashSet;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use arrow_schema::SchemaRef;
use bedload::Table;
use bedload_times::{Clock, Period, unit_name};

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
    let Some(format) = args.format.filter(|&format| format != Format::Table) else {
        return Err(Failure::usage(
            "--partition needs a --format for files, such as csv or parquet",
        ));
    };
    let (unit, zone) = store::time_type(table.schema());
    let clock = Clock::new(unit, zone).map_err(|error| Failure::input(error.to_string()))?;
    let file = |name: &str| directory.join(format!("{name}.{}", format.extension()));
    for name in cut_periods(&clock, partition.into(), selection.range) {
        let path = file(&name);
        if path.exists() {
            return Err(Failure::input(format!(
                "{} exists, and of {name} the range has only a part: begin and end it at midnight, or move the file away",
                path.display()
            )));
        }
    }
    let periods = || Periods {
        table,
        clock: &clock,
        period: partition.into(),
        left: Some(selection.range),
    };
    if !args.replace {
        refuse_to_replace(periods(), file, |range| has_rows(table, selection, range))?;
    }
    fs::create_dir_all(directory).map_err(|error| Failure::io(directory, &error))?;
    let (mut written, mut rows) = (HashSet::new(), 0);
    for period in periods() {
        let (name, range) = period?;
        let mut answer = None;
        for batch in selection.scan(table, range)? {
            let batch = batch?;
            interrupt::check()?;
            if batch.num_rows() == 0 {
                continue;
            }
            let open = match &mut answer {
                Some(open) => open,
                None => answer.insert(Answer::begin(format, Some(&file(&name)), schema, &args.null)?),
            };
            rows += batch.num_rows() as u64;
            open.write(&batch)?;
        }
        interrupt::check()?;
        if let Some(answer) = answer {
            answer.finish()?;
            written.insert(name);
        }
    }
    let plural = |files: u64| if files == 1 { "" } else { "s" };
    let files = written.len() as u64;
    let mut report = format!(
        "{} in {} file{} of {}",
        rows_text(rows),
        grouped(files),
        plural(files),
        directory.display()
    );
    if args.replace {
        let covered = Covered {
            range: selection.range,
            edges: store::edges(table)?,
        };
        let is_stale = |name: &str| !written.contains(name) && covered.has(&clock, partition.into(), name);
        let removed = remove_stale(directory, format.extension(), is_stale)?;
        if removed > 0 {
            let plural = plural(removed);
            report += &format!("; removed {} file{plural} without rows now", grouped(removed));
        }
    }
    Stdout::lock().line(&report)
}

/// The times that an export covers: those of its range. Where the range has no bound, they end with
/// the rows of the table, because a file of earlier or later times may be the only copy of rows
/// that were deleted.
struct Covered {
    range: TickRange,
    /// The first and the last time of the table.
    edges: Option<(i64, i64)>,
}

impl Covered {
    /// Whether it covers the whole period of a name, which is written as the export writes it.
    fn has(&self, clock: &Clock, period: Period, name: &str) -> bool {
        let Ok(begin) = clock.first_tick(name, SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let Ok((written, Some(end))) = clock.period(begin, period) else {
            return false;
        };
        let (from, to) = self.range;
        let is_after = match from {
            Bound::Included(from) | Bound::Excluded(from) => from <= begin,
            Bound::Unbounded => self.edges.is_some_and(|(first, _)| first < end),
        };
        let is_before = match to {
            Bound::Included(to) | Bound::Excluded(to) => end <= to,
            Bound::Unbounded => self.edges.is_some_and(|(_, last)| begin <= last),
        };
        written == name && is_after && is_before
    }
}

/// Removes the files of a directory whose names, but for this extension, `is_stale` tells of.
/// Returns how many there were.
fn remove_stale(directory: &Path, extension: &str, is_stale: impl Fn(&str) -> bool) -> Result<u64> {
    let failed = |error| Failure::io(directory, &error);
    let mut removed = 0;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        interrupt::check()?;
        let name = entry.file_name();
        let period = name
            .to_str()
            .and_then(|name| name.strip_suffix(extension)?.strip_suffix('.'));
        // A link is not followed.
        if period.is_some_and(&is_stale) && entry.file_type().map_err(failed)?.is_file() {
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| Failure::io(&path, &error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Fails if a file of the answer exists: it may have rows that were deleted from the table.
fn refuse_to_replace(
    periods: Periods<'_>,
    file: impl Fn(&str) -> PathBuf,
    has_rows: impl Fn(TickRange) -> Result<bool>,
) -> Result<()> {
    let (mut first, mut others) = (None, 0);
    for period in periods {
        let (name, range) = period?;
        let path = file(&name);
        if path.exists() && has_rows(range)? {
            match first {
                None => first = Some(path),
                Some(_) => others += 1,
            }
        }
    }
    let Some(first) = first else {
        return Ok(());
    };
    let exist = match others {
        0 => "exists".to_owned(),
        1 => "and 1 more file exist".to_owned(),
        _ => format!("and {} more files exist", grouped(others)),
    };
    Err(Failure::input(format!(
        "{} {exist}: with --replace, files are replaced by the rows that the table has now",
        first.display()
    )))
}

/// Whether a row of the answer lies in a range.
fn has_rows(table: &Table, selection: &Selection<'_>, range: TickRange) -> Result<bool> {
    for batch in selection.scan(table, range)?.limit(1) {
        if batch?.num_rows() > 0 {
            return Ok(true);
        }
    }
    interrupt::check()?;
    Ok(false)
}

/// The periods of a range in which a table has rows: their names, and what of the range is in them.
struct Periods<'a> {
    table: &'a Table,
    clock: &'a Clock,
    period: Period,
    left: Option<TickRange>,
}

impl Periods<'_> {
    fn after(&self, (from, to): TickRange) -> Result<Option<(String, TickRange)>> {
        let Some(first) = store::first_time(self.table, (from, to))? else {
            return Ok(None);
        };
        let (name, end) = self.clock.period(first, self.period).map_err(|_| {
            let (unit, _) = store::time_type(self.table.schema());
            let (table, unit) = (self.table.name(), unit_name(unit));
            Failure::input(format!(
                "table {table} has a row at {first} {unit}, outside the calendar, after whose day or month no file \
                 can be named: leave it out with --from or --to"
            ))
        })?;
        let part_to = match (end, to) {
            (Some(end), Bound::Excluded(to)) => Bound::Excluded(end.min(to)),
            (Some(end), _) => Bound::Excluded(end),
            (None, to) => to,
        };
        Ok(Some((name, (from, part_to))))
    }
}

impl Iterator for Periods<'_> {
    type Item = Result<(String, TickRange)>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.take()?;
        let next = self.after(left).transpose()?;
        if let Ok((_, (_, Bound::Excluded(end)))) = next
            && left.1 != Bound::Excluded(end)
        {
            self.left = Some((Bound::Included(end), left.1));
        }
        Some(next)
    }
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
