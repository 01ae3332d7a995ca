//! An index: the meta page, and the tree that it names.
//!
//! This is the seam between the access method and the tree: `am`, `pending` and `check` know entries and this type,
//! and nothing of the design below.

#![expect(unsafe_code, reason = "an index is an open relation")]

use std::ops::Bound;

use bedload_index::paged::bplus_tree::{BPlusTree, Config, Cursor, Report};
use bedload_index::paged::{self, EntrySource, I64Order, NoRow, PageId, PageStore, Position, Result, Row};
use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{fail, fail_with, name_of};
use crate::key::Entry;
use crate::pages::{self, Life, Mode, PAYLOAD, PgPages, State};

/// The version of the format of pages that this code writes and reads.
const FORMAT: u32 = 1;
/// The design of the tree below the root: a B+-tree.
const DESIGN: u32 = 1;
const MAGIC: [u8; 8] = *b"bedload\0";
/// Magic, format, design, root.
const META_LEN: usize = 20;

const CONFIG: Config = Config::new();

type Tree<'p> = BPlusTree<I64Order, NoRow, &'p PgPages>;

/// Which way a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// An open index.
pub(crate) struct Index {
    pages: PgPages,
    root: PageId,
}

/// What a relation's descriptor keeps of its meta page: the root, until PostgreSQL drops it with the descriptor.
#[repr(C)]
struct Remembered {
    root: PageId,
}

impl Index {
    /// Opens the index of a relation. The format is looked at when its descriptor is new to this process.
    ///
    /// # Safety
    ///
    /// The relation is an index of this access method, and stays open, and locked, as long as the result lives.
    pub(crate) unsafe fn open(relation: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        let pages = unsafe { PgPages::new(relation) };
        // SAFETY: the relation is open; `rd_amcache` is ours alone, null or what is put there below.
        unsafe {
            let remembered = (*relation).rd_amcache.cast::<Remembered>();
            let root = match remembered.as_ref() {
                Some(remembered) => remembered.root,
                None => {
                    let root = read_meta(&pages);
                    let memory = pg_sys::MemoryContextAlloc((*relation).rd_indexcxt, size_of::<Remembered>());
                    memory.cast::<Remembered>().write(Remembered { root });
                    (*relation).rd_amcache = memory;
                    root
                }
            };
            Self { pages, root }
        }
    }

    /// Creates an empty index in an empty fork.
    pub(crate) fn create(pages: PgPages) -> Self {
        let mut meta = pages.extend_block();
        let tree = match BPlusTree::create(&pages, I64Order, NoRow, CONFIG) {
            Ok(tree) => tree,
            // SAFETY: the relation is open, as the pages are.
            Err(error) => unsafe { fail_with(pages.relation(), &error) },
        };
        let root = tree.root();
        let mut bytes = [0; META_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&DESIGN.to_le_bytes());
        bytes[16..].copy_from_slice(&root.get().to_le_bytes());
        let life = Life {
            generation: 1,
            stamp: 0,
            state: State::Meta,
        };
        pages.write_whole(&mut meta, life, &bytes);
        drop(meta);
        Self { pages, root }
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
        self.done(BPlusTree::open(&self.pages, self.root, I64Order, NoRow, CONFIG))
    }

    /// Inserts entries that ascend strictly.
    pub(crate) fn insert_sorted(&self, entries: impl Iterator<Item = Entry>) {
        self.done(self.tree().insert_sorted(&mut Source::new(entries)));
    }

    /// Fills the index, which is empty, with entries that ascend strictly; returns how many.
    pub(crate) fn load(&self, entries: impl Iterator<Item = Entry>) -> u64 {
        self.done(self.tree().bulk_load(&mut Source::new(entries)))
    }

    /// Appends to `window`, ascending, the first entries of the range in the given direction, as many as lie together;
    /// none if the range is empty.
    pub(crate) fn window(&self, from: Bound<Entry>, to: Bound<Entry>, way: Way, window: &mut Vec<Entry>) {
        let tree = self.tree();
        let mut cursor = self.cursor(&tree, from, to, way);
        self.next_window(&mut cursor, window);
    }

    fn cursor<'t, 'p>(
        &self,
        tree: &'t Tree<'p>,
        from: Bound<Entry>,
        to: Bound<Entry>,
        way: Way,
    ) -> Cursor<'t, I64Order, NoRow, &'p PgPages> {
        let (from_key, to_key) = (key_of(from), key_of(to));
        let (from, to) = (position(from, &from_key), position(to, &to_key));
        self.done(match way {
            Way::Up => tree.range(from, to),
            Way::Down => tree.range_back(from, to),
        })
    }

    fn next_window(
        &self,
        cursor: &mut Cursor<'_, I64Order, NoRow, &PgPages>,
        window: &mut Vec<Entry>,
    ) -> bool {
        let Some(slice) = self.done(cursor.next_leaf()) else {
            return false;
        };
        let pairs = slice.prefixes().iter().zip(slice.ties());
        window.extend(pairs.map(|(&prefix, &tie)| Entry {
            prefix: u64::from_le_bytes(prefix),
            tie: u64::from_le_bytes(tie),
        }));
        true
    }

    /// Shows all entries to `visit`, window by window and ascending. No latch is held meanwhile, so `visit` may take
    /// its time and change the index. An entry that is there throughout is seen once.
    pub(crate) fn for_each_window(&self, mut visit: impl FnMut(&[Entry])) {
        let tree = self.tree();
        let mut cursor = self.cursor(&tree, Bound::Unbounded, Bound::Unbounded, Way::Up);
        let mut window = Vec::new();
        while self.next_window(&mut cursor, &mut window) {
            visit(&window);
            window.clear();
        }
    }

    /// Removes the entries of `window`, ascending, that `is_dead` selects; returns how many.
    pub(crate) fn remove(&self, window: &[Entry], is_dead: impl Fn(Entry) -> bool) -> u64 {
        let (Some(&first), Some(&last)) = (window.first(), window.last()) else {
            return 0;
        };
        let (from, to) = (Bound::Included(first), Bound::Included(last));
        let (from_key, to_key) = (key_of(from), key_of(to));
        let select = |entry: paged::bplus_tree::EntryRef<'_, I64Order, NoRow>| {
            is_dead(Entry {
                prefix: entry.prefix(),
                tie: entry.tie(),
            })
        };
        let (from, to) = (position(from, &from_key), position(to, &to_key));
        self.done(self.tree().remove_range_with(from, to, select, |_| {}))
    }

    /// Checks the structure; to be called while nobody writes.
    pub(crate) fn verify(&self) -> Report {
        self.done(self.tree().verify())
    }

    /// Makes pages that were lost in a crash available again; to be called while nobody writes. Returns how many.
    pub(crate) fn sweep(&self) -> usize {
        let report = self.verify();
        if !report.is_sound() {
            return 0;
        }
        self.done(self.pages.sweep(&|page| report.pages.contains(&page)))
            .len()
    }
}

/// The root that the meta page names.
fn read_meta(pages: &PgPages) -> PageId {
    // SAFETY: the relation is open, as the pages are.
    let name = unsafe { name_of(pages.relation()) };
    let damaged = |what: &str| -> ! {
        fail(
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{name}\": {what}"),
            Some(format!("REINDEX INDEX {name}.")),
        )
    };
    if !pages.has_block(0) {
        damaged("it has no meta page");
    }
    let latch = pages.pin_block(0).latch(Mode::Shared);
    let is_meta = pages::life(latch.page()).is_some_and(|life| life.state == State::Meta);
    let bytes = &latch.page()[PAYLOAD][..META_LEN];
    if !is_meta || bytes[..8] != MAGIC {
        damaged("block 0 is not the meta page of a bedload index");
    }
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (format, design) = (number(8), number(12));
    if (format, design) != (FORMAT, DESIGN) {
        damaged(&format!(
            "it has format {format}.{design}, and this version of bedload reads format {FORMAT}.{DESIGN}"
        ));
    }
    match PageId::new(number(16)) {
        Some(root) => root,
        None => damaged("its meta page names no root"),
    }
}

fn key_of(bound: Bound<Entry>) -> [u8; 8] {
    match bound {
        Bound::Included(entry) | Bound::Excluded(entry) => entry.prefix.to_be_bytes(),
        Bound::Unbounded => [0; 8],
    }
}

fn position(bound: Bound<Entry>, key: &[u8; 8]) -> Bound<Position<'_>> {
    bound.map(|entry| Position { key, tie: entry.tie })
}

/// Entries as a source of a tree. Between entries, when nothing is latched, it lets a session be cancelled.
struct Source<I> {
    entries: I,
    key: [u8; 8],
    count: u32,
}

impl<I> Source<I> {
    fn new(entries: I) -> Self {
        Self {
            entries,
            key: [0; 8],
            count: 0,
        }
    }
}

impl<I: Iterator<Item = Entry>> EntrySource for Source<I> {
    fn next_entry(&mut self) -> Result<Option<paged::Entry<'_>>> {
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(256) {
            pgrx::check_for_interrupts!();
        }
        Ok(self.entries.next().map(|entry| {
            self.key = entry.prefix.to_be_bytes();
            paged::Entry {
                key: &self.key,
                tie: entry.tie,
                row: Row::default(),
            }
        }))
    }
}
