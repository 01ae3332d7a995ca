//! Which form the entries of an index have.

#![expect(unsafe_code, reason = "an index is an open relation, and rows come as datums")]

use std::cmp::Ordering;
use std::ffi::CStr;

use bedload_trees::run::RunEntry;
use bedload_trees::{I64Order, KeyOrder, RowLayout};
use pgrx::pg_sys;

use super::column::{BEHIND, Column};
use super::columns::Columns;
use super::comparator::{Comparator, TEXTCMP};
use super::entry::{Entry, EntryLen, EntryRef, address_of};
use super::kind::Kind;
use super::support::{COMPARE_FUNCTION, HASH_FUNCTION, SUPPORT_FUNCTIONS};
use super::value::{RowValues, Stored};
use crate::compat;

/// The form of an index's entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// One column, of integers, and nothing else.
    Integers(Kind),
    Columns(&'static Columns),
}

/// Bits of a column's options.
const DESCENDING: i16 = 1;
const NULLS_FIRST: i16 = 2;

/// A part of an index: its first and its last position.
pub(crate) type KeyRange = (Entry, Entry);

/// The order of the keys of an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryOrder(Option<&'static Columns>);

/// The columns that an index's pages keep beside the keys: the payload, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRow {
    payloads: usize,
}

impl RowLayout for EntryRow {
    fn fixed_widths(&self) -> &[u16] {
        &[]
    }

    fn variable_columns(&self) -> usize {
        self.payloads
    }
}

impl KeyOrder for EntryOrder {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.0 {
            Some(columns) => columns.compare(a, b),
            None => a.cmp(b),
        }
    }

    fn prefix(&self, key: &[u8]) -> u64 {
        match self.0 {
            Some(columns) => columns.prefix(key),
            None => I64Order.prefix(key),
        }
    }

    fn prefix_is_exact(&self) -> bool {
        self.0.is_none()
    }

    fn key_of_prefix(&self, prefix: u64, key: &mut Vec<u8>) {
        I64Order.key_of_prefix(prefix, key);
    }

    fn fixed_width(&self) -> Option<usize> {
        if self.0.is_none() {
            I64Order.fixed_width()
        } else {
            None
        }
    }

    fn hash(&self, key: &[u8]) -> Option<u64> {
        match self.0 {
            Some(columns) => columns.hash(key),
            None => I64Order.hash(key),
        }
    }
}

impl Form {
    /// The form of an index's entries; an error says what is not supported.
    ///
    /// # Safety
    ///
    /// The index is open.
    pub(crate) unsafe fn of_index(index: pg_sys::Relation) -> Result<Self, String> {
        // SAFETY: the caller's; the arrays have an element for each key column, that of functions
        // as many as there are.
        unsafe {
            let keys = usize::try_from((*(*index).rd_index).indnkeyatts).unwrap_or(0);
            let all = usize::try_from((*(*index).rd_att).natts).unwrap_or(0);
            let options = |at: usize| *(*index).rd_indoption.add(at);
            if keys == 1 && all == 1 && function(index, 0, COMPARE_FUNCTION) == pg_sys::InvalidOid {
                let is_hashed = function(index, 0, HASH_FUNCTION) != pg_sys::InvalidOid;
                let kind = if is_hashed {
                    Some(Kind::Hashed)
                } else {
                    Kind::of_type(*(*index).rd_opcintype)
                };
                let is_descending = options(0) & DESCENDING != 0;
                let nulls_first = options(0) & NULLS_FIRST != 0;
                // Keys of a unique index tell different values apart.
                let is_exact = !(*(*index).rd_index).indisunique || kind != Some(Kind::Uuid);
                if let (Some(kind), true) = (kind, is_exact && is_descending == nulls_first) {
                    return Ok(Self::Integers(kind));
                }
            }
            let mut columns = Vec::with_capacity(keys);
            for at in 0..keys {
                let column = column_of(index, at)?;
                let options = options(at);
                columns.push(column.ordered(options & DESCENDING != 0, options & NULLS_FIRST != 0));
            }
            let mut included = Vec::with_capacity(all - keys);
            for at in keys..all {
                included.push(stored(index, at)?);
            }
            Ok(Self::Columns(Columns::new(columns, included)))
        }
    }

    /// Whether the index's order is that in which it is stored, read backwards.
    ///
    /// # Safety
    ///
    /// The index is open, and its entries have this form.
    pub(crate) unsafe fn is_backward(self, index: pg_sys::Relation) -> bool {
        // SAFETY: the caller's; there is an option for each key column.
        matches!(self, Self::Integers(_)) && unsafe { *(*index).rd_indoption } & DESCENDING != 0
    }

    pub(crate) fn order(self) -> EntryOrder {
        EntryOrder(self.columns())
    }

    fn columns(self) -> Option<&'static Columns> {
        match self {
            Self::Integers(_) => None,
            Self::Columns(columns) => Some(columns),
        }
    }

    pub(crate) fn row(self) -> EntryRow {
        EntryRow {
            payloads: usize::from(self.has_payload()),
        }
    }

    pub(crate) fn has_payload(self) -> bool {
        self.columns().is_some_and(Columns::has_payload)
    }

    /// How many columns have to be equal to a value for the filters of runs to be asked; `None` if
    /// there are no filters.
    pub(crate) fn filtered_columns(self) -> Option<usize> {
        match self {
            Self::Integers(_) => Some(1),
            Self::Columns(columns) => columns.has_hashes().then_some(columns.keys().len()),
        }
    }

    /// Whether rows that are found may not match.
    pub(crate) fn is_lossy(self) -> bool {
        match self {
            Self::Integers(kind) => kind.is_lossy(),
            Self::Columns(columns) => columns.keys().iter().any(Column::is_lossy),
        }
    }

    /// Whether an index-only scan returns a column, the first of them being 0.
    pub(crate) fn returns(self, at: usize) -> bool {
        match self {
            Self::Integers(kind) => kind.is_returnable(),
            Self::Columns(columns) => columns.keys().get(at).is_none_or(|column| !column.is_lossy()),
        }
    }

    /// All positions that entries may have.
    pub(crate) fn whole(self) -> KeyRange {
        match self {
            Self::Integers(_) => (Entry::FIRST, Entry::LAST),
            Self::Columns(columns) => (Entry::first_of(columns, &[]), Entry::last_of(columns, &[BEHIND])),
        }
    }

    /// The key columns. An integer stands for itself as one of a column of `int8`.
    pub(crate) fn key_columns(self) -> &'static [Column] {
        const INTEGERS: &[Column] = &[Column::number(Kind::Signed(8), Stored::WORD)];
        match self {
            Self::Integers(_) => INTEGERS,
            Self::Columns(columns) => columns.keys(),
        }
    }

    /// How the values of a column become integers, if they do.
    pub(crate) fn integer_kind(self, column: &Column) -> Option<Kind> {
        match self {
            Self::Integers(kind) => Some(kind),
            Self::Columns(_) => column.kind(),
        }
    }

    /// The entries of integers that are not null, from one up to another, inclusively, where there
    /// are such.
    pub(crate) fn range_of_integers(from: Option<i64>, to: Option<i64>) -> KeyRange {
        (
            from.map_or(Entry::FIRST, |from| Entry::at(I64Order::prefix_of(from), 0)),
            to.map_or(Entry::LAST_VALUE, |to| {
                Entry::last_of_prefix(I64Order::prefix_of(to))
            }),
        )
    }

    /// The entries whose keys are `key`: a tag and a value for each column.
    pub(crate) fn range_of_key(self, key: &[u8]) -> KeyRange {
        match self {
            Self::Integers(_) => match prefix_of_integer(key) {
                Some(prefix) => (Entry::at(prefix, 0), Entry::last_of_prefix(prefix)),
                None => (Entry::FIRST_NULL, Entry::LAST),
            },
            Self::Columns(columns) => (Entry::first_of(columns, key), Entry::last_of(columns, key)),
        }
    }

    /// The entries whose keys begin with `prefix`, from `start` to `end`: what follows in the keys
    /// of the first and the last of them, and whether those that begin so are left out.
    pub(crate) fn range_of(
        self,
        prefix: &[u8],
        start: Option<(Vec<u8>, bool)>,
        end: Option<(Vec<u8>, bool)>,
    ) -> KeyRange {
        let Self::Columns(columns) = self else {
            let integer = |end: &(Vec<u8>, bool)| prefix_of_integer(&end.0);
            // Ends of integers are among them; those of all values have no number.
            return (
                start
                    .as_ref()
                    .and_then(integer)
                    .map_or(Entry::FIRST, |start| Entry::at(start, 0)),
                match &end {
                    Some(end) => integer(end).map_or(Entry::LAST_VALUE, Entry::last_of_prefix),
                    None => Entry::LAST,
                },
            );
        };
        let key = |end: &[u8], is_behind: bool| {
            let mut key = [prefix, end].concat();
            if is_behind {
                key.push(BEHIND);
            }
            Entry::first_of(columns, &key)
        };
        let start = start.unwrap_or_default();
        let end = end.unwrap_or_default();
        (key(&start.0, start.1), key(&end.0, !end.1))
    }

    /// The fewest bytes that the entry of a row takes: its values are not copied for that.
    ///
    /// # Safety
    ///
    /// The arrays have the values of an index whose entries have this form.
    pub(crate) unsafe fn least_len_of(self, values: *const pg_sys::Datum, nulls: *const bool) -> EntryLen {
        match self {
            Self::Integers(_) => EntryLen::default(),
            // SAFETY: the caller's.
            Self::Columns(columns) => unsafe { columns.least_len_of_row(values, nulls) },
        }
    }

    /// The entry of a row, as PostgreSQL hands it over.
    ///
    /// # Safety
    ///
    /// The index is open, and its entries have this form; the arrays have its values, and `address`
    /// is valid.
    pub(crate) unsafe fn entry_of(
        self,
        index: pg_sys::Relation,
        values: *const pg_sys::Datum,
        nulls: *const bool,
        address: pg_sys::ItemPointer,
    ) -> Entry {
        // SAFETY: the caller's.
        unsafe {
            let tie = address_of(address);
            match self {
                Self::Integers(kind) => {
                    let value = (!*nulls).then(|| kind.integer_of(index, 1, *values));
                    Entry::of_integer(value, tie)
                }
                Self::Columns(columns) => {
                    let mut bytes = Vec::new();
                    let key_len = columns.push_row(index, values, nulls, &mut bytes);
                    Entry::of_bytes(columns, &bytes, key_len, tie)
                }
            }
        }
    }

    /// Puts the values of an entry's columns into `row`, in place of those that it has.
    pub(crate) fn values_of(self, entry: &Entry, row: &mut RowValues) {
        match self {
            Self::Integers(kind) => {
                row.begin(1, 0);
                row.push_with(|_| entry.integer().map(|value| kind.datum_of(value)));
            }
            Self::Columns(_) => entry.values(row),
        }
    }

    /// A hash of an entry's key: equal keys have the same one.
    pub(crate) fn key_hash(self, entry: &Entry) -> u64 {
        self.order().hash(entry.key(&mut [0; 8])).unwrap_or(0)
    }

    /// An entry that was on a page.
    pub(crate) fn owned(self, entry: EntryRef<'_>) -> Entry {
        match self {
            Self::Integers(_) => Entry::at(entry.prefix, entry.tie),
            Self::Columns(columns) if entry.payload.is_empty() => {
                Entry::of_bytes(columns, entry.key, entry.key.len(), entry.tie)
            }
            Self::Columns(columns) => {
                let bytes = [entry.key, entry.payload].concat();
                Entry::of_bytes(columns, &bytes, entry.key.len(), entry.tie)
            }
        }
    }

    /// An entry of a run.
    pub(crate) fn of_run(self, entry: &RunEntry<'_, EntryOrder, EntryRow>) -> Entry {
        let (prefix, tie) = (entry.prefix(), entry.tie());
        if let Self::Integers(_) = self {
            return Entry::at(prefix, tie);
        }
        let mut scratch = Vec::new();
        self.owned(EntryRef {
            prefix,
            tie,
            key: entry.key(&mut scratch),
            payload: if self.has_payload() {
                entry.variable(0)
            } else {
                &[]
            },
        })
    }

    /// The prefix of a key.
    pub(crate) fn prefix(self, key: &[u8]) -> u64 {
        self.order().prefix(key)
    }

    /// How an entry of a page stands to another.
    pub(crate) fn compare(self, a: EntryRef<'_>, b: EntryRef<'_>) -> Ordering {
        let keys = a.prefix.cmp(&b.prefix);
        keys.then_with(|| self.order().compare(a.key, b.key))
            .then(a.tie.cmp(&b.tie))
    }
}

/// A support function of a column's operator class, or no function.
///
/// # Safety
///
/// The index is open, and has the column.
unsafe fn function(index: pg_sys::Relation, at: usize, number: u16) -> pg_sys::Oid {
    let place = at * usize::from(SUPPORT_FUNCTIONS) + usize::from(number) - 1;
    // SAFETY: the caller's; there is a place for each function of each column.
    unsafe { *(*index).rd_support.add(place) }
}

/// How the values of a column are passed; an error says what is not supported.
///
/// # Safety
///
/// The index is open, and has the column.
unsafe fn stored(index: pg_sys::Relation, at: usize) -> Result<Stored, String> {
    // SAFETY: the caller's.
    let attribute = unsafe { compat::attribute(index, at) };
    Stored::of_attribute(attribute).ok_or_else(|| type_of(attribute))
}

/// The type of a column, for messages.
fn type_of(attribute: &pg_sys::FormData_pg_attribute) -> String {
    // SAFETY: the name is a string in the current memory context.
    let name = unsafe { CStr::from_ptr(pg_sys::format_type_be(attribute.atttypid)) };
    format!("type {}", name.to_string_lossy())
}

/// A key column; an error says what is not supported.
///
/// # Safety
///
/// The index is open, and has the column.
unsafe fn column_of(index: pg_sys::Relation, at: usize) -> Result<Column, String> {
    // SAFETY: the caller's.
    unsafe {
        let stored = stored(index, at)?;
        let (of, collation) = (*(*index).rd_opcintype.add(at), *(*index).rd_indcollation.add(at));
        if function(index, at, HASH_FUNCTION) != pg_sys::InvalidOid {
            return Ok(Column::number(Kind::Hashed, stored));
        }
        let compare = function(index, at, COMPARE_FUNCTION);
        if of == pg_sys::UUIDOID {
            return Ok(Column::uuid(stored));
        }
        if compare == pg_sys::InvalidOid {
            let kind = Kind::of_type(of).ok_or_else(|| type_of(compat::attribute(index, at)))?;
            return Ok(Column::number(kind, stored));
        }
        if compare.to_u32() == NUMERIC_CMP {
            return Ok(Column::numeric(stored));
        }
        let is_of_bytes = match compare.to_u32() {
            BYTEACMP => true,
            TEXT_PATTERN_CMP if pg_sys::get_collation_isdeterministic(collation) => true,
            // Values that are equal would lie apart.
            TEXT_PATTERN_CMP => {
                return Err("a nondeterministic collation with operator class text_pattern_ops".to_owned());
            }
            TEXTCMP => compat::collates_bytes(collation),
            _ => false,
        };
        Ok(if is_of_bytes {
            Column::strings(stored)
        } else {
            // That of the column: the operator class may be for many.
            let of = compat::attribute(index, at).atttypid;
            Column::compared(Comparator::new(compare, collation, of), stored)
        })
    }
}

/// The comparison function of numbers, `numeric_cmp`.
const NUMERIC_CMP: u32 = 1769;
/// Comparison functions that compare bytes: `byteacmp`, `bttext_pattern_cmp`, and `bttextcmp` under
/// some collations.
const BYTEACMP: u32 = 1954;
const TEXT_PATTERN_CMP: u32 = 2166;

/// The prefix of an integer, from its tag and its bytes; `None` of a null.
fn prefix_of_integer(key: &[u8]) -> Option<u64> {
    key.get(1..)?.first_chunk().copied().map(u64::from_be_bytes)
}
