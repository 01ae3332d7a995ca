//! Entries: a key, a tie, and a row whose columns stand apart in the page.
//!
//! Every entry is unique as (key, tie). The tie tells entries of one key apart and orders them: a
//! table gives the sequence number of a row's arrival, a database index the row's address. A map,
//! which holds a key once, gives 0.

use std::marker::PhantomData;

use super::key_order::KeyOrder;
use bedload_pages::{Error, Result};

/// The columns of the rows of one tree: any number of fixed width, then any number of variable
/// width. Leaf pages keep each column by itself, so a scan copies slices of columns instead of
/// taking rows apart.
///
/// Trees are monomorphised over it: for a layout known at compile time, such as [`FixedRow`], the
/// loops over columns vanish.
pub trait RowLayout: Clone + Send + Sync + 'static {
    /// Width in bytes of each fixed column, in order; none is zero.
    fn fixed_widths(&self) -> &[u16];

    /// The number of variable-width columns, which follow the fixed ones.
    fn variable_columns(&self) -> usize {
        0
    }

    /// Bytes of all fixed columns of a row together.
    fn fixed_len(&self) -> usize {
        self.fixed_widths().iter().map(|&width| usize::from(width)).sum()
    }
}

/// Rows without columns: the tree is a set of (key, tie).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoRow;

impl RowLayout for NoRow {
    fn fixed_widths(&self) -> &[u16] {
        &[]
    }
}

/// Rows of one fixed column of `WIDTH` bytes: a map from keys to, say, integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedRow<const WIDTH: u16>;

impl<const WIDTH: u16> RowLayout for FixedRow<WIDTH> {
    fn fixed_widths(&self) -> &[u16] {
        const { &[WIDTH] }
    }
}

/// Rows whose columns are known at run time: those of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    fixed_widths: Box<[u16]>,
    variable_columns: usize,
}

impl Columns {
    /// Rows of fixed columns of the given widths in bytes, then `variable_columns` of variable
    /// width.
    ///
    /// # Panics
    ///
    /// If a width is zero.
    #[must_use]
    pub fn new(fixed_widths: &[u16], variable_columns: usize) -> Self {
        assert!(
            fixed_widths.iter().all(|&width| width > 0),
            "a fixed column is at least one byte wide"
        );
        Self {
            fixed_widths: fixed_widths.into(),
            variable_columns,
        }
    }
}

impl RowLayout for Columns {
    fn fixed_widths(&self) -> &[u16] {
        &self.fixed_widths
    }

    fn variable_columns(&self) -> usize {
        self.variable_columns
    }
}

/// The columns of one row: its fixed columns end to end, and its variable columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row<'a> {
    /// Fixed columns in order, without gaps: [`RowLayout::fixed_len`] bytes.
    pub fixed: &'a [u8],
    /// Variable columns in order: [`RowLayout::variable_columns`] byte strings.
    pub variable: &'a [&'a [u8]],
}

/// One entry, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key, as its [`KeyOrder`] understands it.
    pub key: &'a [u8],
    /// Tells entries of equal keys apart.
    pub tie: u64,
    /// The columns.
    pub row: Row<'a>,
}

/// Entries one after another, each borrowed until the next is asked for.
pub trait EntrySource {
    /// The next entry, or `None` after the last.
    ///
    /// # Errors
    ///
    /// The store that the source reads from failed.
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>>;
}

/// An iterator over entries, as a source.
///
/// ```
/// use bedload_trees::{Entries, Entry, EntrySource, Row, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let keys = [1, 2, 3].map(U64Order::key);
/// let mut source = Entries::new(keys.iter().map(|key| Entry { key, tie: 0, row: Row::default() }));
/// assert_eq!(source.next_entry()?.map(|entry| entry.key), Some(&keys[0][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Entries<'a, I> {
    entries: I,
    borrowed: PhantomData<Entry<'a>>,
}

impl<'a, I: Iterator<Item = Entry<'a>>> Entries<'a, I> {
    /// The entries that `entries` yields.
    pub fn new(entries: impl IntoIterator<IntoIter = I>) -> Self {
        Self {
            entries: entries.into_iter(),
            borrowed: PhantomData,
        }
    }
}

impl<'a, I: Iterator<Item = Entry<'a>>> EntrySource for Entries<'a, I> {
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(self.entries.next())
    }
}

/// A position in a tree's order: a key and a tie. [`Position::of_key`] lies before every entry of
/// its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The tie.
    pub tie: u64,
}

impl<'a> Position<'a> {
    /// The least position of `key`.
    #[must_use]
    pub const fn of_key(key: &'a [u8]) -> Self {
        Self { key, tie: 0 }
    }

    /// Fails if the order prescribes a width that the key has not.
    pub(crate) fn check_width(&self, order: &impl KeyOrder) -> Result<()> {
        match order.fixed_width() {
            Some(expected_bytes) if expected_bytes != self.key.len() => Err(Error::KeyWidth {
                len_bytes: self.key.len(),
                expected_bytes,
            }),
            _ => Ok(()),
        }
    }
}
