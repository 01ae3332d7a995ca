//! Reading ranges of an index.

#![expect(unsafe_code, reason = "a cursor borrows from what is next to it")]

use std::cell::OnceCell;
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

/// Room for so many entries is made before they are read: less than a KiB, which `malloc` has at
/// hand.
const RESERVED_LEN_MAX: usize = 32;

/// Reads ranges of an index window by window, for as long as its relation is open: a window goes on
/// where the one before ended, without another descent.
pub(crate) struct Reader {
    /// It borrows what `held` has, and is dropped first.
    cursor: Option<Reading>,
    held: Rc<Held>,
    form: Form,
    /// Positions of the entries of a window, before these are read.
    positions: Vec<(u64, u64)>,
}

/// A tree, and the pages that it is on.
struct Held {
    /// It borrows `pages`, and is dropped before them.
    tree: OnceCell<Tree<'static>>,
    pages: PgPages,
}

impl Held {
    fn tree(&self) -> &Tree<'static> {
        self.tree.get().expect("a reader has put it there")
    }
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
        let pages = unsafe { PgPages::new(index.pages().relation()) };
        pages.expect_blocks(index.pages().known_blocks());
        let tree = OnceCell::new();
        let held = Rc::new(Held { tree, pages });
        // SAFETY: an `Rc` does not move what it holds, nothing borrows that mutably, and the tree
        // is dropped before the pages.
        let pages: &'static PgPages = unsafe { &(*Rc::as_ptr(&held)).pages };
        held.tree.get_or_init(|| tree_of(pages, at, form));
        Self {
            cursor: None,
            held,
            form,
            positions: Vec::new(),
        }
    }

    /// Forgets its position: the next read sees the present state.
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

    /// Appends to `window`, ascending, the first entries of the range in the given direction, at
    /// least `len` of them; none if the range is empty. It continues its last read if `last`, at
    /// which the range begins, is the entry read last, of a range with the same end.
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
            let held: &'static Held = unsafe { &*Rc::as_ptr(&self.held) };
            let tree = held.tree();
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
        let (form, positions) = (self.form, &mut self.positions);
        let Some(reading) = &mut self.cursor else {
            return;
        };
        let start = window.len();
        window.reserve(len.min(RESERVED_LEN_MAX));
        let read = if let Form::Integers(_) = form {
            positions.clear();
            let read = reading.cursor.next_positions(len, positions);
            window.extend(positions.iter().map(|&(prefix, tie)| Entry::at(prefix, tie)));
            read
        } else {
            reading
                .cursor
                .next_entries(len, |entry| window.push(form.of_run(&entry)))
        };
        reading.is_over = read.as_ref().is_ok_and(|&count| count < len);
        reading.last = window[start..].last().or(last).cloned();
        self.done(read);
        if way == Way::Down {
            window[start..].reverse();
        }
    }

    fn done<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            // SAFETY: the relation is open while the reader is used.
            Err(error) => unsafe { fail_with(self.held.pages.relation(), &error) },
        }
    }
}

fn position<'k>(bound: Bound<&'k Entry>, scratch: &'k mut [u8; 8]) -> Bound<Position<'k>> {
    bound.map(|entry| Position {
        key: entry.key(scratch),
        tie: entry.tie,
    })
}
