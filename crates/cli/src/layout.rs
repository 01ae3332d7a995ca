//! The layout of a table, as options ask for it and as people read it.

use arrow_schema::TimeUnit;
use bedload::{Density, Error, Grid, Layout, Snap, Table};
use bedload_times::{format_duration, nanos_per_tick, unit_name};

use crate::args::{LayoutArgs, LayoutKind, SnapKind};
use crate::exit::{Failure, Result};
use crate::figures::grouped;
use crate::input::Snapping;
use crate::store::time_type;
use crate::times::format_ticks;

/// The layout that is asked for, of a table whose times count in `unit`; none if nothing is said.
pub(crate) fn asked(args: &LayoutArgs, unit: TimeUnit) -> Result<Option<Layout>> {
    match (args.layout, args.interval) {
        (None, None) => Ok(None),
        (Some(LayoutKind::Indexed), None) => Ok(Some(Layout::Indexed)),
        (Some(LayoutKind::Indexed), Some(_)) => Err(Failure::usage("--interval is for --layout sparse")),
        (Some(LayoutKind::Sparse), None) => Err(Failure::usage(
            "--layout sparse needs --interval, the time from one row to the next",
        )),
        (Some(LayoutKind::Sparse) | None, Some(interval)) => {
            let tick = i128::from(nanos_per_tick(unit));
            let ticks = i64::try_from(interval / tick)
                .ok()
                .filter(|_| interval % tick == 0);
            let ticks = ticks.ok_or_else(|| {
                Failure::input(format!(
                    "--interval {}: the time column counts in {}",
                    format_duration(interval),
                    unit_name(unit)
                ))
            })?;
            Ok(Some(Layout::Sparse(Grid::every(ticks)?)))
        }
    }
}

/// Returns the treatment of rows that are not on the grid.
pub(crate) fn snap(args: &LayoutArgs) -> Snap {
    match args.snap {
        None | Some(SnapKind::Refuse) => Snap::Refuse,
        Some(SnapKind::Nearest) => Snap::Nearest,
        Some(SnapKind::Down) => Snap::Down,
    }
}

/// The grid with this many nanoseconds between its times, if rows are to be moved to it.
pub(crate) fn snapping(args: &LayoutArgs, interval_nanos: Option<i128>) -> Option<Snapping> {
    let is_nearest = match args.snap? {
        SnapKind::Refuse => return None,
        SnapKind::Nearest => true,
        SnapKind::Down => false,
    };
    interval_nanos.map(|interval_nanos| Snapping {
        interval_nanos,
        is_nearest,
    })
}

/// Fails if rows of a new table of this layout are to be moved and it has no grid.
pub(crate) fn check_snap(args: &LayoutArgs, layout: Layout) -> Result<()> {
    if snap(args) != Snap::Refuse && layout == Layout::Indexed {
        return Err(Failure::usage("--snap is for a sparse table: give --interval"));
    }
    Ok(())
}

/// Fails if a table that exists has another layout than the one that is asked for.
pub(crate) fn check(args: &LayoutArgs, table: &Table) -> Result<()> {
    if snap(args) != Snap::Refuse && table.layout() == Layout::Indexed {
        let name = table.name();
        return Err(Failure::input(format!(
            "table {name} is indexed and takes rows at any time: leave --snap out"
        )));
    }
    match asked(args, time_type(table.schema()).0)? {
        Some(layout) if layout != table.layout() => Err(Failure::input(format!(
            "table {} is {}: leave --layout and --interval out, or convert it",
            table.name(),
            text(table.layout(), time_type(table.schema()).0)
        ))),
        _ => Ok(()),
    }
}

/// The failure of an append; a time off the grid is named as a time of the calendar.
pub(crate) fn refusal(table: &Table, error: Error) -> Failure {
    let (unit, zone) = time_type(table.schema());
    let shown = |time: i64| format_ticks(time, unit, zone).unwrap_or_else(|_| time.to_string());
    let grid = || {
        format!(
            "the grid of table {} ({})",
            table.name(),
            text(table.layout(), unit)
        )
    };
    match error {
        Error::OffGrid { time, .. } => Failure::input(format!(
            "the time {} is not on {}: --snap nearest or --snap down moves such times",
            shown(time),
            grid()
        )),
        Error::BeyondGrid { time, .. } => Failure::input(format!(
            "the time {} cannot be moved to {}, which has no time of 64 bits there",
            shown(time),
            grid()
        )),
        error => error.into(),
    }
}

/// A layout for people.
pub(crate) fn text(layout: Layout, unit: TimeUnit) -> String {
    match layout {
        Layout::Sparse(grid) => {
            let nanoseconds = |ticks: i64| i128::from(ticks) * i128::from(nanos_per_tick(unit));
            let interval = format_duration(nanoseconds(grid.interval()));
            match grid.offset() {
                0 => format!("sparse, a row every {interval}"),
                offset => format!(
                    "sparse, a row every {interval} from {} on",
                    format_duration(nanoseconds(offset))
                ),
            }
        }
        _ => "indexed".to_owned(),
    }
}

/// How densely a table is filled, for people.
pub(crate) fn density_text(density: &Density) -> String {
    let per_byte = density.disk_bytes as f64 / density.payload_bytes.max(1) as f64;
    let mut text = format!(
        "\nblocks   {}, {:.1} of {} rows in each ({:.1} %)\n\
         on disk  {} bytes, {per_byte:.2} for each byte of times and columns of fixed width",
        grouped(density.blocks),
        density.rows as f64 / density.blocks.max(1) as f64,
        grouped(density.rows_per_block),
        100.0 * density.density(),
        grouped(density.disk_bytes),
    );
    if !density.has_holes {
        text += "\nwarning  the file system has no holes: places in which no block stands take space, too";
    }
    if density.advises_indexed() {
        text += &format!(
            "\nadvice   below {:.1} % the indexed layout takes less space: see bedload convert",
            100.0 * density.advised_below
        );
    }
    text
}
