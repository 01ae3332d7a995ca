//! The head of an index: pages that collect the entries of small transactions until there are enough for a run.
//!
//! A run is cheap for many entries and dear for one: it writes a page and changes the root. So batches of up to
//! [`APPEND_MAX`] entries are appended here, by one WAL record of 16 bytes an entry and about 60 more, and a run is
//! written for several thousand of them. It is the buffer of SWARE (Raman et al., "Indexing for Near-Sorted Data"), on
//! the server's own pages: every backend and every standby reads it there.
//!
//! ```text
//! head page    the newest entries, in the order of their arrival; a directory of full pages
//! full page    stretches of sorted entries; up to SLOTS of these pages, of which the last one may be open
//! ```
//!
//! A batch that does not fit into the head page is sorted together with what the page has, which becomes a stretch of the
//! open page or, if it does not fit there, of a new one. The head page is kept short, as a WAL record of a change compares
//! all that is in use of a page. The directory has the least and the greatest key of each full page. A lookup reads the
//! head page, then only full pages whose keys may match, each stretch by binary search.
//!
//! From [`SEAL_SLOTS`] pages on that are not open, the session that has filled the last one *seals* them: it publishes their entries as a
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
//! 2. The entries of a stretch ascend strictly, and their keys lie between the two in the slot of their page.
//! 3. A full page that is not open is never changed, but that entries are marked.
//! 4. `deletions` counts bulk deletions that have ended; it is counted up before the server is told of the end.

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
/// 1 if the last full page is open, else 0.
const OPEN_AT: usize = 12;
const DELETIONS_AT: usize = 16;
const SLOTS_AT: usize = 24;
const SLOT_LEN: usize = 24;
const HEAD_DATA_AT: usize = SLOTS_AT + SLOTS * SLOT_LEN;
/// Where stretches end in a full page: [`STRETCHES`] numbers of two bytes, zero for those that it has not got.
const ENDS_AT: usize = 8;
const FULL_DATA_AT: usize = ENDS_AT + 2 * STRETCHES;

/// The most full pages.
const SLOTS: usize = 16;
/// Full pages from which on they are sealed.
const SEAL_SLOTS: usize = 8;
/// The most entries of the head page, and of a full page.
const HEAD_ENTRIES: usize = 120;
const FULL_ENTRIES: usize = (PAYLOAD_LEN - FULL_DATA_AT) / ENTRY_LEN;
/// The most stretches of a full page.
const STRETCHES: usize = 8;
/// The most entries of a batch that goes to the head; a longer one is a run of its own.
const APPEND_MAX: usize = 480;

const _: () = assert!(
    APPEND_MAX <= FULL_ENTRIES && HEAD_DATA_AT + HEAD_ENTRIES * ENTRY_LEN <= PAYLOAD_LEN,
    "a full page and the head page hold what the head page has and a batch"
);

/// A number of entries; less in tests.
fn shrunk(entries: usize) -> usize {
    #[cfg(feature = "harness")]
    return (entries / usize::try_from(crate::harness::shrunk()).unwrap_or(1)).max(8);
    #[cfg(not(feature = "harness"))]
    entries
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
struct Directory {
    slots: Vec<Slot>,
    /// Whether the last one is open.
    is_open: bool,
}

impl Directory {
    fn read(payload: &[u8], page: PageId) -> Result<Self> {
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
        Ok(Self {
            slots: decoded.collect::<Result<_>>()?,
            is_open: full > 0 && word(payload, OPEN_AT) == 1,
        })
    }

    fn put(&self, payload: &mut [u8]) {
        put_word(payload, FULL_AT, self.slots.len());
        put_word(
            payload,
            OPEN_AT,
            usize::from(self.is_open && !self.slots.is_empty()),
        );
        for (bytes, slot) in payload[SLOTS_AT..].chunks_exact_mut(SLOT_LEN).zip(&self.slots) {
            bytes[..4].copy_from_slice(&slot.page.get().to_le_bytes());
            bytes[4..8].fill(0);
            bytes[8..16].copy_from_slice(&slot.keys.0.to_le_bytes());
            bytes[16..].copy_from_slice(&slot.keys.1.to_le_bytes());
        }
    }

    /// The pages that are not open.
    fn sealable(&self) -> &[Slot] {
        &self.slots[..self.slots.len() - usize::from(self.is_open)]
    }
}

/// Where the stretches of a full page end.
fn ends_of(payload: &[u8], page: PageId) -> Result<Vec<usize>> {
    let count = data(payload, page, FULL, FULL_DATA_AT)?.len() / ENTRY_LEN;
    let (ends, _) = payload[ENDS_AT..FULL_DATA_AT].as_chunks::<2>();
    let ends = ends.iter().map(|&end| usize::from(u16::from_le_bytes(end)));
    let ends: Vec<usize> = ends.take_while(|&end| end > 0).collect();
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != count {
        let reason = "its stretches are not those of its entries";
        return Err(Error::Corrupt { page, reason });
    }
    Ok(ends)
}

fn put_ends(payload: &mut [u8], ends: &[usize]) {
    for (bytes, &end) in payload[ENDS_AT..FULL_DATA_AT].chunks_exact_mut(2).zip(ends) {
        bytes.copy_from_slice(&u16::try_from(end).unwrap_or(u16::MAX).to_le_bytes());
    }
}

/// The stretches of a full page, as they are stored.
fn stretches(payload: &[u8], page: PageId) -> Result<impl Iterator<Item = &[[u8; ENTRY_LEN]]>> {
    let (chunks, _) = data(payload, page, FULL, FULL_DATA_AT)?.as_chunks::<ENTRY_LEN>();
    let mut begin = 0;
    let ends = ends_of(payload, page)?;
    Ok(ends
        .into_iter()
        .map(move |end| &chunks[std::mem::replace(&mut begin, end)..end]))
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
        let mut batch = pages.batch(&[page])?;
        batch.set_used(0, HEAD_DATA_AT);
        batch.commit(|payloads| {
            payloads[0].fill(0);
            payloads[0][..4].copy_from_slice(&HEAD);
        });
        Ok(Self { page })
    }

    /// Whether a batch is small enough to be appended.
    pub(crate) fn takes(len: usize) -> bool {
        len <= shrunk(APPEND_MAX)
    }

    /// Appends a batch; `published` is called as soon as it is there.
    pub(crate) fn append(
        self,
        pages: &PgPages,
        entries: &[Entry],
        published: impl FnOnce(),
    ) -> Result<Appended> {
        let mut batch = pages.batch(&[self.page])?;
        let data = data(batch.page(0), self.page, HEAD, HEAD_DATA_AT)?;
        let count = data.len() / ENTRY_LEN;
        if count + entries.len() <= shrunk(HEAD_ENTRIES) {
            let end = count + entries.len();
            batch.set_used(0, HEAD_DATA_AT + end * ENTRY_LEN);
            batch.commit(|payloads| {
                put_entries(&mut payloads[0][HEAD_DATA_AT + count * ENTRY_LEN..], entries);
                put_word(payloads[0], ENTRIES_AT, end);
            });
            published();
            return Ok(Appended::Done);
        }
        let mut all: Vec<Entry> = entries_of(data).chain(entries.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let rest = all.split_off(all.len().min(FULL_ENTRIES));
        let Some(directory) = self.write_stretch(pages, batch, &all, &rest, true)? else {
            return Ok(Appended::Full);
        };
        published();
        let is_due = directory.sealable().len() >= SEAL_SLOTS;
        Ok(if is_due { Appended::Due } else { Appended::Done })
    }

    /// Makes a stretch of sorted entries, and leaves `rest` in the head page; `None` if there is no room. `batch` has the
    /// head page.
    fn write_stretch(
        self,
        pages: &PgPages,
        mut batch: <PgPages as PageStore>::Batch<'_>,
        all: &[Entry],
        rest: &[Entry],
        stays_open: bool,
    ) -> Result<Option<Directory>> {
        let mut directory = Directory::read(batch.page(0), self.page)?;
        let mut full_at = 0;
        let mut ends = Vec::new();
        if let (true, Some(open)) = (directory.is_open, directory.slots.last()) {
            batch.add(open.page)?;
            full_at += 1;
            ends = ends_of(batch.page(1), open.page)?;
            if ends.len() == STRETCHES || ends.last().unwrap_or(&0) + all.len() > FULL_ENTRIES {
                ends.clear();
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
        batch.set_used(0, HEAD_DATA_AT + rest.len() * ENTRY_LEN);
        batch.commit(|payloads| {
            directory.put(payloads[0]);
            put_entries(&mut payloads[0][HEAD_DATA_AT..], rest);
            put_word(payloads[0], ENTRIES_AT, rest.len());
            if all.is_empty() {
                return;
            }
            let full = &mut *payloads[full_at];
            if begin == 0 {
                full.fill(0);
                full[..4].copy_from_slice(&FULL);
            }
            put_word(full, ENTRIES_AT, begin + all.len());
            put_ends(full, &ends);
            put_entries(&mut full[FULL_DATA_AT + begin * ENTRY_LEN..], all);
        });
        Ok(Some(directory))
    }

    /// Makes a stretch of the entries of the head page, if there are any, and has no page be open; `false` if there is no
    /// room.
    fn spill(self, pages: &PgPages) -> Result<bool> {
        let batch = pages.batch(&[self.page])?;
        let mut all: Vec<Entry> = entries_of(data(batch.page(0), self.page, HEAD, HEAD_DATA_AT)?).collect();
        if all.is_empty() && word(batch.page(0), OPEN_AT) == 0 {
            return Ok(true);
        }
        all.sort_unstable();
        all.dedup();
        Ok(self.write_stretch(pages, batch, &all, &[], false)?.is_some())
    }

    /// What is to be sealed; with `all`, also what the head page and the open page have. The caller has the right to seal
    /// (rule 3).
    pub(crate) fn sealable(self, pages: &PgPages, all: bool) -> Result<Sealable> {
        let is_all = !all || self.spill(pages)?;
        let directory = Directory::read(&pages.read(self.page)?, self.page)?;
        let slots = directory.sealable();
        let mut entries = Vec::with_capacity(slots.len() * FULL_ENTRIES);
        for slot in slots {
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
        let mut directory = Directory::read(batch.page(0), self.page)?;
        directory.slots.retain(|slot| !sealed.contains(&slot.page));
        batch.commit(|payloads| directory.put(payloads[0]));
        pages.retire(sealed);
        Ok(())
    }

    /// Appends to `found` the entries between two, inclusively, in no particular order; returns how many bulk deletions had
    /// ended by then.
    pub(crate) fn between(
        self,
        pages: &PgPages,
        from: Entry,
        to: Entry,
        dead: Dead,
        found: &mut Vec<Entry>,
    ) -> Result<u64> {
        let is_shown = |bytes: &&[u8; ENTRY_LEN]| dead == Dead::Shown || !is_marked(bytes);
        let head = pages.read(self.page)?;
        let (chunks, _) = data(&head, self.page, HEAD, HEAD_DATA_AT)?.as_chunks::<ENTRY_LEN>();
        let of_head = chunks.iter().filter(is_shown).map(|bytes| entry_of(bytes));
        found.extend(of_head.filter(|entry| (from..=to).contains(entry)));
        for slot in Directory::read(&head, self.page)?.slots {
            if slot.keys.0 > to.prefix || slot.keys.1 < from.prefix {
                continue;
            }
            let full = pages.read(slot.page)?;
            for stretch in stretches(&full, slot.page)? {
                let begin = stretch.partition_point(|entry| entry_of(entry) < from);
                let within = stretch[begin..].iter().take_while(|entry| entry_of(*entry) <= to);
                found.extend(within.filter(is_shown).map(|entry| entry_of(entry)));
            }
        }
        Ok(long(&head, DELETIONS_AT))
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
                let ats = marks(batch.page(0), self.page, HEAD, HEAD_DATA_AT)?;
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
        for slot in Directory::read(&head, self.page)?.slots {
            let full = pages.read(slot.page)?;
            for stretch in stretches(&full, slot.page)? {
                let entries: Vec<Entry> = stretch.iter().map(|entry| entry_of(entry)).collect();
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
        let mut entries = data(&head, self.page, HEAD, HEAD_DATA_AT)?.len() / ENTRY_LEN;
        let slots = Directory::read(&head, self.page)?.slots;
        for slot in &slots {
            let full = pages.read(slot.page)?;
            entries += data(&full, slot.page, FULL, FULL_DATA_AT)?.len() / ENTRY_LEN;
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
