//! `bedload demo`: a year of real departures, stored in the order in which they were scheduled and
//! read by the time at which they left.

use std::fmt::Display;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use bedload::Table;

use crate::args::{CsvArgs, DemoArgs, IngestArgs, LayoutArgs, RangeArgs, SortednessArgs};
use crate::exit::{Failure, Result, Status};
use crate::figures::{grouped, rate_line, size_line, sortedness_text};
use crate::ingest::{self, Report};
use crate::input::OnError;
use crate::output::stdout::Stdout;
use crate::output::{Answer, Format};
use crate::selection::{Selection, stream};
use crate::sortedness::{Column, title_name};
use crate::store;

const TABLE: &str = "departures";
const TIME: &str = "departure";
const STORE: &str = "flights.bedload";

/// Names of columns in the answers.
const COLUMNS: [&str; 5] = ["departure", "scheduled_departure", "carrier", "flight", "dest"];

pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    fs::create_dir_all(&args.dir).map_err(|error| Failure::io(&args.dir, &error))?;
    let demo = Demo {
        data: &args.data,
        dir: &args.dir,
        store: args.dir.join(STORE),
    };
    // Before the last run is removed, which then has no successor.
    ingest::check_first_file(&demo.ingest_args())?;
    demo.remove_last_run()?;
    demo.ingest()?;
    demo.query()?;
    demo.verify()?;
    demo.draw()
}

struct Demo<'a> {
    data: &'a Path,
    dir: &'a Path,
    store: PathBuf,
}

impl Demo<'_> {
    /// Removes the store of an earlier demo; what is no store is left for the ingest to complain
    /// about.
    fn remove_last_run(&self) -> Result<()> {
        let last_run = match store::open(&self.store) {
            Ok(last_run) => last_run,
            Err(failure) if failure.status() == Status::NotAStore => return Ok(()),
            Err(failure) => return Err(failure),
        };
        if let Some(other) = last_run.tables().iter().find(|name| *name != TABLE) {
            return Err(Failure::input(format!(
                "{} has a table {other}, which no demo created: choose another directory with --dir",
                self.store.display()
            )));
        }
        Ok(last_run.remove()?)
    }

    fn ingest(&self) -> Result<()> {
        say("A year of departures from New York City, in the order in which they were scheduled,")?;
        say("stored by the time at which they really left.\n")?;
        let (store, data) = (self.store.display(), self.data.display());
        say(&format!(
            "$ bedload ingest {store} {TABLE} {data} --time {TIME} --on-error skip"
        ))?;
        let report = ingest::load(&self.ingest_args(), &mut |_| ())?;
        say(&ingest_text(&report))
    }

    fn ingest_args(&self) -> IngestArgs {
        IngestArgs {
            store: self.store.clone(),
            table: TABLE.to_owned(),
            files: vec![self.data.to_owned()],
            time: Some(TIME.to_owned()),
            time_unit: None,
            time_zone: None,
            schema: None,
            columns: None,
            allow_missing: false,
            on_error: OnError::Skip,
            csv: csv_args(),
            batch_rows: NonZeroUsize::MIN.saturating_add(32_767),
            layout: LayoutArgs::default(),
            key: None,
            source_id: None,
            follow: false,
            every: 1,
            order: true,
            ack: false,
            dry_run: false,
            json: false,
        }
    }

    /// Opens the store again and asks it three things.
    fn query(&self) -> Result<()> {
        let store = store::open(&self.store)?;
        let table = store::table(&store, TABLE)?;
        let new_year = RangeArgs {
            from: Some("2013-01-01T00:00:00-05:00".to_owned()),
            ..RangeArgs::default()
        };
        self.rows(&table, "The first departures of the year", &new_year, 5, false)?;

        say("\nHow many left on four days in February (the blizzard came on the 8th)?")?;
        for day in 7..=10 {
            let range = RangeArgs {
                from: Some(format!("2013-02-{day:02}T00:00:00-05:00")),
                to: Some(format!("2013-02-{:02}T00:00:00-05:00", day + 1)),
                ..RangeArgs::default()
            };
            let rows = table.range(store::tick_range(&table, &range)?)?.count()?;
            say(&format!("{:>11} on 2013-02-{day:02}", grouped(rows)))?;
        }

        let last_hour = RangeArgs {
            from: Some("2013-12-31T23:00:00-05:00".to_owned()),
            to: Some("2014-01-01T00:00:00-05:00".to_owned()),
            ..RangeArgs::default()
        };
        self.rows(
            &table,
            "The last hour of the year, latest first",
            &last_hour,
            5,
            true,
        )?;
        Ok(())
    }

    /// Prints the rows of a range, and the command that would.
    fn rows(&self, table: &Table, title: &str, range: &RangeArgs, limit: u64, reverse: bool) -> Result<()> {
        say(&format!("\n{title}:"))?;
        let mut command = format!("$ bedload query {} {TABLE}", self.store.display());
        for (option, time) in [("--from", &range.from), ("--to", &range.to)] {
            if let Some(time) = time {
                command += &format!(" {option} {time}");
            }
        }
        command += &format!(" --columns {} --limit {limit}", COLUMNS.join(","));
        if reverse {
            command += " --reverse";
        }
        say(&command)?;

        let columns = COLUMNS.map(str::to_owned);
        let range = store::tick_range(table, range)?;
        let query = Selection {
            range,
            columns: Some(&columns),
            conditions: Vec::new(),
            limit: Some(limit),
            reverse,
        };
        let answer = Answer::begin(Format::Table, None, &query.schema(table)?, "")?;
        stream(query.ordered_scan(table)?, answer).map(drop)
    }

    /// Opens the store again and reads all of it.
    fn verify(&self) -> Result<()> {
        say(&format!("\n$ bedload verify {}", self.store.display()))?;
        let store = store::open(&self.store)?;
        let report = store.verify()?;
        for problem in &report.problems {
            say(problem)?;
        }
        if !report.problems.is_empty() {
            return Err(Failure::new(
                Status::Damaged,
                format!("{} is damaged", self.store.display()),
            ));
        }
        let stored = store::table(&store, TABLE)?.range(..)?.count()?;
        let (pages, rows) = (grouped(report.pages), grouped(stored));
        say(&format!(
            "{rows:>11} rows read back, {pages} pages checked, nothing damaged"
        ))
    }

    fn draw(&self) -> Result<()> {
        let args = SortednessArgs {
            file: self.data.to_owned(),
            column: TIME.to_owned(),
            schema: None,
            on_error: OnError::Fail,
            picture: None,
            csv: csv_args(),
            json: false,
        };
        let picture = Column::read(&args)?.order().picture(&title_name(self.data), TIME);
        say("")?;
        for name in ["disorder.png", "disorder.svg"] {
            let path = self.dir.join(name);
            picture.write(&path)?;
            say(&format!(
                "{}: how far each row is from its sorted position",
                path.display()
            ))?;
        }
        Ok(())
    }
}

fn csv_args() -> CsvArgs {
    CsvArgs {
        nulls: Vec::new(),
        delimiter: b',',
        header: None,
    }
}

fn ingest_text(report: &Report) -> String {
    let stored = report.rows;
    let mut text = format!("{:>11} rows read\n", grouped(stored + report.rejects.rows()));
    for (reason, rows) in report.rejects.by_reason() {
        text += &format!("{:>11} skipped: {reason} in column {TIME}\n", grouped(*rows));
    }
    text += &format!("{:>11} rows stored, and of these\n", grouped(stored));
    text += &report.order.as_ref().map(sortedness_text).unwrap_or_default();
    if let Some(rate) = rate_line(stored, report.rows_per_second()) {
        text += &format!("\n{rate}");
    }
    if let Some(size) = size_line(stored, report.bytes_per_row()) {
        text += &format!("\n{size}");
    }
    text
}

fn say(text: &(impl Display + ?Sized)) -> Result<()> {
    Stdout::lock().line(text)
}
