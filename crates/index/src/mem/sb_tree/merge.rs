//! A sealed segment's logs, merged a piece at a time.
//!
//! Each log is a run, because its keys ascend; a log in disorder is put in order before, as runs of [`SORTED_AT_ONCE`]
//! entries. So a piece of the merge is bounded, whatever the order of the keys.

use super::super::columns::Words;
use super::log::{Counted, LOG_CAP, Log};
use super::segment::Segment;

/// Entries of a log in disorder that are sorted as one run.
const SORTED_AT_ONCE: usize = if cfg!(any(test, miri, loom)) { 4 } else { 512 };

/// A stretch of a log whose keys ascend, in the order of `sorted`, or as they lie.
#[derive(Debug)]
struct Run<W> {
    writer: usize,
    counted: Counted,
    /// Places of the log in order of their keys, if they do not lie so.
    sorted: Option<Box<[u16]>>,
    next: usize,
    end: usize,
    /// The key of the next entry.
    head: W,
}

/// A log when it was closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closed {
    pub(super) writer: usize,
    pub(super) counted: Counted,
    /// Of what is counted; an append that fails may say so of the log later.
    pub(super) is_disordered: bool,
}

impl Closed {
    /// Closes a writer's log.
    pub(super) fn close<W: Words>(writer: usize, log: &Log<W>) -> Self {
        let counted = log.close();
        Self {
            writer,
            counted,
            is_disordered: log.is_disordered(),
        }
    }

    /// The greatest key but for the last `spared` entries; none if there are no more.
    pub(super) fn greatest<W: Words>(&self, segment: &Segment<W>, spared: usize) -> Option<W> {
        let log = segment.log(self.writer)?;
        log.greatest(self.counted.len().saturating_sub(spared))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Merge<W> {
    runs: Vec<Run<W>>,
    /// Stretches of logs in disorder that are to become runs: the log, and where they begin and end.
    unsorted: Vec<(usize, Counted, usize, usize)>,
    entries: usize,
}

impl<W: Words> Run<W> {
    fn place(&self) -> usize {
        match &self.sorted {
            None => self.next,
            Some(sorted) => usize::from(sorted[self.next]),
        }
    }
}

impl<W: Words> Merge<W> {
    /// A merge of a sealed segment's logs up to `greatest`.
    pub(super) fn new(segment: &Segment<W>, closed: &[Closed], greatest: &W) -> Self {
        let mut merge = Self {
            runs: Vec::new(),
            unsorted: Vec::new(),
            entries: 0,
        };
        for &Closed {
            writer,
            counted,
            is_disordered,
        } in closed
        {
            let Some(log) = segment.log(writer) else {
                continue;
            };
            let end = if is_disordered {
                counted.len()
            } else {
                log.upper_bound(greatest, counted.len())
            };
            merge.entries += end;
            if is_disordered {
                let starts = (0..end).step_by(SORTED_AT_ONCE);
                let stretches = starts.map(|start| (writer, counted, start, end.min(start + SORTED_AT_ONCE)));
                merge.unsorted.extend(stretches);
            } else if end > 0 {
                merge.runs.push(Run {
                    writer,
                    counted,
                    sorted: None,
                    next: 0,
                    end,
                    head: log.key(0),
                });
            }
        }
        merge
    }

    /// Entries that there were at the beginning.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Sorts one stretch of a log in disorder; false if there is none left.
    pub(super) fn sort_some(&mut self, segment: &Segment<W>) -> bool {
        let Some((writer, counted, start, end)) = self.unsorted.pop() else {
            return false;
        };
        if let Some(log) = segment.log(writer) {
            let mut places: Box<[u16]> = (start..end)
                .filter_map(|place| u16::try_from(place).ok())
                .collect();
            places.sort_by_key(|&place| log.key(usize::from(place)));
            self.runs.push(Run {
                writer,
                counted,
                head: log.key(usize::from(places[0])),
                sorted: Some(places),
                next: 0,
                end: end - start,
            });
        }
        true
    }

    /// Appends up to `limit` entries to `entries`, which is empty, ascending, once each key. None are left if it appends
    /// fewer.
    pub(super) fn take(&mut self, segment: &Segment<W>, limit: usize, entries: &mut Vec<(W, u64)>) {
        let share = limit / self.runs.len().max(1);
        for run in &self.runs {
            if let Some(log) = segment.log(run.writer).filter(|_| run.sorted.is_none()) {
                log.prefetch(run.next..run.end.min(run.next + share));
            }
        }
        while entries.len() < limit {
            let before = entries.len();
            match self.runs.as_mut_slice() {
                [run] => run.take(segment, limit, entries),
                [first, second] => take_of_two([first, second], segment, limit, entries),
                _ => {}
            }
            if entries.len() == before {
                self.take_one(segment, entries);
            }
            self.runs.retain(|run| run.next < run.end);
            if entries.len() == before {
                return;
            }
        }
    }

    /// Appends the least entry.
    fn take_one(&mut self, segment: &Segment<W>, entries: &mut Vec<(W, u64)>) {
        let Some(least) = self.runs.iter().map(|run| run.head).min() else {
            return;
        };
        let mut newest = None;
        for run in &mut self.runs {
            let Some(log) = segment.log(run.writer) else {
                return;
            };
            while run.next < run.end && run.head == least {
                let place = run.place();
                let order = log.order(place, run.counted, run.writer);
                if newest.is_none_or(|(known, _)| known < order) {
                    newest = Some((order, log.value(place)));
                }
                run.advance(log);
            }
        }
        entries.extend(newest.map(|(_, value)| (least, value)));
    }
}

/// Appends entries of two runs, as long as both have some and their keys differ. Which run an entry comes from is as
/// good as random: there is no branch on it.
fn take_of_two<W: Words>(
    runs: [&mut Run<W>; 2],
    segment: &Segment<W>,
    limit: usize,
    entries: &mut Vec<(W, u64)>,
) {
    let logs = [segment.log(runs[0].writer), segment.log(runs[1].writer)];
    let [Some(first), Some(second)] = logs else { return };
    let logs = [first, second];
    let is_ordered = runs.iter().all(|run| run.sorted.is_none());
    while is_ordered
        && entries.len() < limit
        && runs[0].next < runs[0].end
        && runs[1].next < runs[1].end
        && runs[0].head != runs[1].head
    {
        let least = usize::from(runs[1].head < runs[0].head);
        let (run, log) = (&mut *runs[least], logs[least]);
        let (key, value) = (run.head, log.value(run.next));
        run.next += 1;
        run.head = log.key(run.next.min(run.end - 1));
        if run.head != key || run.next == run.end {
            entries.push((key, value));
        }
    }
}

impl<W: Words> Run<W> {
    /// Appends entries of the only run.
    fn take(&mut self, segment: &Segment<W>, limit: usize, entries: &mut Vec<(W, u64)>) {
        let Some(log) = segment.log(self.writer).filter(|_| self.sorted.is_none()) else {
            return;
        };
        while entries.len() < limit && self.next < self.end {
            let (key, value) = (self.head, log.value(self.next));
            self.advance(log);
            if self.next == self.end || self.head != key {
                entries.push((key, value));
            }
        }
    }
}

impl<W: Words> Run<W> {
    fn advance(&mut self, log: &Log<W>) {
        self.next += 1;
        if self.next < self.end {
            self.head = log.key(self.place());
        }
    }
}

const _: () = assert!(LOG_CAP <= u16::MAX as usize);
