//! The head of an index: pages that collect the entries of small transactions until there are enough for a run.
//!
//! A run is cheap for many entries and dear for one: it writes a page and changes the root. So batches of up to
//! [`APPEND_MAX`] entries are appended here, by one WAL record of 16 bytes an entry and about 60 more, and a run is
//! written for several thousand of them. It is the buffer of SWARE (Raman et al., "Indexing for Near-Sorted Data"), on
//! the server's own pages: every backend and every standby reads it there.
//!
//! ```text
//! head page    the newest entries, in the order of their arrival; a directory of full pages
//! full page    entries, sorted; up to SLOTS of them
//! ```
//!
//! A batch that does not fit into the head page is sorted together with what the page has: the lesser entries become a
//! full page, the rest stays. The directory has the least and the greatest key of each full page. A lookup reads the
//! head page, then only full pages whose keys may match, each by binary search.
//!
//! From [`SEAL_SLOTS`] full pages on, the session that has filled the last one *seals* them: it publishes their entries as a
//! run of the tree, then takes the pages off the directory.
//!
//! # Rules
//!
//! 1. An append is one batch of pages, hence atomic.
//! 2. Sealing publishes to the tree first and removes from the head afterwards. Readers read the head first and the
//!    tree afterwards. So a reader finds an entry in one of them, or in both; and it takes equal entries as one, as the
//!    tree does. A crash between the two leaves entries in both, which are sealed again.
//! 3. One process seals at a time: it holds the right to maintain the head page. It reads full pages, which only sealing
//!    removes, without a latch on the head page.
//! 4. `VACUUM` seals everything, under that right, before it begins to delete from the tree. Nothing that was dead by
//!    then is in the head afterwards: what is appended later is of rows that are not dead, and no other session is
//!    between reading dead entries and publishing them.
//! 5. Readers hold the head page's latch while they read full pages, and removal from the directory takes it
//!    exclusively. So no page that a reader has found in the directory is retired meanwhile, nor used again on a standby.
//! 6. Latches are taken in the order head page, full page.
//! 7. A scan that has found the row of an entry dead to everybody marks the entry, and later scans pass over it; scans on a
//!    standby, where older snapshots may see the row, do not. Sealing takes marked entries along without their marks.
//!
//! # Invariants
//!
//! 1. `entries` is at most [`HEAD_ENTRIES`], `full` at most [`SLOTS`], the entries of a full page 1 to [`FULL_ENTRIES`].
//! 2. The entries of a full page ascend strictly, and their keys lie between the two in its slot.
//! 3. A full page is never changed, but that entries are marked.
//! 4. `deletions` counts bulk deletions that have ended; it is counted up before the server is told of the end.

use std::ops::Range;

use bedload_pages::{Batch, Error, PageId, PageRead, PageStore, Result};

use crate::index::Dead;
use crate::key::Entry;
use crate::pages::{PAYLOAD, PgPages};

const PAYLOAD_LEN: usize = PAYLOAD.end - PAYLOAD.start;
const ENTRY_LEN: usize = 16;
/// Tags of the two kinds of page, in their first four bytes.
const HEAD: [u8; 4] = *b"bhd1";
const FULL: [u8; 4] = *b"bhf1";

/// Where things lie in a head page.
const ENTRIES_AT: usize = 4;
const FULL_AT: usize = 8;
const DELETIONS_AT: usize = 16;
const SLOTS_AT: usize = 24;
const SLOT_LEN: usize = 24;
const HEAD_DATA_AT: usize = SLOTS_AT + SLOTS * SLOT_LEN;
const FULL_DATA_AT: usize = 8;

/// The most full pages.
const SLOTS: usize = 16;
/// Full pages from which on they are sealed.
const SEAL_SLOTS: usize = 8;
/// The most entries of the head page, and of a full page.
const HEAD_ENTRIES: usize = (PAYLOAD_LEN - HEAD_DATA_AT) / ENTRY_LEN;
const FULL_ENTRIES: usize = (PAYLOAD_LEN - FULL_DATA_AT) / ENTRY_LEN;
/// The most entries of a batch that goes to the head; a longer one is a run of its own.
const APPEND_MAX: usize = HEAD_ENTRIES;

const _: () = assert!(
    APPEND_MAX <= FULL_ENTRIES,
    "two pages hold what the head page has and a batch"
);

/// The most entries of a head page, and of a batch that goes to it.
fn capacity() -> usize {
    #[cfg(feature = "harness")]
    return (HEAD_ENTRIES / usize::try_from(crate::harness::shrunk()).unwrap_or(1)).max(8);
    #[cfg(not(feature = "harness"))]
    HEAD_ENTRIES
}

/// The head of an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    page: PageId,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The entries are in the head.
    Done,
    /// The entries are in the head, which is now to be sealed.
    Due,
    /// There is no room before the head is sealed.
    Full,
}

/// A full page, as the directory has it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    page: PageId,
    /// The least and the greatest key, as prefixes.
    keys: (u64, u64),
}

/// The full pages to be sealed, and their entries.
pub(crate) struct Sealable {
    pub(crate) pages: Vec<PageId>,
    pub(crate) entries: Vec<Entry>,
    /// Whether the head has nothing else that was asked for.
    pub(crate) is_all: bool,
}

/// Set in the tie of a marked entry as it is stored (rule 7).
const DEAD: u64 = 1 << 63;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn put_word(bytes: &mut [u8], at: usize, value: usize) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The bytes of the entries of a page; an error if its counts are impossible.
fn data(payload: &[u8], page: PageId, tag: [u8; 4], data_at: usize) -> Result<&[u8]> {
    let count = usize::try_from(word(payload, ENTRIES_AT)).unwrap_or(usize::MAX);
    if payload[..4] != tag || count > (PAYLOAD_LEN - data_at) / ENTRY_LEN {
        let reason = "it is not a page of an index's head";
        return Err(Error::Corrupt { page, reason });
    }
    Ok(&payload[data_at..data_at + count * ENTRY_LEN])
}

/// Whether an entry, as it is stored, is marked.
fn is_marked(bytes: &[u8; ENTRY_LEN]) -> bool {
    long(bytes, 8) & DEAD != 0
}

fn entries_of(data: &[u8]) -> impl Iterator<Item = Entry> {
    data.chunks_exact(ENTRY_LEN).map(entry_of)
}

fn entry_of(bytes: &[u8]) -> Entry {
    Entry {
        prefix: long(bytes, 0),
        tie: long(bytes, 8) & !DEAD,
    }
}

fn put_entries(data: &mut [u8], entries: &[Entry]) {
    for (bytes, entry) in data.chunks_exact_mut(ENTRY_LEN).zip(entries) {
        bytes[..8].copy_from_slice(&entry.prefix.to_le_bytes());
        bytes[8..].copy_from_slice(&entry.tie.to_le_bytes());
    }
}

/// The full pages that a head page names.
fn slots(payload: &[u8], page: PageId) -> Result<Vec<Slot>> {
    let damaged = || Error::Corrupt {
        page,
        reason: "its directory of full pages is impossible",
    };
    let full = usize::try_from(word(payload, FULL_AT)).unwrap_or(usize::MAX);
    if full > SLOTS {
        return Err(damaged());
    }
    let slots = payload[SLOTS_AT..][..full * SLOT_LEN].chunks_exact(SLOT_LEN);
    let decoded = slots.map(|slot| {
        Ok(Slot {
            page: PageId::new(word(slot, 0)).ok_or_else(damaged)?,
            keys: (long(slot, 8), long(slot, 16)),
        })
    });
    decoded.collect()
}

fn put_slots(payload: &mut [u8], slots: &[Slot]) {
    put_word(payload, FULL_AT, slots.len());
    for (bytes, slot) in payload[SLOTS_AT..].chunks_exact_mut(SLOT_LEN).zip(slots) {
        bytes[..4].copy_from_slice(&slot.page.get().to_le_bytes());
        bytes[4..8].fill(0);
        bytes[8..16].copy_from_slice(&slot.keys.0.to_le_bytes());
        bytes[16..].copy_from_slice(&slot.keys.1.to_le_bytes());
    }
}

impl Head {
    pub(crate) fn at(page: PageId) -> Self {
        Self { page }
    }

    pub(crate) fn page(self) -> PageId {
        self.page
    }

    /// Creates an empty head.
    pub(crate) fn create(pages: &PgPages) -> Result<Self> {
        let page = pages.reserve()?.id;
        pages.batch(&[page])?.commit(|payloads| {
            payloads[0].fill(0);
            payloads[0][..4].copy_from_slice(&HEAD);
        });
        Ok(Self { page })
    }

    /// Whether a batch is small enough to be appended.
    pub(crate) fn takes(len: usize) -> bool {
        len <= capacity()
    }

    /// Appends a batch; `published` is called as soon as it is there.
    pub(crate) fn append(
        self,
        pages: &PgPages,
        entries: &[Entry],
        published: impl FnOnce(),
    ) -> Result<Appended> {
        let mut batch = pages.batch(&[self.page])?;
        let payload = batch.page(0);
        let mut slots = slots(payload, self.page)?;
        let data = data(payload, self.page, HEAD, HEAD_DATA_AT)?;
        let count = data.len() / ENTRY_LEN;
        if count + entries.len() <= capacity() {
            batch.commit(|payloads| {
                put_entries(&mut payloads[0][HEAD_DATA_AT + count * ENTRY_LEN..], entries);
                put_word(payloads[0], ENTRIES_AT, count + entries.len());
            });
            published();
            return Ok(Appended::Done);
        }
        if slots.len() == SLOTS {
            return Ok(Appended::Full);
        }
        let mut all: Vec<Entry> = entries_of(data).chain(entries.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let rest = all.split_off(all.len().min(FULL_ENTRIES));
        slots.push(self.write_full(pages, &mut batch, &all)?);
        batch.commit(|payloads| {
            let [head, full] = payloads else { return };
            put_full(full, &all);
            put_slots(head, &slots);
            put_entries(&mut head[HEAD_DATA_AT..], &rest);
            put_word(head, ENTRIES_AT, rest.len());
        });
        published();
        let is_due = slots.len() >= SEAL_SLOTS;
        Ok(if is_due { Appended::Due } else { Appended::Done })
    }

    /// Adds a fresh page for sorted entries to a batch.
    fn write_full<'s>(
        self,
        pages: &'s PgPages,
        batch: &mut <PgPages as PageStore>::Batch<'s>,
        entries: &[Entry],
    ) -> Result<Slot> {
        let page = pages.reserve()?.id;
        batch.add(page)?;
        let key = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.prefix);
        Ok(Slot {
            page,
            keys: (key(entries.first()), key(entries.last())),
        })
    }

    /// Makes a full page of the entries of the head page, if there are any; `false` if the directory has no room.
    fn spill(self, pages: &PgPages) -> Result<bool> {
        let mut batch = pages.batch(&[self.page])?;
        let payload = batch.page(0);
        let mut slots = slots(payload, self.page)?;
        let mut all: Vec<Entry> = entries_of(data(payload, self.page, HEAD, HEAD_DATA_AT)?).collect();
        if all.is_empty() {
            return Ok(true);
        }
        if slots.len() == SLOTS {
            return Ok(false);
        }
        all.sort_unstable();
        all.dedup();
        slots.push(self.write_full(pages, &mut batch, &all)?);
        batch.commit(|payloads| {
            let [head, full] = payloads else { return };
            put_full(full, &all);
            put_slots(head, &slots);
            put_word(head, ENTRIES_AT, 0);
        });
        Ok(true)
    }

    /// What is to be sealed; with `all`, also what the head page has. The caller has the right to seal (rule 3).
    pub(crate) fn sealable(self, pages: &PgPages, all: bool) -> Result<Sealable> {
        let is_all = !all || self.spill(pages)?;
        let slots = slots(&pages.read(self.page)?, self.page)?;
        let mut entries = Vec::with_capacity(slots.len() * FULL_ENTRIES);
        for slot in &slots {
            let guard = pages.read(slot.page)?;
            entries.extend(entries_of(data(&guard, slot.page, FULL, FULL_DATA_AT)?));
        }
        entries.sort_unstable();
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
        let mut slots = slots(batch.page(0), self.page)?;
        slots.retain(|slot| !sealed.contains(&slot.page));
        batch.commit(|payloads| put_slots(payloads[0], &slots));
        pages.retire(sealed);
        Ok(())
    }

    /// Appends to `found` the entries between two, inclusively, in no particular order.
    pub(crate) fn between(
        self,
        pages: &PgPages,
        from: Entry,
        to: Entry,
        dead: Dead,
        found: &mut Vec<Entry>,
    ) -> Result<()> {
        let is_shown = |bytes: &&[u8; ENTRY_LEN]| dead == Dead::Shown || !is_marked(bytes);
        let head = pages.read(self.page)?;
        let (chunks, _) = data(&head, self.page, HEAD, HEAD_DATA_AT)?.as_chunks::<ENTRY_LEN>();
        let of_head = chunks.iter().filter(is_shown).map(|bytes| entry_of(bytes));
        found.extend(of_head.filter(|entry| (from..=to).contains(entry)));
        for slot in slots(&head, self.page)? {
            if slot.keys.0 > to.prefix || slot.keys.1 < from.prefix {
                continue;
            }
            let full = pages.read(slot.page)?;
            let data = data(&full, slot.page, FULL, FULL_DATA_AT)?;
            let (chunks, _) = data.as_chunks::<ENTRY_LEN>();
            let range: Range<usize> = chunks.partition_point(|entry| entry_of(entry) < from)
                ..chunks.partition_point(|entry| entry_of(entry) <= to);
            found.extend(
                chunks
                    .get(range)
                    .into_iter()
                    .flatten()
                    .filter(is_shown)
                    .map(|entry| entry_of(entry)),
            );
        }
        Ok(())
    }

    /// Marks entries, ascending, that are in the head, unless a bulk deletion has ended since there were `deletions` of them
    /// (rule 7).
    pub(crate) fn hint_dead(self, pages: &PgPages, dead: &[Entry], deletions: u64) -> Result<()> {
        let marks = |payload: &[u8], page, tag, data_at| -> Result<Vec<usize>> {
            let (chunks, _) = data(payload, page, tag, data_at)?.as_chunks::<ENTRY_LEN>();
            let is_to_mark =
                |bytes: &[u8; ENTRY_LEN]| !is_marked(bytes) && dead.binary_search(&entry_of(bytes)).is_ok();
            let marked = (0..chunks.len()).filter(|&at| is_to_mark(&chunks[at]));
            Ok(marked.map(|at| data_at + at * ENTRY_LEN).collect())
        };
        let mark = |payload: &mut [u8], ats: &[usize]| {
            for &at in ats {
                payload[at + ENTRY_LEN - 1] |= DEAD.to_be_bytes()[0];
            }
        };
        let (Some(first), Some(last)) = (dead.first(), dead.last()) else {
            return Ok(());
        };
        let listed = slots(&pages.read(self.page)?, self.page)?;
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
                let ats = marks(batch.page(0), self.page, HEAD, HEAD_DATA_AT)?;
                if !ats.is_empty() {
                    batch.commit(|payloads| mark(payloads[0], &ats));
                }
                return Ok(());
            };
            // Sealing may have taken it off the directory.
            if !slots(batch.page(0), self.page)?
                .iter()
                .any(|other| other.page == slot.page)
            {
                continue;
            }
            batch.add(slot.page)?;
            let ats = marks(batch.page(1), slot.page, FULL, FULL_DATA_AT)?;
            if !ats.is_empty() {
                batch.commit(|payloads| mark(payloads[1], &ats));
            }
        }
        Ok(())
    }

    /// Every page of the head, and what is wrong with them.
    pub(crate) fn pages(self, pages: &PgPages) -> Result<Vec<PageId>> {
        let head = pages.read(self.page)?;
        data(&head, self.page, HEAD, HEAD_DATA_AT)?;
        let mut found = vec![self.page];
        for slot in slots(&head, self.page)? {
            let full = pages.read(slot.page)?;
            let entries: Vec<Entry> = entries_of(data(&full, slot.page, FULL, FULL_DATA_AT)?).collect();
            let is_within = |entry: &Entry| (slot.keys.0..=slot.keys.1).contains(&entry.prefix);
            if entries.is_empty() || !entries.is_sorted_by(|a, b| a < b) || !entries.iter().all(is_within) {
                let reason = "its entries do not ascend, or its keys lie outside of its slot";
                return Err(Error::Corrupt {
                    page: slot.page,
                    reason,
                });
            }
            found.push(slot.page);
        }
        Ok(found)
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

fn put_full(payload: &mut [u8], entries: &[Entry]) {
    payload.fill(0);
    payload[..4].copy_from_slice(&FULL);
    put_word(payload, ENTRIES_AT, entries.len());
    put_entries(&mut payload[FULL_DATA_AT..], entries);
}
