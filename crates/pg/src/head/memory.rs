//! The heads that this process remembers: the entries of those that it has met several times
//! unchanged, in order.
//!
//! Every change of a head that adds or removes entries has a log record that names its head page,
//! though it may change another one alone. So the page's version, the end of that record, says that
//! the head is what it was. It says nothing where changes are not logged: heads of unlogged and
//! temporary indexes are read each time.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::rc::Rc;

use bedload_pages::{PageId, Result};

use super::{Dead, Head};
use crate::compat::FileName;
use crate::key::Entry;
use crate::pages::{PgGuard, PgPages};

/// Heads that are remembered.
const HEADS_MAX: usize = 8;
/// How often a head is met unchanged before it is remembered: to read all of it takes as long as
/// several lookups.
const MEETINGS: u32 = 4;

thread_local! {
    static MEMORY: RefCell<Vec<Remembered>> = const { RefCell::new(Vec::new()) };
}

/// Entries in order, some of those of a shared list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sorted {
    /// None where there are no entries, as in most scans.
    entries: Option<Rc<Vec<Entry>>>,
    range: Range<usize>,
}

impl From<Vec<Entry>> for Sorted {
    fn from(entries: Vec<Entry>) -> Self {
        Self {
            range: 0..entries.len(),
            entries: (!entries.is_empty()).then(|| Rc::new(entries)),
        }
    }
}

impl Deref for Sorted {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        match &self.entries {
            Some(entries) => &entries[self.range.clone()],
            None => &[],
        }
    }
}

/// Which entries of a head, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    file: FileName,
    page: PageId,
    version: u64,
    dead: Dead,
}

struct Remembered {
    state: State,
    meetings: u32,
    entries: Option<Rc<Vec<Entry>>>,
}

/// The entries of a head between two, inclusively; its head page is latched.
pub(super) fn between(
    head: Head,
    pages: &PgPages,
    page: &PgGuard,
    (from, to): (&Entry, &Entry),
    dead: Dead,
) -> Result<Sorted> {
    if !pages.needs_wal() {
        return Ok(head.read_between(pages, page, (from, to), dead)?.into());
    }
    let state = State {
        file: pages.file(),
        page: head.page,
        version: page.version(),
        dead,
    };
    let (remembered, is_due) = MEMORY.with_borrow_mut(|memory| meet(memory, state));
    let all = match remembered {
        Some(all) => all,
        None if is_due => {
            let (first, last) = head.form.whole();
            let all = Rc::new(head.read_between(pages, page, (&first, &last), dead)?);
            MEMORY.with_borrow_mut(|memory| {
                if let Some(remembered) = memory.iter_mut().find(|remembered| remembered.state == state) {
                    remembered.entries = Some(all.clone());
                }
            });
            all
        }
        None => return Ok(head.read_between(pages, page, (from, to), dead)?.into()),
    };
    let start = all.partition_point(|entry| entry < from);
    let end = start + all[start..].partition_point(|entry| entry <= to);
    Ok(Sorted {
        entries: (start < end).then_some(all),
        range: start..end,
    })
}

/// Notes that a head was met: its entries, if they are remembered, or whether they are to be. The
/// head that was met last comes first.
fn meet(memory: &mut Vec<Remembered>, state: State) -> (Option<Rc<Vec<Entry>>>, bool) {
    let is_same =
        |other: &State| (other.file, other.page, other.dead) == (state.file, state.page, state.dead);
    match memory.iter().position(|remembered| is_same(&remembered.state)) {
        Some(at) => memory[..=at].rotate_right(1),
        None => {
            memory.truncate(HEADS_MAX - 1);
            let meetings = 0;
            let entries = None;
            memory.insert(
                0,
                Remembered {
                    state,
                    meetings,
                    entries,
                },
            );
        }
    }
    let met = &mut memory[0];
    if met.state != state {
        (met.state, met.meetings, met.entries) = (state, 0, None);
    }
    met.meetings = met.meetings.saturating_add(1);
    (met.entries.clone(), met.meetings >= MEETINGS)
}
