//! Merges a sealed segment's logs, a piece at a time.
//!
//! Each log is a run, as its keys ascend; a disordered log is sorted first, [`SORTED_AT_ONCE`]
//! entries at a time ([`sorting`](super::sorting)). So the work per piece is bounded, in any order
//! of the keys.

use std::hint::select_unpredictable;

use super::log::{Counted, Log};
use super::segment::Segment;
use super::sorting::Sorting;
use crate::search::columns::Words;
use crate::sync::asymmetric_fence;

/// Entries of a disordered log that are sorted at once.
const SORTED_AT_ONCE: usize = if cfg!(any(test, miri, loom)) { 4 } else { 512 };

/// A log whose keys ascend, either in the order of `sorted` or as stored.
#[derive(Debug)]
struct LogRun<W> {
    writer: usize,
    counted: Counted,
    /// The sorted keys and positions, as far as sorting has come; `None` if the log is in order as
    /// stored.
    sorted: Option<Sorting<W>>,
    next: usize,
    end: usize,
    /// The key of the next entry.
    head: W,
}

/// State of a log when it was closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) writer: usize,
    pub(crate) counted: Counted,
    /// Covers the counted entries only; an append that fails may mark the log as disordered later.
    pub(crate) is_disordered: bool,
}

impl Closed {
    /// Closes a segment's logs; the calling thread is the appender of the log `own`.
    pub(crate) fn close_all<W: Words>(segment: &Segment<W>, own: Option<usize>) -> Vec<Self> {
        let mut others = Vec::new();
        for (writer, log) in segment.logs() {
            if log.begin_close() && Some(writer) != own {
                others.push(log);
            }
        }
        if others.iter().any(|log| !log.is_left()) {
            asymmetric_fence::heavy();
        }
        let closed = segment.logs().map(|(writer, log)| {
            let counted = log.end_close();
            Self {
                writer,
                counted,
                is_disordered: log.is_disordered(counted),
            }
        });
        closed.collect()
    }

    /// Returns the greatest key except the last `spared` entries'; `None` if there are no more.
    pub(crate) fn greatest<W: Words>(&self, segment: &Segment<W>, spared: usize) -> Option<W> {
        let log = segment.log(self.writer)?;
        log.greatest(self.counted.len().saturating_sub(spared), self.is_disordered)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Merge<W> {
    runs: Vec<LogRun<W>>,
    /// Runs below this index are in order.
    in_order: usize,
    /// Entries with greater keys are excluded.
    greatest: W,
}

impl<W: Words> LogRun<W> {
    fn place(&self) -> usize {
        self.place_at(self.next)
    }

    /// Returns the position in the log of a position in the run.
    #[inline]
    fn place_at(&self, place: usize) -> usize {
        match &self.sorted {
            None => place,
            Some(sorted) => sorted.entry(place).1,
        }
    }

    /// Returns the key of the entry at this position of the run.
    fn key(&self, place: usize, log: &Log<W>) -> W {
        match &self.sorted {
            None => log.key(place),
            Some(sorted) => sorted.entry(place).0,
        }
    }
}

impl<W: Words> Merge<W> {
    /// Creates a merge of a sealed segment's logs up to `greatest`.
    pub(crate) fn new(segment: &Segment<W>, closed: &[Closed], greatest: &W) -> Self {
        let mut merge = Self {
            runs: Vec::new(),
            in_order: 0,
            greatest: *greatest,
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
            if end > 0 {
                merge.runs.push(LogRun {
                    writer,
                    counted,
                    sorted: is_disordered.then(|| Sorting::new(end)),
                    next: 0,
                    end,
                    head: log.key(0),
                });
            }
        }
        merge
    }

    /// Creates a merge of the entries from `start` to `end` of a segment's logs; the segment may be
    /// open.
    pub(crate) fn of_range(segment: &Segment<W>, (start, end): (W, W)) -> Self {
        let run_of = |(writer, log): (usize, &Log<W>)| {
            let counted = log.counted();
            let len = counted.len();
            let (sorted, next, end) = if log.is_disordered(counted) {
                let keys = (0..len).map(|place| (log.key(place), place));
                let within: Vec<_> = keys.filter(|(key, _)| start <= *key && *key <= end).collect();
                let mut sorted = Sorting::new(within.len());
                sorted.add(within.into_iter());
                sorted.finish();
                let end = sorted.len();
                (Some(sorted), 0, end)
            } else {
                let end = if end == W::MAX {
                    len
                } else {
                    log.upper_bound(&end, len)
                };
                (None, log.lower_bound(&start, len), end)
            };
            let mut run = LogRun {
                writer,
                counted,
                sorted,
                next,
                end,
                head: start,
            };
            (next < end).then(|| {
                run.head = run.key(next, log);
                run
            })
        };
        let runs: Vec<_> = segment.logs().filter_map(run_of).collect();
        Self {
            in_order: runs.len(),
            greatest: end,
            runs,
        }
    }

    /// Returns the number of entries left, equal keys counted each time; before all logs are sorted
    /// it may include excluded ones.
    pub(crate) fn entries(&self) -> usize {
        self.runs.iter().map(|run| run.end - run.next).sum()
    }

    /// Sorts a stretch of a log; `false` if all logs are sorted.
    pub(crate) fn sort_some(&mut self, segment: &Segment<W>) -> bool {
        while let Some(run) = self.runs.get_mut(self.in_order) {
            if let (Some(sorted), Some(log)) = (&mut run.sorted, segment.log(run.writer))
                && sorted.len() < run.end
            {
                let stretch = sorted.len()..run.end.min(sorted.len() + SORTED_AT_ONCE);
                sorted.add(stretch.map(|place| (log.key(place), place)));
                if sorted.len() == run.end {
                    sorted.finish();
                    run.head = sorted.entry(0).0;
                    run.end = sorted.up_to(&self.greatest);
                    self.in_order += 1;
                }
                return true;
            }
            self.in_order += 1;
        }
        false
    }

    /// Fills `entries` from the front, ascending, without duplicates; returns how many. If they are
    /// fewer than fit, none are left.
    pub(crate) fn take(&mut self, segment: &Segment<W>, entries: &mut [(W, u64)]) -> usize {
        self.runs.retain(|run| run.next < run.end);
        self.prefetch(segment, entries.len());
        let mut taken = 0;
        while let room @ [_, ..] = &mut entries[taken..] {
            let mut more = match self.runs.as_mut_slice() {
                [run] => run.take(segment, room),
                [first, second] if first.sorted.is_none() && second.sorted.is_none() => {
                    take_of_two::<_, true>([first, second], segment, room)
                }
                [first, second] => take_of_two::<_, false>([first, second], segment, room),
                _ => 0,
            };
            if more == 0 {
                let Some(least) = self.take_least(segment) else {
                    break;
                };
                room[0] = least;
                more = 1;
            }
            self.runs.retain(|run| run.next < run.end);
            taken += more;
        }
        taken
    }

    /// Prefetches about as many entries as are taken next.
    pub(crate) fn prefetch(&self, segment: &Segment<W>, limit: usize) {
        let share = limit / self.runs.len().max(1);
        for run in &self.runs {
            if let Some(log) = segment.log(run.writer).filter(|_| run.sorted.is_none()) {
                log.prefetch(run.next..run.end.min(run.next + share));
            }
        }
    }

    /// Takes the least entry.
    fn take_least(&mut self, segment: &Segment<W>) -> Option<(W, u64)> {
        let least = self.runs.iter().map(|run| run.head).min()?;
        let mut newest = None;
        for run in &mut self.runs {
            let log = segment.log(run.writer)?;
            let mut last = None;
            while run.next < run.end && run.head == least {
                last = Some(run.place());
                run.advance(log);
            }
            let Some(place) = last else {
                continue;
            };
            let order = log.order(place, run.counted, run.writer);
            if newest.is_none_or(|(known, _)| known < order) {
                newest = Some((order, log.value(place)));
            }
        }
        newest.map(|(_, value)| (least, value))
    }
}

/// Takes entries of two runs, while both have some and their keys differ; `IN_PLACE` if neither
/// needed sorting. Which run an entry comes from is unpredictable, so no branch depends on it.
fn take_of_two<W: Words, const IN_PLACE: bool>(
    runs: [&mut LogRun<W>; 2],
    segment: &Segment<W>,
    entries: &mut [(W, u64)],
) -> usize {
    let logs = [segment.log(runs[0].writer), segment.log(runs[1].writer)];
    let [Some(first), Some(second)] = logs else {
        return 0;
    };
    let [left, right] = runs;
    let key_of = |run: &LogRun<W>, place: usize, log: &Log<W>| {
        let place = place.min(run.end - 1);
        if IN_PLACE {
            log.key(place)
        } else {
            run.key(place, log)
        }
    };
    let mut taken = 0;
    let (mut i, mut j) = (left.next, right.next);
    let (mut a, mut b) = (left.head, right.head);
    while taken < entries.len() && i < left.end && j < right.end && a != b {
        // Neither run can end in fewer steps.
        let steps = (entries.len() - taken).min(left.end - i).min(right.end - j);
        for _ in 0..steps {
            if a == b {
                break;
            }
            let is_left = a < b;
            let key = select_unpredictable(is_left, a, b);
            let log = select_unpredictable(is_left, first, second);
            let mut place = select_unpredictable(is_left, i, j);
            if !IN_PLACE {
                place = select_unpredictable(is_left, &*left, &*right).place_at(place);
            }
            entries[taken] = (key, log.value(place));
            (i, j) = (i + usize::from(is_left), j + usize::from(!is_left));
            (a, b) = (key_of(left, i, first), key_of(right, j, second));
            let next = select_unpredictable(is_left, a, b);
            let is_left_over = select_unpredictable(is_left, i < left.end, j < right.end);
            // The last entry of a key wins.
            taken += usize::from(next != key || !is_left_over);
        }
    }
    (left.next, left.head, right.next, right.head) = (i, a, j, b);
    taken
}

impl<W: Words> LogRun<W> {
    /// Takes entries of the only run.
    fn take(&mut self, segment: &Segment<W>, entries: &mut [(W, u64)]) -> usize {
        let Some(log) = segment.log(self.writer) else {
            return 0;
        };
        let mut taken = 0;
        while taken < entries.len() && self.next < self.end {
            let (key, value) = (self.head, log.value(self.place()));
            self.advance(log);
            if self.next == self.end || self.head != key {
                entries[taken] = (key, value);
                taken += 1;
            }
        }
        taken
    }

    fn advance(&mut self, log: &Log<W>) {
        self.next += 1;
        if self.next < self.end {
            self.head = self.key(self.next, log);
        }
    }
}
