//! The columns of rows in memory: arrays, or packed rows until arrays are asked for.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::ArrayRef;
use bedload_columns::ColumnSet;
use parking_lot::Mutex;

use super::PackedRows;

/// The columns of some rows.
#[derive(Debug)]
pub(super) enum Columns {
    Arrays(ColumnSet),
    /// Boxed, as most runs are arrays and readers look at many of them.
    Packed(Box<Packed>),
}

/// Packed rows, or the arrays that were made of them: never both for long, as only the arrays are
/// counted.
#[derive(Debug)]
pub(super) struct Packed {
    /// None once there are arrays, or just before. Locked to be cloned or taken, never while rows
    /// are unpacked.
    rows: Mutex<Option<PackedRows>>,
    /// The packed rows that belong to these columns.
    range: Range<usize>,
    /// The time column of all packed rows, and its position. It need not be unpacked, as rows are
    /// found by their times.
    times: (usize, ArrayRef),
    arrays: OnceLock<ColumnSet>,
    /// How many rows readers had unpacked for them alone.
    few: AtomicUsize,
}

/// As long as readers had fewer than one in this many rows unpacked for them alone, the next few
/// rows are, too.
const FEW_SHARE: usize = 4;

/// Unpacking a row costs as much as unpacking this many neighbours.
const FEW_MIN: usize = if cfg!(any(test, fuzzing)) { 4 } else { 64 };

impl Columns {
    pub(super) fn of(arrays: Vec<ArrayRef>) -> Self {
        Self::Arrays(arrays.into())
    }

    pub(super) fn packed(rows: PackedRows, times: (usize, ArrayRef)) -> Self {
        let range = 0..rows.len();
        Self::Packed(Box::new(Packed {
            rows: Mutex::new(Some(rows)),
            range,
            times,
            arrays: OnceLock::new(),
            few: AtomicUsize::new(0),
        }))
    }

    /// Whether there are no arrays yet.
    pub(super) fn are_packed(&self) -> bool {
        matches!(self, Self::Packed(packed) if packed.arrays.get().is_none())
    }

    /// All columns. They are unpacked once, while other callers wait, and kept.
    pub(super) fn arrays(&self) -> &ColumnSet {
        match self {
            Self::Arrays(arrays) => arrays,
            Self::Packed(packed) => packed.arrays.get_or_init(|| {
                let rows = packed.rows.lock().clone();
                let rows = rows.expect("they are given up once there are arrays");
                let columns: Vec<usize> = (0..rows.columns()).collect();
                let arrays = packed.unpack(&rows, 0..packed.range.len(), &columns);
                *packed.rows.lock() = None;
                arrays.into()
            }),
        }
    }

    /// All columns, of some of the rows. Packed ones are unpacked and do not stay.
    pub(super) fn of_rows(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        if let Some((packed, packed_rows)) = self.still_packed() {
            let columns: Vec<usize> = (0..packed_rows.columns()).collect();
            return packed.unpack(&packed_rows, rows, &columns);
        }
        let slice = |column: &ArrayRef| column.slice(rows.start, rows.len());
        self.arrays().iter().map(slice).collect()
    }

    /// Access to a few of the rows for a reader, if it is not worth making arrays of all: their
    /// columns are packed, and few rows were unpacked for readers until now.
    pub(super) fn few(&self, rows: usize) -> Option<FewColumns<'_>> {
        let (packed, packed_rows) = self.still_packed()?;
        let cost = rows.max(FEW_MIN);
        // Only a guess depends on it.
        let cost_before = packed.few.fetch_add(cost, Ordering::Relaxed);
        let is_little = cost_before.saturating_add(cost) <= packed.range.len() / FEW_SHARE;
        is_little.then_some(FewColumns {
            packed,
            rows: packed_rows,
        })
    }

    /// Some of the rows, in the same memory.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let Some((packed, packed_rows)) = self.still_packed() else {
            return Self::of(self.of_rows(rows));
        };
        Self::Packed(Box::new(Packed {
            rows: Mutex::new(Some(packed_rows)),
            range: packed.packed_range(rows),
            times: packed.times.clone(),
            arrays: OnceLock::new(),
            few: AtomicUsize::new(0),
        }))
    }

    fn still_packed(&self) -> Option<(&Packed, PackedRows)> {
        match self {
            Self::Arrays(_) => None,
            Self::Packed(packed) => packed.rows.lock().clone().map(|rows| (&**packed, rows)),
        }
    }
}

/// Packed columns of which a few rows are unpacked, column by column.
#[derive(Debug)]
pub(crate) struct FewColumns<'c> {
    packed: &'c Packed,
    rows: PackedRows,
}

impl FewColumns<'_> {
    /// Some columns of some of the few rows.
    pub(crate) fn columns(&self, rows: Range<usize>, columns: &[usize]) -> ColumnSet {
        self.packed.unpack(&self.rows, rows, columns).into()
    }
}

impl Packed {
    /// Where some of the rows stand among the packed ones.
    fn packed_range(&self, rows: Range<usize>) -> Range<usize> {
        self.range.start + rows.start..self.range.start + rows.end
    }

    fn unpack(&self, packed: &PackedRows, rows: Range<usize>, columns: &[usize]) -> Vec<ArrayRef> {
        let rows = self.packed_range(rows);
        let column = |&column: &usize| match &self.times {
            (time_column, times) if *time_column == column => times.slice(rows.start, rows.len()),
            _ => packed.column(column, rows.clone()),
        };
        columns.iter().map(column).collect()
    }
}
