//! Where the entries lie that a scan's keys ask for.
//!
//! The leading columns that equal a value, or any of some, and the first column that does not,
//! determine the ranges of the index where matching entries lie. Conditions on later columns are
//! checked entry by entry.

#![expect(unsafe_code, reason = "keys of scans are PostgreSQL's")]

use std::borrow::Cow;
use std::cmp::Ordering;

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{FEWER_VALUES, expect_memory, fail};
use crate::interrupts::Steps;
use crate::key::{Column, Entry, Form, KeyRange, Kind, Part};

/// The most ranges of a scan; more values of further columns are looked for entry by entry.
pub(in crate::am) const RANGES_MAX: usize = 8192;

/// How often a value is copied at most: where it comes from, as both ends of its column, in keys
/// that begin or end a range, and twice as room that grows.
const COPIES_OF_VALUE: usize = 8;

thread_local! {
    static STEPS: Steps = const { Steps::new() };
}

/// A step of work that lists of values make long. It may unwind, so nothing may be half done.
#[inline]
fn step() {
    STEPS.with(Steps::step);
}

/// Where the entries lie that a scan asks for, and what they have to be beyond that.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Ascending and apart from one another.
    pub(super) ranges: Vec<KeyRange>,
    /// Whether they have both ends.
    pub(super) is_bounded: bool,
    /// Columns to be looked at.
    rest: Vec<(usize, Condition)>,
}

impl Search {
    /// The search that some keys ask for.
    ///
    /// # Safety
    ///
    /// The index is open and its entries of this form. The keys are on its columns, by the
    /// operators of their families.
    pub(super) unsafe fn new(index: pg_sys::Relation, form: Form, keys: &[pg_sys::ScanKeyData]) -> Self {
        if let Form::Integers(kind) = form {
            // SAFETY: the caller's.
            if let Some(search) = unsafe { Self::of_integers(index, kind, keys) } {
                return search;
            }
        }
        let columns = form.key_columns();
        let mut conditions: Vec<Condition> = columns.iter().map(|&column| Condition::new(column)).collect();
        for key in keys {
            let at = usize::try_from(key.sk_attno - 1).unwrap_or(0);
            // SAFETY: the caller's.
            if !unsafe { conditions[at].add(index, form, key) } {
                return Self::default();
            }
        }
        if !conditions.iter_mut().all(Condition::can_match) {
            return Self::default();
        }
        Self::of(form, conditions)
    }

    /// The bounds that comparisons of one integer column ask for, as in most scans; none if there
    /// are keys of other kinds.
    ///
    /// # Safety
    ///
    /// As for [`Search::new`]; the index has one column, of this kind.
    unsafe fn of_integers(index: pg_sys::Relation, kind: Kind, keys: &[pg_sys::ScanKeyData]) -> Option<Self> {
        const OTHER_KINDS: u32 =
            pg_sys::SK_SEARCHNULL | pg_sys::SK_SEARCHNOTNULL | pg_sys::SK_ISNULL | pg_sys::SK_SEARCHARRAY;
        let is_other = |key: &pg_sys::ScanKeyData| key.sk_flags.cast_unsigned() & OTHER_KINDS != 0;
        if keys.is_empty() || keys.iter().any(is_other) {
            return None;
        }
        let (mut from, mut to): (Option<i64>, Option<i64>) = (None, None);
        for key in keys {
            // SAFETY: the caller's; the argument is not null.
            let value = unsafe { kind.argument_of(index, key, key.sk_argument) };
            let Some([least, greatest]) = integers(kind, u32::from(key.sk_strategy), value) else {
                return Some(Self::default());
            };
            from = from.max(least);
            to = match (to, greatest) {
                (Some(to), Some(greatest)) => Some(to.min(greatest)),
                (to, greatest) => to.or(greatest),
            };
        }
        let ends = from.zip(to);
        if ends.is_some_and(|(from, to)| from > to) {
            return Some(Self::default());
        }
        Some(Self {
            ranges: vec![Form::range_of_integers(from, to)],
            is_bounded: ends.is_some(),
            rest: Vec::new(),
        })
    }

    fn of(form: Form, conditions: Vec<Condition>) -> Self {
        let mut prefixes = vec![Vec::new()];
        let mut rest = conditions.into_iter().enumerate();
        let mut last = None;
        for (at, condition) in rest.by_ref() {
            let (tag, points) = condition.points();
            // One column alone has as many ranges as values are listed.
            let multiplies = prefixes.len() > 1 && points.len() > 1;
            if points.is_empty() || (multiplies && prefixes.len() * points.len() > RANGES_MAX) {
                drop(points);
                last = Some((at, condition));
                break;
            }
            let mut longer = Vec::with_capacity(prefixes.len() * points.len());
            for prefix in &prefixes {
                longer.extend(points.iter().map(|point| {
                    step();
                    [prefix, &[tag][..], point].concat()
                }));
            }
            prefixes = longer;
        }
        let range = |prefix: Vec<u8>| {
            step();
            match &last {
                Some((_, condition)) => form.range_of(&prefix, condition.start(), condition.end()),
                None => form.range_of_key(&prefix),
            }
        };
        let ranges = prefixes.into_iter().map(range).collect();
        let is_bounded = last
            .as_ref()
            .is_none_or(|(_, condition)| condition.has_both_ends());
        let unlisted = last.filter(|(_, condition)| condition.any_of.is_some());
        let rest = rest.filter(|(_, condition)| condition.asks_for_something());
        Self {
            ranges,
            is_bounded,
            rest: unlisted.into_iter().chain(rest).collect(),
        }
    }

    /// Whether an entry of one of the ranges matches.
    #[inline]
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        self.rest.is_empty() || self.rest_matches(entry)
    }

    fn rest_matches(&self, entry: &Entry) -> bool {
        let mut key = entry.borrowed().key;
        let mut next = 0;
        let columns = entry.key_columns();
        self.rest.iter().all(|(at, condition)| {
            for column in &columns[next..*at] {
                column.take(&mut key);
            }
            next = at + 1;
            condition.matches(columns[*at].take(&mut key))
        })
    }

    /// Between the first and the last position of all ranges.
    pub(super) fn hull(&self) -> Option<(&Entry, &Entry)> {
        let (from, _) = self.ranges.first()?;
        let (_, to) = self.ranges.last()?;
        Some((from, to))
    }

    /// Whether an entry lies in one of the ranges.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let before = self.ranges.partition_point(|(_, to)| to < entry);
        self.ranges.get(before).is_some_and(|(from, _)| from <= entry)
    }
}

/// Which nulls a column may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// Nothing is asked of the column.
    Any,
    Only,
    None,
}

/// An end of a column's values, and whether it is one of them.
#[derive(Debug, Clone)]
struct Limit {
    value: Vec<u8>,
    is_within: bool,
}

/// The condition on a column, in the order of the index.
#[derive(Debug, Clone)]
struct Condition {
    column: Column,
    nulls: Nulls,
    start: Option<Limit>,
    end: Option<Limit>,
    /// The values it may have, ascending, if they are listed.
    any_of: Option<Vec<Vec<u8>>>,
}

/// Values of a column: from the start to the end, where there is one.
type Values = (Option<Limit>, Option<Limit>);

impl Condition {
    fn new(column: Column) -> Self {
        Self {
            column,
            nulls: Nulls::Any,
            start: None,
            end: None,
            any_of: None,
        }
    }

    fn has_both_ends(&self) -> bool {
        self.any_of.is_some() || (self.start.is_some() && self.end.is_some())
    }

    fn asks_for_something(&self) -> bool {
        self.nulls != Nulls::Any
    }

    /// Adds what a key asks for; `false` if nothing can match.
    ///
    /// # Safety
    ///
    /// As for [`Search::new`]; the key is on this column.
    unsafe fn add(&mut self, index: pg_sys::Relation, form: Form, key: &pg_sys::ScanKeyData) -> bool {
        let flags = key.sk_flags.cast_unsigned();
        if flags & pg_sys::SK_SEARCHNULL != 0 {
            let can_match = self.nulls != Nulls::None;
            self.nulls = Nulls::Only;
            return can_match;
        }
        if self.nulls == Nulls::Only {
            return false;
        }
        // Whatever else is asked is not true of a null.
        self.nulls = Nulls::None;
        if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
            return true;
        }
        if flags & pg_sys::SK_ISNULL != 0 {
            return false;
        }
        let strategy = u32::from(key.sk_strategy);
        // SAFETY: the caller's.
        let values = |argument| unsafe {
            step();
            self.values(index, form, key, strategy, argument)
        };
        if flags & pg_sys::SK_SEARCHARRAY == 0 {
            let Some((start, end)) = values(key.sk_argument) else {
                return false;
            };
            self.narrow(start, end);
            return true;
        }
        // SAFETY: the caller's; the argument of such a key is an array.
        let elements = unsafe { Elements::of(key.sk_argument) };
        elements.expect_memory(form);
        if strategy == pg_sys::BTEqualStrategyNumber {
            let mut found = Vec::with_capacity(elements.count);
            let limits = elements.present().filter_map(values);
            found.extend(limits.filter_map(|(start, _)| start).map(|limit| limit.value));
            elements.free();
            self.list(found);
            return true;
        }
        let found: Vec<Values> = elements.present().filter_map(values).collect();
        elements.free();
        // One of them has to match, so the widest does.
        let order = |a: &Limit, b: &Limit| self.column.compare(&a.value, &b.value);
        let (starts, ends): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if starts.is_empty() {
            return false;
        }
        let start = starts.into_iter().collect::<Option<Vec<_>>>();
        let end = ends.into_iter().collect::<Option<Vec<_>>>();
        let start = start.and_then(|starts| starts.into_iter().min_by(order));
        let end = end.and_then(|ends| ends.into_iter().max_by(order));
        self.narrow(start, end);
        true
    }

    /// The values that a key's operator allows; `None` if it allows none.
    ///
    /// # Safety
    ///
    /// As for [`Self::add`]; the argument is not null, and of the key's type.
    unsafe fn values(
        &self,
        index: pg_sys::Relation,
        form: Form,
        key: &pg_sys::ScanKeyData,
        strategy: u32,
        argument: pg_sys::Datum,
    ) -> Option<Values> {
        let (low, high) = match form.integer_kind(&self.column) {
            // SAFETY: the caller's.
            Some(kind) => unsafe {
                integers(kind, strategy, kind.argument_of(index, key, argument))?
                    .map(|limit| limit.map(|value| self.limit_of(value)))
                    .into()
            },
            None => {
                let mut value = Vec::new();
                // SAFETY: the caller's; such operators have values of the column's type on both
                // sides.
                unsafe {
                    let len = self.column.least_len_of(argument);
                    expect_memory(len * COPIES_OF_VALUE, FEWER_VALUES);
                    self.column.push_value(index, key.sk_attno, argument, &mut value);
                }
                let limit = |is_within| {
                    let value = value.clone();
                    Some(Limit { value, is_within })
                };
                match strategy {
                    pg_sys::BTLessStrategyNumber => (None, limit(false)),
                    pg_sys::BTLessEqualStrategyNumber => (None, limit(true)),
                    pg_sys::BTEqualStrategyNumber => (limit(true), limit(true)),
                    pg_sys::BTGreaterEqualStrategyNumber => (limit(true), None),
                    pg_sys::BTGreaterStrategyNumber => (limit(false), None),
                    strategy => refuse(strategy),
                }
            }
        };
        Some(if self.column.is_descending() {
            (high, low)
        } else {
            (low, high)
        })
    }

    fn limit_of(&self, integer: i64) -> Limit {
        let mut value = Vec::new();
        self.column.push_integer(integer, &mut value);
        Limit {
            value,
            is_within: true,
        }
    }

    /// Restricts the values to those between two ends.
    fn narrow(&mut self, start: Option<Limit>, end: Option<Limit>) {
        let column = self.column;
        let is_stricter = |new: &Limit, old: &Option<Limit>, further: Ordering| {
            old.as_ref().is_none_or(|old| {
                let order = column.compare(&new.value, &old.value);
                order == further || (order.is_eq() && !new.is_within)
            })
        };
        if let Some(start) = start.filter(|new| is_stricter(new, &self.start, Ordering::Greater)) {
            self.start = Some(start);
        }
        if let Some(end) = end.filter(|new| is_stricter(new, &self.end, Ordering::Less)) {
            self.end = Some(end);
        }
    }

    /// Restricts the values to a list.
    fn list(&mut self, mut values: Vec<Vec<u8>>) {
        let compare = |a: &[u8], b: &[u8]| {
            step();
            self.column.compare(a, b)
        };
        values.sort_unstable_by(|a, b| compare(a, b));
        values.dedup_by(|a, b| compare(a, b).is_eq());
        if let Some(listed) = &self.any_of {
            values.retain(|value| listed.binary_search_by(|other| compare(other, value)).is_ok());
        }
        self.any_of = Some(values);
    }

    /// Whether any value matches. Removes listed values that do not.
    fn can_match(&mut self) -> bool {
        if let (Some(start), Some(end)) = (&self.start, &self.end) {
            let order = self.column.compare(&start.value, &end.value);
            if order.is_gt() || (order.is_eq() && !(start.is_within && end.is_within)) {
                return false;
            }
        }
        let Some(mut listed) = self.any_of.take() else {
            return true;
        };
        listed.retain(|value| {
            step();
            self.is_between(value)
        });
        let can_match = !listed.is_empty();
        self.any_of = Some(listed);
        can_match
    }

    fn is_between(&self, value: &[u8]) -> bool {
        let is_beyond = |limit: &Limit, further: Ordering| {
            let order = self.column.compare(value, &limit.value);
            order == further || (order.is_eq() && !limit.is_within)
        };
        !self
            .start
            .as_ref()
            .is_some_and(|start| is_beyond(start, Ordering::Less))
            && !self
                .end
                .as_ref()
                .is_some_and(|end| is_beyond(end, Ordering::Greater))
    }

    fn matches(&self, part: Part<'_>) -> bool {
        match part {
            Part::Value(value) => {
                let is_listed = |listed: &Vec<Vec<u8>>| {
                    listed
                        .binary_search_by(|other| self.column.compare(other, value))
                        .is_ok()
                };
                self.nulls != Nulls::Only
                    && self.is_between(value)
                    && self.any_of.as_ref().is_none_or(is_listed)
            }
            _ => self.nulls != Nulls::None,
        }
    }

    /// The values it may have, if they are few and known, else none; and the tag before each.
    fn points(&self) -> (u8, Cow<'_, [Vec<u8>]>) {
        let one = |value| Cow::Owned(vec![value]);
        let is_null = self.nulls == Nulls::Only;
        let points = match (&self.any_of, &self.start, &self.end) {
            _ if is_null => one(Vec::new()),
            (Some(listed), ..) => Cow::Borrowed(&listed[..]),
            (None, Some(start), Some(end)) if self.column.compare(&start.value, &end.value).is_eq() => {
                one(start.value.clone())
            }
            _ => Cow::Owned(Vec::new()),
        };
        (self.column.tag(is_null), points)
    }

    /// Where it begins: the bytes of a key, and whether those that begin so are left out; none at
    /// the very first null or value.
    fn start(&self) -> Option<(Vec<u8>, bool)> {
        let first = self.any_of.as_ref().and_then(|listed| listed.first());
        let tag = self.column.tag(false);
        match (first, &self.start) {
            (Some(first), _) => Some(([&[tag], &first[..]].concat(), false)),
            (None, Some(start)) => Some(([&[tag], &start.value[..]].concat(), !start.is_within)),
            (None, None) => (self.nulls == Nulls::None).then(|| (vec![tag], false)),
        }
    }

    /// Where it ends: the bytes of a key, and whether those that begin so are left out; none at the
    /// very last null or value.
    fn end(&self) -> Option<(Vec<u8>, bool)> {
        let last = self.any_of.as_ref().and_then(|listed| listed.last());
        let tag = self.column.tag(false);
        match (last, &self.end) {
            (Some(last), _) => Some(([&[tag], &last[..]].concat(), false)),
            (None, Some(end)) => Some(([&[tag], &end.value[..]].concat(), !end.is_within)),
            (None, None) => (self.nulls == Nulls::None).then(|| (vec![tag + 1], true)),
        }
    }
}

/// The least and the greatest integer that an operator allows, where there is one; `None` if it
/// allows none.
fn integers(kind: Kind, strategy: u32, value: i64) -> Option<[Option<i64>; 2]> {
    let (least, greatest) = match strategy {
        // Equal integers may be of lesser or greater values.
        pg_sys::BTLessStrategyNumber if kind.is_lossy() => (i64::MIN, value),
        pg_sys::BTGreaterStrategyNumber if kind.is_lossy() => (value, i64::MAX),
        pg_sys::BTLessStrategyNumber => (i64::MIN, value.checked_sub(1)?),
        pg_sys::BTLessEqualStrategyNumber => (i64::MIN, value),
        pg_sys::BTEqualStrategyNumber => (value, value),
        pg_sys::BTGreaterEqualStrategyNumber => (value, i64::MAX),
        pg_sys::BTGreaterStrategyNumber => (value.checked_add(1)?, i64::MAX),
        strategy => refuse(strategy),
    };
    let (first, last) = kind.limits();
    // Equality has both ends, though one may be that of the type.
    let is_one = least == greatest;
    (least <= last && greatest >= first).then(|| {
        [
            (is_one || least > first).then_some(least),
            (is_one || greatest < last).then_some(greatest),
        ]
    })
}

fn refuse(strategy: u32) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("access method \"bedload\" has no strategy {strategy}"),
        None,
    )
}

/// The elements of an array, in memory of the query: a scan may restart for each row of another
/// table, so the memory is freed each time.
struct Elements {
    /// Whether the array is a copy of the datum's.
    is_copy: bool,
    array: *mut pg_sys::ArrayType,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    count: usize,
}

impl Elements {
    /// # Safety
    ///
    /// The datum is an array, which stays until the elements are freed.
    unsafe fn of(datum: pg_sys::Datum) -> Self {
        // SAFETY: the caller's; PostgreSQL allocates the arrays, with so many elements.
        unsafe {
            let given = datum.cast_mut_ptr();
            let array = pg_sys::pg_detoast_datum(given).cast::<pg_sys::ArrayType>();
            let of = (*array).elemtype;
            let (mut len, mut is_by_value, mut align) = (0, false, 0);
            pg_sys::get_typlenbyvalalign(of, &raw mut len, &raw mut is_by_value, &raw mut align);
            let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                array,
                of,
                len.into(),
                is_by_value,
                align,
                &raw mut values,
                &raw mut nulls,
                &raw mut count,
            );
            Self {
                is_copy: array.cast() != given,
                array,
                values,
                nulls,
                count: usize::try_from(count).unwrap_or(0),
            }
        }
    }

    /// Sees to it that there is memory for a list of them, and for a range for each.
    fn expect_memory(&self, form: Form) {
        let (each, copies) = match form {
            Form::Integers(_) => (128, 0),
            // The value, the key that it is in, and both ends of a range.
            Form::Columns(_) => (320, 4),
        };
        // SAFETY: the array is there until the elements are freed.
        let len = unsafe { pgrx::varlena::varsize_any(self.array.cast()) };
        expect_memory(self.count * each + len * copies, FEWER_VALUES);
    }

    /// Those that are not null.
    fn present(&self) -> impl Iterator<Item = pg_sys::Datum> + '_ {
        // SAFETY: both arrays have so many elements.
        let element = |at| unsafe { (!*self.nulls.add(at)).then(|| *self.values.add(at)) };
        (0..self.count).filter_map(element)
    }

    fn free(self) {
        // SAFETY: PostgreSQL allocated them, and nobody else has them.
        unsafe {
            pg_sys::pfree(self.values.cast());
            pg_sys::pfree(self.nulls.cast());
            if self.is_copy {
                pg_sys::pfree(self.array.cast());
            }
        }
    }
}
