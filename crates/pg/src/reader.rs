//! Reading ranges of an index.

#![expect(unsafe_code, reason = "a cursor borrows from what is next to it")]

use std::ops::Bound;
use std::rc::Rc;

use bedload_pages::Result;
use bedload_trees::Position;
use bedload_trees::be_tree::Cursor;

use crate::error::fail_with;
use crate::head::Dead;
use crate::index::{Index, Tree, Way, tree_of};
use crate::key::{Entry, EntryOrder, EntryRow, Form};
use crate::pages::PgPages;

/// Room for so many entries is made before they are read.
const RESERVED_LEN_MAX: usize = 64;

/// Reads ranges of an index window by window, for as long as its relation is open: a window goes on
/// where the one before ended, without another descent.
pub(crate) struct Reader {
    /// It borrows `tree`, and is dropped first.
    cursor: Option<Reading>,
    /// It borrows `pages`, and is dropped before them.
    tree: Rc<Tree<'static>>,
    pages: Rc<PgPages>,
    form: Form,
    /// Positions of the entries of a window, before these are read.
    positions: Vec<(u64, u64)>,
}

/// A range that is being read.
struct Reading {
    cursor: Cursor<'static, EntryOrder, EntryRow, &'static PgPages>,
    way: Way,
    /// The entry that was read last, if there was one.
    last: Option<Entry>,
    is_over: bool,
}

impl Reader {
    /// # Safety
    ///
    /// The relation of the index stays open, and locked, as long as the result is used; it may be
    /// dropped later.
    pub(crate) unsafe fn new(index: Index) -> Self {
        let (at, form) = (index.tree_at(), index.form());
        // SAFETY: the caller's: the pages are of the relation that the index has open.
        let pages = Rc::new(unsafe { PgPages::new(index.pages().relation()) });
        pages.expect_blocks(index.pages().known_blocks());
        // SAFETY: an `Rc` does not move what it holds, nothing borrows that mutably, and `tree` is
        // dropped before it.
        let tree = Rc::new(tree_of(unsafe { &*Rc::as_ptr(&pages) }, at, form));
        Self {
            cursor: None,
            tree,
            pages,
            form,
            positions: Vec::new(),
        }
    }

    /// Forgets where it is: what is read next is read as it is then.
    pub(crate) fn reset(&mut self) {
        self.cursor = None;
    }

    /// Whether it has read all that a range has in the given direction, `last` being the last of
    /// it.
    pub(crate) fn is_over(&self, way: Way, last: &Entry) -> bool {
        self.is_at(way, last) && self.cursor.as_ref().is_some_and(|reading| reading.is_over)
    }

    fn is_at(&self, way: Way, last: &Entry) -> bool {
        let at = |reading: &Reading| reading.way == way && reading.last.as_ref() == Some(last);
        self.cursor.as_ref().is_some_and(at)
    }

    /// Appends to `window`, ascending, the first entries of the range in the given direction, `len`
    /// of them or some more; none if the range is empty. It goes on reading if `last`, at which the
    /// range begins, is what it has read last of a range that ends at the same place.
    pub(crate) fn window(
        &mut self,
        range: (Bound<&Entry>, Bound<&Entry>),
        (way, last): (Way, Option<&Entry>),
        dead: Dead,
        len: usize,
        window: &mut Vec<Entry>,
    ) {
        if !last.is_some_and(|last| self.is_at(way, last)) {
            self.cursor = None;
            let (from, to) = range;
            let (mut from_key, mut to_key) = ([0; 8], [0; 8]);
            let (from, to) = (position(from, &mut from_key), position(to, &mut to_key));
            // SAFETY: an `Rc` does not move what it holds, nothing borrows that mutably, and the
            // cursor is dropped before it.
            let tree: &'static Tree<'static> = unsafe { &*Rc::as_ptr(&self.tree) };
            let cursor = match way {
                Way::Up => tree.range(from, to),
                Way::Down => tree.range_back(from, to),
            };
            let mut cursor = self.done(cursor);
            if dead == Dead::Skipped {
                cursor.skip_dead();
            }
            cursor.expect_entries(len);
            self.cursor = Some(Reading {
                cursor,
                way,
                last: None,
                is_over: false,
            });
        }
        let Some(mut reading) = self.cursor.take() else {
            return;
        };
        let start = window.len();
        window.reserve(len.min(RESERVED_LEN_MAX));
        let form = self.form;
        let read = if let Form::Integers(_) = form {
            self.positions.clear();
            let read = reading.cursor.next_positions(len, &mut self.positions);
            window.extend(self.positions.iter().map(|&(prefix, tie)| Entry::at(prefix, tie)));
            read
        } else {
            reading
                .cursor
                .next_entries(len, |entry| window.push(form.of_run(&entry)))
        };
        reading.is_over = self.done(read) < len;
        reading.last = window[start..].last().or(last).cloned();
        self.cursor = Some(reading);
        if way == Way::Down {
            window[start..].reverse();
        }
    }

    fn done<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            // SAFETY: the relation is open while the reader is used.
            Err(error) => unsafe { fail_with(self.pages.relation(), &error) },
        }
    }
}

fn position<'k>(bound: Bound<&'k Entry>, scratch: &'k mut [u8; 8]) -> Bound<Position<'k>> {
    bound.map(|entry| Position {
        key: entry.key(scratch),
        tie: entry.tie,
    })
}
