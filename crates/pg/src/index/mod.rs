//! An index: block 0, and the tree and the head that it names.
//!
//! This is the seam between the access method and the tree: `am`, `pending` and `check` know
//! entries and this type, and nothing of the design below.

#![expect(unsafe_code, reason = "an index is an open relation")]

mod maintenance;
mod meta;
mod shape;

use std::ops::Bound;

use bedload_pages::{PageId, PageStore, Result};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, BeTreeProblem, LeafTarget, Level, PageVisitor, Report};
use bedload_trees::{Position, Row};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};

use crate::am::options::filter_bits;
use crate::compat;
use crate::error::{fail_with, name_of};
use crate::head::{Appended, Dead, Head, Sorted};
use crate::interrupts::interrupt_point;
use crate::key::{Entry, EntryLen, EntryOrder, EntryRef, EntryRow, Form};
use crate::pages::{Named, PAYLOAD_LEN, PgPages};
use meta::Remembered;
pub(crate) use shape::ScanShape;

const SETTINGS: BeTreeOptions = BeTreeOptions::new();

/// The settings of the tree on pages, which do not depend on them.
fn config(pages: &PgPages) -> BeTreeOptions {
    // SAFETY: the relation is open, as the pages are.
    let settings = SETTINGS.filter_bits(unsafe { filter_bits(pages.relation()) });
    #[cfg(feature = "harness")]
    return settings.shrunk(crate::hooks::shrunk());
    #[cfg(not(feature = "harness"))]
    settings
}

/// The most bytes of an entry: pages have room for four.
pub(crate) const ENTRY_LEN_MAX: usize = PAYLOAD_LEN / 4;

/// Entries that are written, or looked at, between two looks for a cancelled statement.
const INTERRUPT_ENTRIES: usize = 1024;

pub(crate) type Tree<'p> = BeTree<EntryOrder, EntryRow, &'p PgPages>;

/// Which way a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// An open index.
pub(crate) struct Index {
    pages: PgPages,
    /// The page that names the tree, which block 0 names, and the tree's root.
    tree: (PageId, PageId),
    head: Head,
    form: Form,
}

impl Index {
    /// Opens the index of a relation. The format is looked at when its descriptor is new to this
    /// process.
    ///
    /// # Safety
    ///
    /// The relation is an index of this access method, and stays open, and locked, as long as the
    /// result lives.
    pub(crate) unsafe fn open(relation: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        let pages = unsafe { PgPages::new(relation) };
        // SAFETY: the relation is open; `rd_amcache` is ours alone.
        unsafe {
            let Remembered {
                tree,
                head,
                form,
                blocks,
                ..
            } = match remembered_of(relation) {
                Some(remembered) => *remembered,
                None => {
                    let found = meta::read(&pages);
                    let memory = pg_sys::MemoryContextAlloc((*relation).rd_indexcxt, size_of::<Remembered>());
                    memory.cast::<Remembered>().write(found);
                    (*relation).rd_amcache = memory;
                    found
                }
            };
            pages.expect_blocks(blocks);
            Self {
                pages,
                tree,
                head,
                form,
            }
        }
    }

    /// When a relation's index was built, which copies of its file share; `None` if it is empty, as
    /// it is about to be built.
    ///
    /// # Safety
    ///
    /// As for [`Index::open`].
    pub(crate) unsafe fn built(relation: pg_sys::Relation) -> Option<u64> {
        // SAFETY: the caller's.
        unsafe {
            if remembered_of(relation).is_none() && PgPages::new(relation).has_block(0) {
                Self::open(relation);
            }
            remembered_of(relation).map(|remembered| remembered.built)
        }
    }

    /// Creates an empty index in an empty fork.
    pub(crate) fn create(pages: PgPages, form: Form) -> Self {
        let mut meta = pages.extend_block();
        let tree = match BeTree::create(&pages, form.order(), form.row(), config(&pages)) {
            Ok(tree) => tree,
            // SAFETY: the relation is open, as the pages are.
            Err(error) => unsafe { fail_with(pages.relation(), &error) },
        };
        let tree = (tree.meta(), tree.root());
        let head = match Head::create(&pages, form) {
            Ok(head) => head,
            // SAFETY: as above.
            Err(error) => unsafe { fail_with(pages.relation(), &error) },
        };
        meta::write(&pages, &mut meta, tree.0, head.page());
        drop(meta);
        Self {
            pages,
            tree,
            head,
            form,
        }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The form of the entries of a relation's index, which each of its rows asks for.
    ///
    /// # Safety
    ///
    /// As for [`Index::open`].
    pub(crate) unsafe fn form_of(relation: pg_sys::Relation) -> Form {
        // SAFETY: the caller's.
        unsafe {
            remembered_of(relation).map_or_else(|| Self::open(relation).form, |remembered| remembered.form)
        }
    }

    /// Where the tree is: see [`tree_of`].
    pub(crate) fn tree_at(&self) -> (PageId, PageId) {
        self.tree
    }

    pub(crate) fn pages(&self) -> &PgPages {
        &self.pages
    }

    /// Passes on a result of the tree; an error of it ends the transaction.
    fn done<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            // SAFETY: the relation is open as long as `self` lives.
            Err(error) => unsafe { fail_with(self.pages.relation(), &error) },
        }
    }

    fn tree(&self) -> Tree<'_> {
        tree_of(&self.pages, self.tree, self.form)
    }

    /// Inserts entries that ascend strictly: few of them into the head, more as a run. Calls
    /// `published` as soon as they are there, then does what maintenance they have made due.
    pub(crate) fn insert(&self, entries: &[Entry], published: impl FnOnce()) {
        if !self.head.takes(entries) {
            return self.insert_sorted(entries.iter().cloned(), published);
        }
        let mut published = Some(published);
        let mut publish = || {
            if let Some(published) = published.take() {
                published();
            }
        };
        loop {
            match self.done(self.head.append(&self.pages, entries, &mut publish)) {
                Appended::Done => return,
                Appended::Due => {
                    // Another session may be sealing.
                    self.try_seal(false);
                    return;
                }
                Appended::Full => {
                    if self.try_seal(false).is_none() {
                        wait();
                    }
                }
            }
        }
    }

    /// Seals the full pages of the head, with `all` also what its head page has, and tells whether
    /// that was all; `None` if another session seals.
    fn try_seal(&self, all: bool) -> Option<bool> {
        let right = self.pages.try_maintain(self.head.page())?;
        let sealable = self.done(self.head.sealable(&self.pages, all));
        if sealable.entries.is_empty() {
            return Some(sealable.is_all);
        }
        self.insert_sorted(sealable.entries.into_iter(), || {
            self.done(self.head.remove(&self.pages, &sealable.pages));
            // Maintenance of the tree comes next, and others need not wait for that.
            drop(right);
        });
        Some(sealable.is_all)
    }

    /// Seals all that the head has.
    fn seal_all(&self) {
        while self.try_seal(true) != Some(true) {
            wait();
        }
    }

    /// How many entries the head has, and in how many pages.
    pub(crate) fn head_size(&self) -> (u64, u64) {
        let (entries, pages) = self.done(self.head.size(&self.pages));
        (entries as u64, pages as u64)
    }

    /// How many entries there are, from the nodes alone. One on its way from one run to another
    /// counts twice.
    pub(crate) fn entries(&self) -> u64 {
        let in_tree: u64 = self.levels().iter().map(|level| level.entries).sum();
        in_tree + self.head_size().0
    }

    /// How much each level of the tree has, the leaves first.
    pub(crate) fn levels(&self) -> Vec<Level> {
        self.done(self.tree().levels())
    }

    /// How many pages a scan would look at, which meets more of them the more has come since things
    /// were merged last.
    pub(crate) fn scan_shape(&self) -> ScanShape {
        let head_pages = 1 + self.done(self.head.full_pages(&self.pages));
        let tree = self.tree();
        // Late and random entries lie above all leaves alike, entries in order above the last one.
        let ends = [LeafTarget::First, LeafTarget::Last].map(|end| self.done(tree.leaf_interval(end)));
        let busiest = ends.iter().max_by_key(|interval| interval.runs.len());
        busiest.map_or(ScanShape::default(), |interval| ScanShape {
            head_pages,
            trunk_pages: interval.levels,
            runs: interval.runs.len(),
            run_pages: interval.runs.iter().map(|run| usize::from(run.height)).sum(),
            filters: interval.runs.iter().filter(|run| run.filter.is_some()).count(),
            height: (interval.runs.iter().map(|run| usize::from(run.height)).max()).unwrap_or(0),
        })
    }

    /// Where to end a stretch of so many leaves of each run; see [`BeTree::stretch_end`].
    pub(crate) fn stretch_end(&self, begin: Bound<&Entry>, way: Way, leaves: usize) -> Option<Entry> {
        let mut scratch = [0; 8];
        let begin = begin.map(|entry| Position {
            key: entry.key(&mut scratch),
            tie: entry.tie,
        });
        let mut key = Vec::new();
        let tree = self.tree();
        let tie = self.done(tree.stretch_end(begin, way == Way::Up, leaves, &mut key))?;
        Some(self.form.owned(EntryRef {
            prefix: self.form.prefix(&key),
            tie,
            key: &key,
            payload: &[],
        }))
    }

    /// How many bulk deletions have ended.
    pub(crate) fn deletions(&self) -> u64 {
        self.done(self.head.deletions(&self.pages))
    }

    /// The entries of the head between two, inclusively and ascending, and how many bulk deletions
    /// had ended by then. To be called before the tree is read.
    pub(crate) fn head_between(&self, from: &Entry, to: &Entry, dead: Dead) -> (Sorted, u64) {
        self.done(self.head.between(&self.pages, from, to, dead))
    }

    /// The entries that have the key of one, ascending, in the head and in the tree, but for those
    /// known to be of dead rows, and how many bulk deletions had ended by then.
    pub(crate) fn entries_of_key(&self, entry: &Entry) -> (Sorted, Vec<Entry>, u64) {
        let (from, to) = entry.range_of_key();
        let (in_head, deletions) = self.head_between(&from, &to, Dead::Skipped);
        let (mut from_key, mut to_key) = ([0; 8], [0; 8]);
        let tree = self.tree();
        let mut cursor = self.done(tree.range(
            Bound::Included(Position {
                key: from.key(&mut from_key),
                tie: from.tie,
            }),
            Bound::Included(Position {
                key: to.key(&mut to_key),
                tie: to.tie,
            }),
        ));
        cursor.skip_dead();
        let mut in_tree = Vec::new();
        while let Some(entry) = self.done(cursor.next_entry()) {
            in_tree.push(self.form.of_run(&entry));
        }
        (in_head, in_tree, deletions)
    }

    /// Lets scans skip entries, ascending, whose rows were found dead to all when at least
    /// `deletions` bulk deletions had ended.
    ///
    /// The address of one of them can be reused only after one more has ended. So a mark set before
    /// that is on the entry of a dead row.
    pub(crate) fn hint_dead(
        &self,
        (in_head, deletions_of_head): (&[Entry], u64),
        (in_tree, deletions): (&[Entry], u64),
    ) {
        if !in_head.is_empty() {
            self.done(self.head.hint_dead(&self.pages, in_head, deletions_of_head));
        }
        if in_tree.is_empty() {
            return;
        }
        let mut keys = vec![[0; 8]; in_tree.len()];
        let dead: Vec<Position<'_>> = (keys.iter_mut().zip(in_tree))
            .map(|(scratch, entry)| Position {
                key: entry.key(scratch),
                tie: entry.tie,
            })
            .collect();
        let mut is_current = || Ok(self.head.deletions(&self.pages)? == deletions);
        self.done(self.tree().hint_dead(&dead, &mut is_current));
    }

    /// Inserts entries that ascend strictly as a run, calls `published` as soon as the tree has
    /// them, then does what maintenance they have made due.
    pub(crate) fn insert_sorted(&self, entries: impl Iterator<Item = Entry>, published: impl FnOnce()) {
        let tree = self.tree();
        let mut batch = self.done(tree.batch());
        let mut count = 0;
        for (number, entry) in entries.enumerate() {
            count += 1;
            if number % INTERRUPT_ENTRIES == INTERRUPT_ENTRIES - 1 {
                interrupt_point();
            }
            let mut scratch = [0; 8];
            let payload = [entry.borrowed().payload];
            let variable = if self.form.has_payload() {
                &payload[..]
            } else {
                &[]
            };
            self.done(batch.put(bedload_trees::Entry {
                key: entry.key(&mut scratch),
                tie: entry.tie,
                row: Row { fixed: &[], variable },
            }));
        }
        let batch = self.done(batch.seal());
        self.publish(&tree, batch, count, published);
    }

    /// Shows all entries to `visit`, ascending.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Entry)) {
        let (first, last) = self.form.whole();
        let (head, _) = self.head_between(&first, &last, Dead::Shown);
        let mut head = head.iter().cloned().peekable();
        let tree = self.tree();
        let mut cursor = self.done(tree.range(Bound::Unbounded, Bound::Unbounded));
        let mut count = 0;
        while let Some(entry) = self.done(cursor.next_entry()) {
            let entry = self.form.of_run(&entry);
            while let Some(before) = head.next_if(|head| *head < entry) {
                visit(before);
            }
            head.next_if_eq(&entry);
            visit(entry);
            count += 1;
            if count % INTERRUPT_ENTRIES == 0 {
                interrupt_point();
            }
        }
        head.for_each(visit);
    }

    /// Removes all entries that are there and whose rows `is_dead`, at VACUUM's pace; returns how
    /// many, those counted twice that are on their way from one run to another.
    pub(crate) fn remove(&self, is_dead: &mut dyn FnMut(Entry) -> bool) -> u64 {
        // Rule 4 of the head.
        self.seal_all();
        let tree = self.tree();
        let mut deletion = self.done(tree.begin_bulk_delete());
        let mut is_dead = |tie| is_dead(Entry::at(0, tie));
        while self.done(deletion.step(&mut is_dead)) {
            compat::vacuum_delay_point();
        }
        self.done(self.head.count_deletion(&self.pages));
        deletion.deleted()
    }

    /// Checks the structure, and lists what is wrong; to be called while nobody writes.
    pub(crate) fn verify(&self) -> (Report, Vec<String>) {
        self.pages.read_cancellably();
        let mut report = self.done(self.tree().verify());
        let describe = |problem: &BeTreeProblem| format!("page {}: {}", problem.page, problem.what);
        let mut problems: Vec<String> = report.problems.iter().map(describe).collect();
        match self.head.pages(&self.pages) {
            Ok(pages) => report.pages.extend(pages),
            Err(error) => problems.push(error.to_string()),
        }
        (report, problems)
    }

    /// Tells the free space map of all pages that are free or lost, at VACUUM's pace; returns how
    /// many there are.
    pub(crate) fn reclaim(&self) -> usize {
        let named = self.named();
        self.pages.reclaim_pages(Some(&named))
    }

    /// The pages that the index is made of.
    fn named(&self) -> Named<'_> {
        let mut named = Named::begin(&self.pages);
        for page in self.done(self.head.pages(&self.pages)) {
            named.add(page);
        }
        named.add_maintained(self.head.page());
        self.done(self.tree().visit_pages(&mut named));
        self.done(named.check());
        named
    }

    /// How many pages are lost; to be called while nobody writes.
    #[cfg(feature = "harness")]
    pub(crate) fn lost(&self) -> usize {
        let named = self.named();
        self.pages.lost_pages(&named)
    }

    /// Makes pages that were lost in a crash available again; to be called while nobody writes.
    /// Returns how many.
    pub(crate) fn sweep(&self) -> usize {
        let (report, problems) = self.verify();
        if !problems.is_empty() {
            return 0;
        }
        self.done(self.pages.sweep(&|page| report.pages.contains(&page)))
            .len()
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if std::thread::panicking() || self.pages.is_initial() {
            return;
        }
        // SAFETY: the relation is open as long as `self` lives.
        if let Some(remembered) = unsafe { remembered_of(self.pages.relation()) } {
            remembered.blocks = remembered.blocks.max(self.pages.known_blocks());
        }
    }
}

impl PageVisitor for Named<'_> {
    fn node(&mut self, page: PageId) {
        self.add_maintained(page);
    }

    fn page(&mut self, page: PageId) {
        self.add(page);
    }

    fn pause(&mut self) {
        compat::vacuum_delay_point();
    }
}

/// Returns the facts about an index that the server keeps with its open relation, if `Index::open`
/// has put them there.
///
/// # Safety
///
/// The relation is an index of this access method and stays open, and nothing else borrows the
/// result.
unsafe fn remembered_of<'r>(relation: pg_sys::Relation) -> Option<&'r mut Remembered> {
    // SAFETY: the caller's; `rd_amcache` is null, or what `Index::open` has put there.
    unsafe { (*relation).rd_amcache.cast::<Remembered>().as_mut() }
}

/// The entry of a row, as PostgreSQL hands it over; ends with an error if it is longer than entries
/// may be, as a B-tree does. Values of any length may come, and what copies them aborts the process
/// where there is no memory: the longest are refused before they are copied.
///
/// # Safety
///
/// Both relations are open, and the entries of the index have this form; the arrays have its
/// values, and `address` is valid.
pub(crate) unsafe fn entry_of_row(
    (table, index): (pg_sys::Relation, pg_sys::Relation),
    form: Form,
    values: *const pg_sys::Datum,
    nulls: *const bool,
    address: pg_sys::ItemPointer,
) -> Entry {
    // SAFETY: the caller's.
    unsafe {
        let refuse_if_too_large = |len| {
            if let Some(excess) = excess(form, len) {
                refuse((table, index), excess, *address);
            }
        };
        refuse_if_too_large(form.least_len_of(values, nulls));
        let entry = form.entry_of(index, values, nulls, address);
        refuse_if_too_large(entry.len());
        entry
    }
}

/// The part of an entry that is too long.
struct Excess {
    what: &'static str,
    len: usize,
    limit: usize,
}

fn excess(form: Form, EntryLen { key, payload }: EntryLen) -> Option<Excess> {
    // Whatever the settings are, keys up to this length were taken when the index was built.
    let key_len_max = Tree::key_len_max(PAYLOAD_LEN, &form.order(), &SETTINGS);
    let of = |what, len, limit| (len > limit).then_some(Excess { what, len, limit });
    of("key", key, key_len_max).or_else(|| of("row", key + payload, ENTRY_LEN_MAX))
}

/// Ends with an error, as the entry of the row at `address` is too long.
///
/// # Safety
///
/// Both relations are open.
unsafe fn refuse(
    (table, index): (pg_sys::Relation, pg_sys::Relation),
    Excess { what, len, limit }: Excess,
    address: pg_sys::ItemPointerData,
) {
    // SAFETY: the caller's.
    let (index, table) = unsafe { (name_of(index), name_of(table)) };
    let report = ErrorReport::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("index {what} size {len} exceeds bedload maximum {limit} for index \"{index}\""),
        "bedload",
    );
    let (block, offset) = pgrx::itemptr::item_pointer_get_both(address);
    let row = format!("Index row references tuple ({block},{offset}) in relation \"{table}\".");
    let hint = "Longer values cannot be indexed.\nConsider an index of a hash of the value: an operator class such as \
                text_hash_ops keeps one.";
    report.set_detail(row).set_hint(hint).report(PgLogLevel::ERROR);
}

/// Lets another session get on, for a moment in which this one may be cancelled.
fn wait() {
    interrupt_point();
    // SAFETY: sleeps.
    unsafe { pg_sys::pg_usleep(1000) };
}

/// The tree of a meta page and a root, which were looked at when the index was opened first.
pub(crate) fn tree_of(pages: &PgPages, at: (PageId, PageId), form: Form) -> Tree<'_> {
    BeTree::reopen(pages, at, form.order(), form.row(), config(pages))
}
