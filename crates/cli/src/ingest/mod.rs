//! `bedload ingest`: rows of files into a table.
//!
//! Each batch is durable once the store has taken it. A bad row may be found batches later; then
//! the rows of this run are taken back, and the store is as it was. A run that is killed leaves its
//! complete batches; with `--source-id` every failed run does, and the next one continues after
//! them. With `--follow` a run ends by a signal as by the end of its input, and nothing is undone.
//! With `--dry-run` rows take the same way up to the table, which checks them and takes none.

mod assumed_unit;
mod dry_run;
mod halves;
mod measure;
mod report;
mod source;
mod target;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::filter::filter_record_batch;
use bedload::{Appended, Layout, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use rustix::event::PollFlags;

use self::halves::{Tried, commit_in_halves};
use self::measure::Measure;
pub(crate) use self::report::Report;
pub(crate) use self::source::Counted;
use self::source::Source;
use self::target::{Found, Target};
use crate::args::IngestArgs;
use crate::exit::{Failure, Result, Status};
use crate::figures::{grouped, rows_text};
use crate::input::{Input, Reason, Reject, Rejects, SKIP, Wanted, display_name};
use crate::interrupt;
use crate::layout;
use crate::output::stdout::Stdout;
use crate::printable::printable;
use crate::reserved;
use crate::schema;

/// Note for a failure after which nothing is undone.
const STAYS: &str = "the rows are durable and stay in the table";

pub(crate) fn run(args: &IngestArgs) -> Result<()> {
    let mut acknowledge = |rows: u64| {
        // Rows that are durable stay so, whether or not it is read. A signal ends the wait for a
        // slow reader.
        if args.ack && interrupt::wait(io::stdout().as_fd(), PollFlags::OUT).is_ok() {
            let _ = Stdout::lock().line(&format!("acknowledged {rows}"));
        }
    };
    let report = match load(args, &mut acknowledge) {
        // A live feed ended before its first row.
        Err(failure) if args.follow && failure.status().is_signal() => return Ok(()),
        loaded => loaded?,
    };
    report.print(args.json).map_err(|failure| match args.dry_run {
        true => failure,
        false => failure.with_note(STAYS),
    })
}

/// Loads the files, calling `acknowledge` with the rows of this run that are durable after each
/// batch.
pub(crate) fn load(args: &IngestArgs, acknowledge: &mut dyn FnMut(u64)) -> Result<Report> {
    match args.follow {
        true => interrupt::catch_to_finish()?,
        false => interrupt::catch()?,
    }
    reserved::refuse(&args.table)?;
    let started = Instant::now();
    let found = Found::look(&args.store, &args.table, args.dry_run)?;
    let mut wanted = wanted(args)?;
    found.check(&mut wanted, args)?;

    // The first file settles the columns, before anything is created.
    let (first, others) = files(args)?;
    let input = Input::open(first, &wanted)?;
    let target = found.create(input.schema(), wanted.time.as_deref(), args)?;
    wanted.table = Some(target.schema());

    let source = match &args.source_id {
        Some(id) => match Source::look_up(target.store(), target.table(), id) {
            Ok(source) => Some(source),
            Err(failure) => return Err(target.undo(failure, &[])),
        },
        None => None,
    };
    let taken_before = source.as_ref().map(Source::taken);
    let mut rejects = Rejects::new(args.on_error);
    let mut run = Run {
        target: &target,
        rejects: &mut rejects,
        measure: Measure::of(&target, args.order, !args.follow && !args.dry_run),
        acknowledge,
        source,
        is_live: args.follow,
        assumed_unit: None,
        moved_to_grid: Vec::new(),
    };
    let loaded = run
        .load(first, input)
        .and_then(|()| {
            others
                .iter()
                .try_for_each(|file| run.load(file, Input::open(file, &wanted)?))
        })
        .and_then(|()| run.source.as_ref().map_or(Ok(()), Source::finish));
    let (measure, assumed_unit) = (run.measure, run.assumed_unit);
    let loaded = match loaded {
        Err(failure) if args.follow && failure.status().is_signal() => Ok(()),
        loaded => loaded,
    };
    let reported = loaded.and_then(|()| {
        if !args.dry_run {
            target.store().flush()?;
        }
        let elapsed = started.elapsed();
        let order = match args.order {
            true => Some(measure.finish(target.table())?),
            false => None,
        };
        let report = Report {
            taken_before,
            assumed_unit,
            ..Report::new(&target, &args.table, &measure, order, rejects, elapsed)?
        };
        if !args.follow {
            interrupt::check()?;
        }
        Ok(report)
    });
    match reported {
        Ok(report) => {
            interrupt::done();
            target.close().map_err(|failure| failure.with_note(STAYS))?;
            Ok(report)
        }
        Err(failure) if taken_before.is_some() && measure.rows() > 0 && !args.dry_run => {
            let rows = rows_text(measure.rows());
            Err(failure.with_note(&format!(
                "{rows} of this run stay, and a run with the same --source-id goes on after them"
            )))
        }
        Err(failure) if args.follow && measure.rows() > 0 => {
            let rows = rows_text(measure.rows());
            Err(failure.with_note(&format!("{rows} of this run stay")))
        }
        Err(failure) => {
            let stretches = measure.stretches(target.table());
            Err(target.undo(failure, &stretches))
        }
    }
}

/// Fails if [`load`] into a new table would fail with the first file's beginning.
pub(crate) fn check_first_file(args: &IngestArgs) -> Result<()> {
    let (first, _) = files(args)?;
    Input::open(first, &wanted(args)?).map(drop)
}

/// The first file, and the others.
fn files(args: &IngestArgs) -> Result<(&PathBuf, &[PathBuf])> {
    if args.follow && args.files.len() > 1 {
        return Err(Failure::usage("--follow takes one input"));
    }
    args.files
        .split_first()
        .ok_or_else(|| Failure::usage("no file is given"))
}

fn wanted(args: &IngestArgs) -> Result<Wanted> {
    Ok(Wanted {
        time: args.time.clone(),
        columns: args.columns.clone(),
        given: schema::given("--schema", args.schema.as_deref())?,
        table: None,
        time_unit: args.time_unit,
        clock: args.time_zone.clone(),
        nulls: args.csv.nulls.clone(),
        delimiter: args.csv.delimiter,
        header: args.csv.header.clone(),
        batch_rows: args.batch_rows.get(),
        follow: args
            .follow
            .then(|| Duration::from_nanos(u64::try_from(args.every).unwrap_or(u64::MAX))),
        snapping: layout::snapping(&args.layout, args.layout.interval),
    })
}

/// One run over the files.
struct Run<'a> {
    target: &'a Target,
    rejects: &'a mut Rejects,
    measure: Measure,
    acknowledge: &'a mut dyn FnMut(u64),
    source: Option<Source>,
    /// Whether rows stay if one after them cannot be taken, and a signal is left to the input.
    is_live: bool,
    /// The unit of integers in the time column, if no one has named it.
    assumed_unit: Option<TimeUnit>,
    /// Rows of the batch under way whose time lay between two ticks and was moved to the grid.
    moved_to_grid: Vec<usize>,
}

impl Run<'_> {
    fn load(&mut self, file: &Path, mut input: Input) -> Result<()> {
        let file = display_name(file);
        let places = self.target.places(&file, input.schema())?;
        let mut unchecked = input.assumed_unit();
        self.assumed_unit = self.assumed_unit.or(unchecked);
        let bar = progress_bar(&file, input.progress().1);
        while let Some(batch) = input.next_batch(self.rejects)? {
            if batch.num_rows() > 0 {
                let table = self.target.table();
                let time = places[table.schema().time_column()];
                if let (Some(unit), Some(time)) = (unchecked.take(), time) {
                    assumed_unit::check(&file, table, unit, batch.column(time))?;
                }
                let batch = self.target.fit(&batch, &places)?;
                self.moved_to_grid = on_grid(table, &batch, input.between_ticks())?;
                let batch = self.without_long_rows(batch, &file, &input)?;
                self.append_up_to_error(batch)
                    .map_err(|failure| match failure.status() {
                        Status::Input => {
                            failure.within(&format!("{file}: in the rows from {}", input.batch_place()))
                        }
                        _ => failure,
                    })?;
            }
            bar.set_position(input.progress().0);
            if !self.is_live {
                interrupt::check()?;
            }
        }
        Ok(())
    }

    /// The rows of a batch without those that are too long for the table, which are rejected.
    fn without_long_rows(&mut self, batch: RecordBatch, file: &str, input: &Input) -> Result<RecordBatch> {
        let table = self.target.table();
        let long = table.long_rows(&batch)?;
        if long.is_empty() {
            return Ok(batch);
        }
        let (name, limit) = (table.name(), grouped(table.row_limit_bytes() as u64));
        for &row in &long {
            let reject = Reject {
                place: input.place(row),
                reason: Reason::TooLong,
                detail: format!("the row has more than the {limit} bytes that rows of table {name} may have"),
                remedy: Some(SKIP.to_owned()),
            };
            if let Err(failure) = self.rejects.reject(file, reject) {
                if self.is_live {
                    self.append(batch.slice(0, row))?;
                }
                return Err(failure);
            }
        }
        let moved = self.moved_to_grid.iter();
        let kept = moved.filter(|row| long.binary_search(row).is_err());
        self.moved_to_grid = kept
            .map(|row| row - long.partition_point(|long| long < row))
            .collect();
        let mut long = long.into_iter().peekable();
        let is_kept = |row: usize| long.next_if_eq(&row).is_none();
        let keep: Vec<bool> = (0..batch.num_rows()).map(is_kept).collect();
        let kept = filter_record_batch(&batch, &keep.into());
        kept.map_err(|error| Failure::input(error.to_string()))
    }

    /// Appends a batch; of a live feed, the rows before one that the table refuses.
    fn append_up_to_error(&mut self, batch: RecordBatch) -> Result<()> {
        match self.append(batch.clone()) {
            Err(failure) if self.is_live && failure.status() == Status::Input && batch.num_rows() > 1 => {
                let half = batch.num_rows() / 2;
                self.append_up_to_error(batch.slice(0, half))?;
                self.append_up_to_error(batch.slice(half, batch.num_rows() - half))
            }
            appended => appended,
        }
    }

    fn append(&mut self, batch: RecordBatch) -> Result<()> {
        let (table, store) = (self.target.table(), self.target.store());
        let time = table.schema().time_column();
        let (rows, moved) = (batch.num_rows(), std::mem::take(&mut self.moved_to_grid));
        let batch = match &mut self.source {
            Some(source) => match source.skip(batch, time)? {
                Some(rest) => rest,
                None => return Ok(()),
            },
            None => batch,
        };
        let skipped = rows - batch.num_rows();
        self.measure
            .moved(moved.iter().filter(|&&row| row >= skipped).count() as u64);
        let mut taken = |appended: &Appended, batch: &RecordBatch| {
            self.measure.appended(appended, batch.column(time))?;
            (self.acknowledge)(self.measure.rows());
            Ok(())
        };
        if self.target.is_dry_run() {
            let checked = table
                .check(&batch)
                .map_err(|error| layout::refusal(table, error))?;
            return taken(&checked, &batch);
        }
        match &mut self.source {
            Some(source) => source.append(store, table, &batch, &mut taken),
            None => commit_in_halves(&batch, &mut |rows| {
                Tried::of(table, table.append(rows), |appended| taken(&appended, rows))
            }),
        }
    }
}

/// The rows among `rows` whose time is on the table's grid.
fn on_grid(table: &Table, batch: &RecordBatch, rows: &[usize]) -> Result<Vec<usize>> {
    let (Layout::Sparse(grid), false) = (table.layout(), rows.is_empty()) else {
        return Ok(Vec::new());
    };
    let times = cast(batch.column(table.schema().time_column()), &DataType::Int64);
    let times = times.map_err(|error| Failure::input(error.to_string()))?;
    let times = times.as_primitive::<Int64Type>();
    let is_on_grid = |&&row: &&usize| {
        let since = i128::from(times.value(row)) - i128::from(grid.offset());
        since.rem_euclid(grid.interval().into()) == 0
    };
    Ok(rows.iter().filter(is_on_grid).copied().collect())
}

/// A bar on standard error, if that is a terminal.
fn progress_bar(file: &str, bytes: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (template, bar) = match bytes {
        Some(bytes) => (
            "{prefix} {wide_bar} {percent:>3} % {bytes_per_sec} {eta}",
            ProgressBar::new(bytes),
        ),
        None => ("{prefix} {bytes} {bytes_per_sec}", ProgressBar::no_length()),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_prefix(printable(file).into_owned())
        .with_finish(ProgressFinish::AndClear)
}
