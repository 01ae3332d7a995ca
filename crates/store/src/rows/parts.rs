//! The rows of a head as runs, which are merged alongside commits and readers.
//!
//! Rules:
//! 1. Parts stand in the order of their rows' arrival. Commits add at the end: a run, or rows of a
//!    short commit to the few that stand there.
//! 2. The holder of `sorting` makes a run of a copy of few rows, without the lock of the parts.
//!    Then the run replaces them, or goes before those that joined them meanwhile.
//! 3. The holder of `merging` merges runs that follow one another, without the lock of the parts,
//!    and puts the result in their place. No other thread takes runs out.
//! 4. By rules 2 and 3 parts move while others are worked on. So a thread that replaces a part
//!    looks it up again: few rows by the number of their first, runs by their identity.
//! 5. A reader that finds few rows makes runs of them first: what was committed before it came is
//!    in runs.

use std::fmt::Debug;
use std::sync::Arc;

use crate::sync::{Mutex, RwLock, RwLockReadGuard};

/// How many runs of one size, neighbours in the order of arrival, are merged.
pub(super) const FAN_IN: usize = if cfg!(loom) { 2 } else { 16 };

/// Each size of runs has 2 to this power times the rows of the size below it.
const SIZE_BITS: u32 = FAN_IN.ilog2();

/// Sizes of runs that are merged: those of up to 4,095 rows.
const SMALL_SIZES: u32 = 3;

/// How many short commits become a run.
pub(super) const COMMITS_SORTED: usize = if cfg!(loom) { 2 } else { 64 };

/// Rows of short commits that followed one another, in the order of their sequence numbers.
pub(super) trait Few: Clone + Debug {
    /// Rows of one or more commits, sorted.
    type Run: Run;

    /// How many commits there are.
    fn commits(&self) -> usize;

    /// The sequence number of the first row.
    fn first(&self) -> Option<u64>;

    /// Takes out the first commits.
    fn remove_first(&mut self, commits: usize);

    /// The rows as a run.
    fn to_run(&self) -> Self::Run;
}

/// Sorted rows.
pub(super) trait Run: Debug + Sized {
    /// How many rows there are.
    fn len(&self) -> usize;

    /// The rows of runs as one run; none if they do not fit one.
    fn merge(runs: &[Arc<Self>]) -> Option<Self>;
}

/// Rows that arrived one after another.
#[derive(Debug)]
enum Part<F: Few> {
    Run(Arc<F::Run>),
    /// Only the last part of a head gets more rows.
    Few(F),
}

impl<F: Few> Part<F> {
    fn run(&self) -> Option<&Arc<F::Run>> {
        match self {
            Self::Run(run) => Some(run),
            Self::Few(_) => None,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Parts<F: Few> {
    parts: RwLock<Vec<Part<F>>>,
    /// Held by the thread that merges runs.
    merging: Mutex<()>,
    /// Held by the thread that makes runs of few rows, for some microseconds.
    sorting: Mutex<()>,
}

impl<F: Few> Default for Parts<F> {
    fn default() -> Self {
        Self::of_runs([])
    }
}

/// The runs; nothing is added or replaced meanwhile.
#[derive(Debug)]
pub(super) struct Runs<'p, F: Few>(RwLockReadGuard<'p, Vec<Part<F>>>);

impl<F: Few> Runs<'_, F> {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<F::Run>> {
        self.0.iter().filter_map(Part::run)
    }
}

impl<F: Few> Parts<F> {
    pub(super) fn of_runs(runs: impl IntoIterator<Item = Arc<F::Run>>) -> Self {
        Self {
            parts: RwLock::new(runs.into_iter().map(Part::Run).collect()),
            merging: Mutex::default(),
            sorting: Mutex::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.read().is_empty()
    }

    pub(super) fn push_run(&self, run: F::Run) {
        self.parts.write().push(Part::Run(Arc::new(run)));
    }

    /// Adds a short commit to the few rows at the end, or to `new` ones; tells whether it may be
    /// time to [merge](Self::merge_small): there are many such commits, or a reader made a run of
    /// those before.
    pub(super) fn push_few(&self, new: impl FnOnce() -> F, push: impl FnOnce(&mut F)) -> bool {
        let mut parts = self.parts.write();
        if let Some(Part::Few(few)) = parts.last_mut() {
            push(few);
            return few.commits() >= COMMITS_SORTED;
        }
        let mut few = new();
        push(&mut few);
        parts.push(Part::Few(few));
        true
    }

    /// Makes runs of short commits once there are enough of them, and merges runs until fewer than
    /// sixteen of one size follow one another; does nothing while another thread does so.
    pub(super) fn merge_small(&self) {
        let Some(_merging) = self.merging.try_lock() else {
            return;
        };
        if self.has_few_to_sort() {
            self.sort_few();
        }
        while let Some(runs) = self.small_runs() {
            // Text of so few rows fits an array; if it ever does not, readers meet more runs.
            let Some(merged) = Run::merge(&runs) else {
                return;
            };
            self.replace(&runs, merged);
        }
    }

    /// Replaces runs with the one merged from them (rule 4); they still follow one another (rule
    /// 3).
    fn replace(&self, runs: &[Arc<F::Run>], merged: F::Run) {
        let mut parts = self.parts.write();
        let is_first = |part: &Part<F>| part.run().is_some_and(|run| Arc::ptr_eq(run, &runs[0]));
        let at = parts.iter().position(is_first);
        let at = at.expect("only the thread that merges takes runs out");
        parts.splice(at..at + runs.len(), [Part::Run(Arc::new(merged))]);
    }

    /// Whether there are few rows that no others will join.
    fn has_few_to_sort(&self) -> bool {
        let parts = self.parts.read();
        let last = parts.len().saturating_sub(1);
        let is_to_sort = |(number, part): (usize, &Part<F>)| match part {
            Part::Run(_) => false,
            Part::Few(few) => number < last || few.commits() >= COMMITS_SORTED,
        };
        parts.iter().enumerate().any(is_to_sort)
    }

    /// Makes a run of all few rows that follow one another and are there now.
    fn sort_few(&self) {
        let _sorting = self.sorting.lock();
        for few in self.few() {
            self.put_sorted(&few, few.to_run());
        }
    }

    /// Copies of all few rows.
    fn few(&self) -> Vec<F> {
        let few = |part: &Part<F>| match part {
            Part::Run(_) => None,
            Part::Few(few) => Some(few.clone()),
        };
        self.parts.read().iter().filter_map(few).collect()
    }

    /// Replaces few rows with the run made of them (rule 4); commits may have joined them
    /// meanwhile.
    fn put_sorted(&self, few: &F, run: F::Run) {
        let mut parts = self.parts.write();
        let mut found = parts.iter_mut().enumerate();
        let found = found.find_map(|(number, part)| match part {
            Part::Few(left) if left.first() == few.first() => Some((number, left)),
            _ => None,
        });
        let Some((at, left)) = found else {
            return;
        };
        left.remove_first(few.commits());
        let run = Part::Run(Arc::new(run));
        if left.commits() == 0 {
            parts[at] = run;
        } else {
            parts.insert(at, run);
        }
    }

    /// All runs, after what was committed before this call became runs (rule 5).
    pub(super) fn sorted(&self) -> Runs<'_, F> {
        let parts = self.parts.read();
        if parts.iter().all(|part| part.run().is_some()) {
            return Runs(parts);
        }
        drop(parts);
        self.sort_few();
        Runs(self.parts.read())
    }

    /// Runs that are worth merging, which follow one another.
    fn small_runs(&self) -> Option<Vec<Arc<F::Run>>> {
        let parts = self.parts.read();
        let size = |run: &F::Run| run.len().checked_ilog2().unwrap_or(0) / SIZE_BITS;
        let waiting = usize::from(matches!(parts.last(), Some(Part::Few(_))));
        let end = parts.len() - waiting;
        (0..SMALL_SIZES).find_map(|most| {
            let runs = parts[..end].iter().rev().map_while(Part::run);
            let trailing = runs.take_while(|run| size(run) <= most).count();
            let runs = || parts[end - trailing..end].iter().filter_map(Part::run);
            (trailing >= FAN_IN).then(|| runs().cloned().collect())
        })
    }

    /// How many parts are runs.
    #[cfg(test)]
    pub(super) fn count_runs(&self) -> usize {
        self.parts.read().iter().filter_map(Part::run).count()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Numbers of commits of one row each.
    type Numbers = Range<u64>;

    impl Few for Numbers {
        type Run = Self;

        fn commits(&self) -> usize {
            Run::len(self)
        }

        fn first(&self) -> Option<u64> {
            (!self.is_empty()).then_some(self.start)
        }

        fn remove_first(&mut self, commits: usize) {
            self.start += commits as u64;
        }

        fn to_run(&self) -> Self {
            self.clone()
        }
    }

    impl Run for Numbers {
        fn len(&self) -> usize {
            usize::try_from(self.end - self.start).expect("few")
        }

        fn merge(runs: &[Arc<Self>]) -> Option<Self> {
            let follow = |pair: &[Arc<Self>]| pair[0].end == pair[1].start;
            assert!(runs.windows(2).all(follow), "{runs:?} do not follow one another");
            Some(runs[0].start..runs[runs.len() - 1].end)
        }
    }

    /// Rows of commits, and how many of them readers are to see.
    #[derive(Default)]
    struct Head {
        parts: Parts<Numbers>,
        next: Mutex<u64>,
    }

    impl Head {
        fn commit(&self, push: impl FnOnce(&Parts<Numbers>, u64)) {
            let mut next = self.next.lock();
            push(&self.parts, *next);
            *next += 1;
        }

        fn commit_few(&self) {
            self.commit(|parts, number| {
                parts.push_few(|| number..number, |few| few.end += 1);
            });
        }

        fn commit_run(&self) {
            self.commit(|parts, number| parts.push_run(number..number + 1));
        }

        /// A reader finds each row that was committed before it came, once and in order.
        fn check(&self) {
            let committed = *self.next.lock();
            let runs = self.parts.sorted();
            let found = runs.iter().flat_map(|run| run.as_ref().clone());
            // Few rows that came later may not be in runs yet, though runs after them are.
            let found = found.filter(|&number| number < committed);
            assert!(found.eq(0..committed), "{runs:?}, of {committed}");
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn runs_that_move_while_they_are_merged_are_replaced_where_they_are() {
        let head = Head::default();
        head.commit_few();
        let few = head.parts.few();
        head.commit_few();
        (0..FAN_IN).for_each(|_| head.commit_run());
        let runs = head.parts.small_runs().expect("there are enough");
        head.parts.put_sorted(&few[0], few[0].to_run());
        head.parts
            .replace(&runs, Run::merge(&runs).expect("numbers fit a run"));
        head.check();
    }

    /// Run with `make loom`.
    #[cfg(loom)]
    mod loom_models {
        use loom::thread;

        use super::*;
        use crate::sync::explore;

        /// Few rows become a run by a reader and by a thread that merges, while others come.
        #[test]
        fn loom_readers_find_all_rows_while_few_become_runs() {
            explore(3, || {
                let head = loom::sync::Arc::new(Head::default());
                let [reader, merging] = [Head::check, |head: &Head| head.parts.merge_small()].map(|act| {
                    let head = head.clone();
                    thread::spawn(move || act(&head))
                });
                (0..3).for_each(|_| head.commit_few());
                reader.join().expect("it finds all");
                merging.join().expect("it merges");
                head.check();
            });
        }

        /// A reader makes a run of few rows that are no longer the last, which moves the runs after
        /// them, while another thread merges these: three preemptions lead there.
        #[test]
        fn loom_runs_that_move_are_replaced_where_they_are() {
            explore(3, || {
                let head = loom::sync::Arc::new(Head::default());
                head.commit_few();
                let commit = |head: &Head| {
                    head.commit_few();
                    head.commit_run();
                    head.commit_run();
                };
                let [reader, writer] = [Head::check, commit].map(|act| {
                    let head = head.clone();
                    thread::spawn(move || act(&head))
                });
                head.parts.merge_small();
                reader.join().expect("it finds all");
                writer.join().expect("it commits");
                head.check();
            });
        }
    }
}
