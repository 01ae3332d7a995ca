//! The head of an index: pages that collect the entries of small transactions until there are
//! enough for a run.
//!
//! A run is cheap for many entries and dear for one: it writes a page and changes the root. So
//! batches of up to 480 entries are appended here, by one WAL record of 16 bytes an entry and about
//! 60 more, and a run is written for several thousand of them. It is the buffer of SWARE (Raman et
//! al., "Indexing for Near-Sorted Data"), on the server's own pages: every backend and every
//! standby reads it there.
//!
//! ```text
//! head page    the newest entries, in the order of their arrival; a directory of full pages
//! full page    stretches of sorted entries; up to SLOTS of these pages, of which the last one may be open
//! ```
//!
//! A batch of 64 entries or more becomes a stretch of the open page or, if it does not fit there,
//! of a new one. A shorter batch that does not fit into the head page becomes such a stretch
//! together with the head page's entries, sorted. The head page and the open page are in use from
//! their beginning on, as the server compares all that is in use of a page for a WAL record of a
//! change. The directory has the least and the greatest key of each full page. A lookup reads the
//! head page, then only full pages whose keys may match, each stretch by binary search.
//!
//! A session that meets the same head again and again keeps its entries in memory (`memory.rs`).
//!
//! From [`SEAL_SLOTS`] pages on that are not open, the session that has filled the last one *seals*
//! them: it publishes their entries as a run of the tree, then takes the pages off the directory.
//!
//! Entries that are no integers have a length of their own: limits count 16 bytes as an entry then,
//! and batches may be half as long.
//!
//! # Rules
//!
//! 1. An append is one batch of pages, hence atomic.
//! 2. Sealing publishes to the tree first and removes from the head afterwards. Readers read the
//!    head first and the tree afterwards. So a reader finds an entry in one of them, or in both;
//!    and it takes equal entries as one, as the tree does. A crash between the two leaves entries
//!    in both, which are sealed again.
//! 3. One process seals at a time: it holds the right to maintain the head page. It reads full
//!    pages, which only sealing removes, without a latch on the head page.
//! 4. `VACUUM` seals everything, under that right, before it begins to delete from the tree.
//!    Nothing that was dead by then is in the head afterwards: what is appended later is of rows
//!    that are not dead, and no other session is between reading dead entries and publishing them.
//! 5. Readers hold the head page's latch while they read full pages, and removal from the directory
//!    takes it exclusively. So no page that a reader has found in the directory is retired
//!    meanwhile, nor used again on a standby.
//! 6. Latches are taken in the order head page, full page.
//! 7. A scan that finds the row of an entry dead to all marks the entry, and later scans skip it;
//!    scans on a standby, where older snapshots may see the row, do not. Sealing keeps marked
//!    entries, but not their marks.
//!
//! Tests in `crates/pg/tests/cluster` that fail where a rule is broken:
//! `an_error_while_the_head_is_sealed_loses_nothing` (2) and `the_head_survives_crashes` (4) of
//! `head.rs`, `rows_in_the_place_of_dead_ones_are_not_marked` and
//! `a_standby_takes_no_notice_of_marks` (7) of `dead.rs`.
//!
//! # Invariants
//!
//! 1. `full` is at most [`SLOTS`], and no full page is empty.
//! 2. The entries of a stretch ascend strictly, and their keys lie between the two in the slot of
//!    their page.
//! 3. A full page that is not open is never changed, but that entries are marked.
//! 4. `deletions` counts bulk deletions that have ended; it is counted up before the server is told
//!    of the end.

mod layout;
mod memory;
mod records;

use bedload_pages::{Batch, Error, PageId, PageRead, PageStore, Result};

use crate::key::{Entry, Form, INTEGER_LEN};
use crate::pages::PgPages;
use layout::{
    DELETIONS_AT, Directory, ENTRIES_AT, FULL_DATA_AT, FULL_ROOM, FULLS, HEAD_DATA_AT, HEADS, OPEN_AT,
    PAYLOAD_LEN, SLOTS, STRETCHES, Slot, ends_of, long, put_ends, put_word, stretches, word,
};
pub(crate) use memory::Sorted;
use records::Records;

/// Full pages from which on they are sealed.
const SEAL_SLOTS: usize = 8;
/// The most bytes of entries of the head page, but for what a full page did not take.
const HEAD_ROOM: usize = 120 * INTEGER_LEN;
/// The least bytes of a batch that becomes its own stretch: eight of these fill a page.
const STRETCH_LEN: usize = FULL_ROOM / STRETCHES;
/// The most bytes of a batch that goes to the head; a longer one is a run of its own.
const APPEND_ROOM: usize = 480 * INTEGER_LEN;

const _: () = assert!(
    APPEND_ROOM <= FULL_ROOM && HEAD_DATA_AT + HEAD_ROOM + APPEND_ROOM / 2 <= PAYLOAD_LEN,
    "a full page and the head page hold what the head page has and a batch"
);

/// A number of bytes; less in tests.
fn shrunk(bytes: usize) -> usize {
    #[cfg(feature = "harness")]
    return (bytes / usize::try_from(crate::hooks::shrunk()).unwrap_or(1)).max(8 * INTEGER_LEN);
    #[cfg(not(feature = "harness"))]
    bytes
}

/// Whether to show entries that are known to be of dead rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    Shown,
    Skipped,
}

/// The head of an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    page: PageId,
    form: Form,
}

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The entries are in the head.
    Done,
    /// The entries are in the head, which is now to be sealed.
    Due,
    /// There is no room before the head is sealed.
    Full,
}

/// The full pages to be sealed, and their entries.
pub(crate) struct Sealable {
    pub(crate) pages: Vec<PageId>,
    pub(crate) entries: Vec<Entry>,
    /// Whether the head has nothing else that was asked for.
    pub(crate) is_all: bool,
}

impl Head {
    pub(crate) fn at(page: PageId, form: Form) -> Self {
        Self { page, form }
    }

    /// The place of the form's tags among tags.
    fn tag(self, tags: [[u8; 4]; 2]) -> [u8; 4] {
        tags[usize::from(matches!(self.form, Form::Columns(_)))]
    }

    /// The entries of the head page.
    fn head_records(self, payload: &[u8]) -> Result<Records<'_>> {
        Records::read(self.form, payload, self.page, self.tag(HEADS), HEAD_DATA_AT)
    }

    /// The entries of a full page.
    fn full_records(self, payload: &[u8], page: PageId) -> Result<Records<'_>> {
        Records::read(self.form, payload, page, self.tag(FULLS), FULL_DATA_AT)
    }

    pub(crate) fn page(self) -> PageId {
        self.page
    }

    /// Creates an empty head.
    pub(crate) fn create(pages: &PgPages, form: Form) -> Result<Self> {
        let page = pages.reserve()?.id;
        let head = Self { page, form };
        let mut batch = pages.batch(&[page])?;
        batch.set_used(0, HEAD_DATA_AT);
        batch.commit(|payloads| {
            payloads[0].fill(0);
            payloads[0][..4].copy_from_slice(&head.tag(HEADS));
        });
        Ok(head)
    }

    /// Whether a batch is small enough to be appended.
    pub(crate) fn takes(self, entries: &[Entry]) -> bool {
        let room = match self.form {
            Form::Integers(_) => APPEND_ROOM,
            Form::Columns(_) => APPEND_ROOM / 2,
        };
        records::len_of(self.form, entries) <= shrunk(room)
    }

    /// Appends a batch; `published` is called as soon as it is there.
    pub(crate) fn append(
        self,
        pages: &PgPages,
        entries: &[Entry],
        published: impl FnOnce(),
    ) -> Result<Appended> {
        let mut batch = pages.batch(&[self.page])?;
        let head = self.head_records(batch.page(0))?;
        let len_bytes = records::len_of(self.form, entries);
        if len_bytes >= shrunk(STRETCH_LEN) {
            return self.appended(self.write_stretch(pages, batch, entries, None, true)?, published);
        }
        if head.len_bytes() + len_bytes <= shrunk(HEAD_ROOM) {
            let (end, count) = (head.end(), head.count() + entries.len());
            batch.set_used(0, end + len_bytes);
            batch.commit(|payloads| {
                records::put(self.form, &mut payloads[0][end..], entries);
                put_word(payloads[0], ENTRIES_AT, count);
            });
            published();
            return Ok(Appended::Done);
        }
        let mut all: Vec<Entry> = head.iter().chain(entries.iter().cloned()).collect();
        // Merges the two, if the head page's are in order.
        all.sort();
        all.dedup();
        let rest = all.split_off(records::fitting(self.form, &all, FULL_ROOM));
        self.appended(
            self.write_stretch(pages, batch, &all, Some(&rest), true)?,
            published,
        )
    }

    /// The outcome of an append that was to write a stretch.
    fn appended(self, directory: Option<Directory>, published: impl FnOnce()) -> Result<Appended> {
        let Some(directory) = directory else {
            return Ok(Appended::Full);
        };
        published();
        let is_due = directory.sealable().len() >= SEAL_SLOTS;
        Ok(if is_due { Appended::Due } else { Appended::Done })
    }

    /// Makes a stretch of sorted entries, and has the head page's entries be `rest`, if that is
    /// given; `None` if there is no room. `batch` has the head page.
    fn write_stretch(
        self,
        pages: &PgPages,
        mut batch: <PgPages as PageStore>::Batch<'_>,
        all: &[Entry],
        rest: Option<&[Entry]>,
        stays_open: bool,
    ) -> Result<Option<Directory>> {
        let mut directory = Directory::read(batch.page(0), self.page)?;
        let mut full_at = 0;
        let mut ends = Vec::new();
        let mut data_at = FULL_DATA_AT;
        let len_bytes = records::len_of(self.form, all);
        if let (true, Some(open)) = (directory.is_open, directory.slots.last()) {
            batch.add(open.page)?;
            full_at += 1;
            let full = self.full_records(batch.page(1), open.page)?;
            if full.len_bytes() + len_bytes <= FULL_ROOM {
                ends = ends_of(batch.page(1), open.page, full.count())?;
                data_at = full.end();
            }
            if ends.len() == STRETCHES {
                (ends, data_at) = (Vec::new(), FULL_DATA_AT);
            }
        }
        let begin = ends.last().copied().unwrap_or(0);
        let (first, last) = match (all.first(), all.last()) {
            (Some(first), Some(last)) => (first.prefix, last.prefix),
            _ => (u64::MAX, 0),
        };
        if ends.is_empty() && !all.is_empty() {
            if directory.slots.len() == SLOTS {
                return Ok(None);
            }
            let page = pages.reserve()?.id;
            batch.add(page)?;
            full_at += 1;
            let keys = (first, last);
            directory.slots.push(Slot { page, keys });
        } else if let Some(open) = directory.slots.last_mut() {
            open.keys = (open.keys.0.min(first), open.keys.1.max(last));
        }
        directory.is_open = stays_open;
        ends.push(begin + all.len());
        if let Some(rest) = rest {
            batch.set_used(0, HEAD_DATA_AT + records::len_of(self.form, rest));
        }
        if !all.is_empty() {
            batch.set_used(full_at, data_at + len_bytes);
        }
        batch.commit(|payloads| {
            directory.put(payloads[0]);
            if let Some(rest) = rest {
                records::put(self.form, &mut payloads[0][HEAD_DATA_AT..], rest);
                put_word(payloads[0], ENTRIES_AT, rest.len());
            }
            if all.is_empty() {
                return;
            }
            let full = &mut *payloads[full_at];
            if begin == 0 {
                full.fill(0);
                full[..4].copy_from_slice(&self.tag(FULLS));
            }
            put_word(full, ENTRIES_AT, begin + all.len());
            put_ends(full, &ends);
            records::put(self.form, &mut full[data_at..], all);
        });
        Ok(Some(directory))
    }

    /// Makes a stretch of the entries of the head page, if there are any, and has no page be open;
    /// `false` if there is no room.
    fn spill(self, pages: &PgPages) -> Result<bool> {
        let batch = pages.batch(&[self.page])?;
        let mut all: Vec<Entry> = self.head_records(batch.page(0))?.iter().collect();
        if all.is_empty() && word(batch.page(0), OPEN_AT) == 0 {
            return Ok(true);
        }
        all.sort_unstable();
        all.dedup();
        Ok(self
            .write_stretch(pages, batch, &all, Some(&[]), false)?
            .is_some())
    }

    /// Returns the entries to seal; with `all`, also what the head page and the open page have. The
    /// caller has the right to seal (rule 3).
    pub(crate) fn sealable(self, pages: &PgPages, all: bool) -> Result<Sealable> {
        let is_all = !all || self.spill(pages)?;
        let directory = Directory::read(&pages.read(self.page)?, self.page)?;
        let slots = directory.sealable();
        let mut entries = Vec::with_capacity(slots.len() * FULL_ROOM / INTEGER_LEN);
        for slot in slots {
            let guard = pages.read(slot.page)?;
            entries.extend(self.full_records(&guard, slot.page)?.iter());
        }
        // Merges the stretches.
        entries.sort();
        entries.dedup();
        Ok(Sealable {
            pages: slots.iter().map(|slot| slot.page).collect(),
            entries,
            is_all,
        })
    }

    /// Takes pages off the directory, whose entries the tree has by now. They are the first ones.
    pub(crate) fn remove(self, pages: &PgPages, sealed: &[PageId]) -> Result<()> {
        let batch = pages.batch(&[self.page])?;
        let mut directory = Directory::read(batch.page(0), self.page)?;
        directory.slots.retain(|slot| !sealed.contains(&slot.page));
        batch.commit(|payloads| directory.put(payloads[0]));
        pages.retire(sealed);
        Ok(())
    }

    /// The entries between two, inclusively and ascending, and how many bulk deletions had ended by
    /// then.
    pub(crate) fn between(
        self,
        pages: &PgPages,
        from: &Entry,
        to: &Entry,
        dead: Dead,
    ) -> Result<(Sorted, u64)> {
        let head = pages.read(self.page)?;
        let found = memory::between(self, pages, &head, (from, to), dead)?;
        Ok((found, long(&head, DELETIONS_AT)))
    }

    /// The entries between two, inclusively and ascending, read from the pages; `head` is the head
    /// page, latched.
    fn read_between(
        self,
        pages: &PgPages,
        head: &[u8],
        (from, to): (&Entry, &Entry),
        dead: Dead,
    ) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        let is_shown = |records: &Records<'_>, index| dead == Dead::Shown || !records.is_marked(index);
        let (first, last) = (from.borrowed(), to.borrowed());
        let records = self.head_records(head)?;
        for index in 0..records.count() {
            let entry = records.get(index);
            let is_within = self.form.compare(entry, first).is_ge() && self.form.compare(entry, last).is_le();
            if is_within && is_shown(&records, index) {
                found.push(self.form.owned(entry));
            }
        }
        for slot in Directory::read(head, self.page)?.slots {
            if slot.keys.0 > to.prefix || slot.keys.1 < from.prefix {
                continue;
            }
            let full = pages.read(slot.page)?;
            let records = self.full_records(&full, slot.page)?;
            for stretch in stretches(&full, slot.page, records.count())? {
                for index in records.rank(&stretch, first)..stretch.end {
                    let entry = records.get(index);
                    if self.form.compare(entry, last).is_gt() {
                        break;
                    }
                    if is_shown(&records, index) {
                        found.push(self.form.owned(entry));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Marks entries, ascending, that are in the head, unless a bulk deletion has ended since there
    /// were `deletions` of them (rule 7).
    pub(crate) fn hint_dead(self, pages: &PgPages, dead: &[Entry], deletions: u64) -> Result<()> {
        let marks = |records: Records<'_>| -> Vec<usize> {
            let is_dead = |index: usize| dead.binary_search(&self.form.owned(records.get(index))).is_ok();
            let to_mark = (0..records.count()).filter(|&index| !records.is_marked(index) && is_dead(index));
            to_mark.map(|index| records.mark_at(index)).collect()
        };
        let mark = |payload: &mut [u8], ats: &[usize]| ats.iter().for_each(|&at| records::mark(payload, at));
        let (Some(first), Some(last)) = (dead.first(), dead.last()) else {
            return Ok(());
        };
        let listed = Directory::read(&pages.read(self.page)?, self.page)?.slots;
        let may_have = |slot: &Slot| slot.keys.0 <= last.prefix && first.prefix <= slot.keys.1;
        for slot in listed
            .iter()
            .filter(|slot| may_have(slot))
            .map(Some)
            .chain([None])
        {
            let mut batch = pages.batch(&[self.page])?;
            if long(batch.page(0), DELETIONS_AT) != deletions {
                return Ok(());
            }
            let Some(slot) = slot else {
                let ats = marks(self.head_records(batch.page(0))?);
                if !ats.is_empty() {
                    batch.commit(|payloads| mark(payloads[0], &ats));
                }
                return Ok(());
            };
            // Sealing may have taken it off the directory.
            if !Directory::read(batch.page(0), self.page)?
                .slots
                .iter()
                .any(|other| other.page == slot.page)
            {
                continue;
            }
            batch.add(slot.page)?;
            let ats = marks(self.full_records(batch.page(1), slot.page)?);
            if !ats.is_empty() {
                batch.commit(|payloads| mark(payloads[1], &ats));
            }
        }
        Ok(())
    }

    /// Every page of the head, and what is wrong with them.
    pub(crate) fn pages(self, pages: &PgPages) -> Result<Vec<PageId>> {
        let head = pages.read(self.page)?;
        self.head_records(&head)?;
        let mut found = vec![self.page];
        for slot in Directory::read(&head, self.page)?.slots {
            let full = pages.read(slot.page)?;
            let records = self.full_records(&full, slot.page)?;
            let all: Vec<Entry> = records.iter().collect();
            for stretch in stretches(&full, slot.page, records.count())? {
                let entries = &all[stretch];
                let is_within = |entry: &Entry| (slot.keys.0..=slot.keys.1).contains(&entry.prefix);
                if !entries.is_sorted_by(|a, b| a < b) || !entries.iter().all(is_within) {
                    let reason = "its entries do not ascend, or its keys lie outside of its slot";
                    return Err(Error::Corrupt {
                        page: slot.page,
                        reason,
                    });
                }
            }
            found.push(slot.page);
        }
        Ok(found)
    }

    /// How many entries there are, and in how many pages.
    pub(crate) fn size(self, pages: &PgPages) -> Result<(usize, usize)> {
        let head = pages.read(self.page)?;
        let mut entries = self.head_records(&head)?.count();
        let slots = Directory::read(&head, self.page)?.slots;
        for slot in &slots {
            let full = pages.read(slot.page)?;
            entries += self.full_records(&full, slot.page)?.count();
        }
        Ok((entries, 1 + slots.len()))
    }

    /// How many full pages there are.
    pub(crate) fn full_pages(self, pages: &PgPages) -> Result<usize> {
        Ok(Directory::read(&pages.read(self.page)?, self.page)?.slots.len())
    }

    /// How many bulk deletions have ended (invariant 4).
    pub(crate) fn deletions(self, pages: &PgPages) -> Result<u64> {
        Ok(long(&pages.read(self.page)?, DELETIONS_AT))
    }

    /// Counts a bulk deletion that has ended.
    pub(crate) fn count_deletion(self, pages: &PgPages) -> Result<()> {
        let batch = pages.batch(&[self.page])?;
        let deletions = long(batch.page(0), DELETIONS_AT) + 1;
        batch.commit(|payloads| {
            payloads[0][DELETIONS_AT..DELETIONS_AT + 8].copy_from_slice(&deletions.to_le_bytes());
        });
        Ok(())
    }
}
