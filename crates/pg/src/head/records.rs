//! Entries as they lie in the pages of a head, one record after another. The highest bit of a tie
//! marks an entry (rule 7 of the head).

use std::ops::Range;

use bedload_pages::{Error, PageId, Result};

use super::layout::{ENTRIES_AT, PAYLOAD_LEN, word};
use crate::key::{Entry, EntryRef, Form, INTEGER_LEN, RECORD_HEADER_LEN};

/// Set in the tie of a marked entry.
const DEAD: u64 = 1 << 63;

/// The entries of a page, which are taken out of it one by one.
pub(super) struct Records<'p> {
    form: Form,
    payload: &'p [u8],
    count: usize,
    /// Where each record begins in the page, unless all are as long as those of integers.
    starts: Vec<usize>,
    data_at: usize,
    end: usize,
}

/// Bytes that entries take.
pub(super) fn len_of(form: Form, entries: &[Entry]) -> usize {
    entries.iter().map(|entry| form.record_len(entry)).sum()
}

/// How many of the first entries take at most so many bytes.
pub(super) fn fitting(form: Form, entries: &[Entry], room: usize) -> usize {
    let ends = entries.iter().scan(0, |end, entry| {
        *end += form.record_len(entry);
        Some(*end)
    });
    ends.take_while(|&end| end <= room).count()
}

/// Writes entries.
pub(super) fn put(form: Form, mut data: &mut [u8], entries: &[Entry]) {
    for entry in entries {
        let (record, rest) = data.split_at_mut(form.record_len(entry));
        form.put_record(entry, record);
        data = rest;
    }
}

impl<'p> Records<'p> {
    /// The entries of a page with the given tag, which begin at `data_at`; an error if there cannot
    /// be as many.
    pub(super) fn read(
        form: Form,
        payload: &'p [u8],
        page: PageId,
        tag: [u8; 4],
        data_at: usize,
    ) -> Result<Self> {
        let damaged = || Error::Corrupt {
            page,
            reason: "it is not a page of an index's head",
        };
        let count = usize::try_from(word(payload, ENTRIES_AT)).unwrap_or(usize::MAX);
        if payload[..4] != tag || count > (PAYLOAD_LEN - data_at) / RECORD_HEADER_LEN {
            return Err(damaged());
        }
        let mut records = Self {
            form,
            payload,
            count,
            starts: Vec::new(),
            data_at,
            end: data_at,
        };
        if let Form::Integers(_) = form {
            records.end += count * INTEGER_LEN;
        } else {
            records.starts.reserve_exact(count);
            for _ in 0..count {
                let rest = payload.get(records.end..).ok_or_else(damaged)?;
                records.starts.push(records.end);
                records.end += form.first_record_len(rest).ok_or_else(damaged)?;
            }
        }
        if records.end > payload.len() {
            return Err(damaged());
        }
        Ok(records)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Where a record begins in the page.
    #[inline]
    fn start(&self, index: usize) -> usize {
        let of_integer = self.data_at + index * INTEGER_LEN;
        self.starts.get(index).copied().unwrap_or(of_integer)
    }

    /// An entry with its mark.
    #[inline]
    fn marked(&self, index: usize) -> EntryRef<'p> {
        let next = if index + 1 == self.count {
            self.end
        } else {
            self.start(index + 1)
        };
        // Its length was looked at when the page was.
        let entry = self.form.entry_of_record(&self.payload[self.start(index)..next]);
        entry.unwrap_or(EntryRef {
            prefix: 0,
            tie: 0,
            key: &[],
            payload: &[],
        })
    }

    /// Where the entries end.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Bytes of the entries.
    pub(super) fn len_bytes(&self) -> usize {
        self.end - self.data_at
    }

    /// The byte of an entry that has its mark.
    pub(super) fn mark_at(&self, index: usize) -> usize {
        self.start(index) + self.form.tie_at() + 7
    }

    pub(super) fn is_marked(&self, index: usize) -> bool {
        self.payload[self.mark_at(index)] & DEAD.to_be_bytes()[0] != 0
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> EntryRef<'p> {
        let entry = self.marked(index);
        EntryRef {
            tie: entry.tie & !DEAD,
            ..entry
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        (0..self.count()).map(|index| self.form.owned(self.get(index)))
    }

    /// How many of the first entries, and of those in a range, which ascend, lie before another.
    pub(super) fn rank(&self, within: &Range<usize>, entry: EntryRef<'_>) -> usize {
        let (mut low, mut high) = (within.start, within.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.form.compare(self.get(middle), entry).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Marks the entry whose mark is at a byte.
pub(super) fn mark(payload: &mut [u8], at: usize) {
    payload[at] |= DEAD.to_be_bytes()[0];
}
