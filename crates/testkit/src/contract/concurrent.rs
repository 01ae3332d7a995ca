//! The concurrent suite.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::operation::Operations;
use super::oracle::{Answer, Oracle};
use super::sequential::{bounds, ranked_range};
use super::{ConcurrentIndex, Direction, Failure, Keys, Operation, Plan, Profile, Removed};
use crate::Rng;
use crate::linearizability::{self, Action, Clock, Recorder};
use crate::workload::scattered;

type Outcome = Result<(), String>;

/// Runs `work` with each thread number concurrently; returns the first failure, if any.
fn on_threads(threads: usize, work: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(thread)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .fold(Ok(()), Result::and)
    })
}

fn report(plan: Plan, outcome: Outcome) {
    if let Err(what) = outcome {
        let failure = Failure {
            seed: plan.seed,
            operations: plan.operations,
            what: format!("{what}\n(threads: another run of the same seed may pass)"),
        };
        failure.report();
    }
}

/// Returns a value that identifies its key, so that a mix of two entries is detected; `version`
/// fits in 16 bits.
fn value_of(rank: u64, version: u64) -> u64 {
    (scattered(rank) & !0xffff) | (version & 0xffff)
}

fn belongs_to(rank: u64, value: u64) -> bool {
    value >> 16 == scattered(rank) >> 16
}

/// Threads write interleaved but disjoint keys. Each compares every answer with an oracle of its
/// own keys, and checks its own keys in ranges over all keys. At the end the index holds the union
/// of the oracles.
///
/// # Panics
///
/// If the contract is broken.
pub fn check_disjoint_writers<I: ConcurrentIndex>(make: impl Fn() -> I, threads: usize, plan: Plan) {
    let plan = plan.or_environment();
    for profile in Profile::ALL {
        let index = make();
        let oracles: Vec<_> = (0..threads)
            .map(|_| std::sync::Mutex::new(Oracle::default()))
            .collect();
        let count = plan.operations / Profile::ALL.len() / threads;
        let outcome = on_threads(threads, |thread| {
            let mut oracle = Oracle::default();
            disjoint_writer(
                &index,
                &mut oracle,
                Share { thread, threads },
                profile,
                count,
                plan.seed,
            )
            .map_err(|what| format!("{profile:?}, thread {thread} of {threads}: {what}"))?;
            *oracles[thread].lock().map_err(|_| "poisoned")? = oracle;
            Ok(())
        })
        .and_then(|()| index.check_structure())
        .and_then(|()| {
            let oracles = oracles
                .into_iter()
                .map(|oracle| oracle.into_inner().unwrap_or_default());
            same_entries(&index, oracles.enumerate(), threads)
        });
        report(plan, outcome);
    }
}

/// The ranks of one of several writers: every `threads`-th.
#[derive(Debug, Clone, Copy)]
struct Share {
    thread: usize,
    threads: usize,
}

impl Share {
    fn ranks_max(self, rank_max: u64) -> u64 {
        rank_max / self.threads as u64 - 1
    }

    fn global(self, rank: u64) -> u64 {
        rank * self.threads as u64 + self.thread as u64
    }

    fn own(self, global: u64) -> Option<u64> {
        (global % self.threads as u64 == self.thread as u64).then_some(global / self.threads as u64)
    }
}

fn disjoint_writer<I: ConcurrentIndex>(
    index: &I,
    oracle: &mut Oracle,
    share: Share,
    profile: Profile,
    count: usize,
    seed: u64,
) -> Outcome {
    let keys = index.keys();
    let stream = Rng::stream(seed, share.thread as u64).next_u64();
    let mut operations = Operations::new(profile, share.ranks_max(keys.rank_max()), stream);
    for number in 0..count {
        let operation = operations.next_operation();
        let (answer, expected) = match operation {
            Operation::Insert {
                rank,
                spelling,
                value,
            } => {
                index.insert(&keys.key(share.global(rank), spelling), value);
                (Answer::Done, oracle.apply(&operation))
            }
            Operation::Get { rank, spelling } => {
                let value = index.get(&keys.key(share.global(rank), spelling));
                (Answer::Value(value), oracle.apply(&operation))
            }
            Operation::Remove { rank, spelling } => {
                let removed = index.remove(&keys.key(share.global(rank), spelling));
                (Answer::Removed(removed), oracle.apply(&operation))
            }
            Operation::Range {
                lower,
                upper,
                direction,
                limit,
            } => own_range(index, oracle, share, (lower, upper), direction, limit)?,
            Operation::First | Operation::Last => continue,
        };
        if !answer.agrees_with(&expected) {
            return Err(format!(
                "operation {number}, {operation:?}: answered {answer:?}, expected {expected:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the writer's own entries in a range over all keys, and its oracle's entries in the part
/// of the range that was read before the limit.
fn own_range<I: ConcurrentIndex>(
    index: &I,
    oracle: &mut Oracle,
    share: Share,
    (lower, upper): (Bound<u64>, Bound<u64>),
    direction: Direction,
    limit: usize,
) -> Result<(Answer, Answer), String> {
    let keys = index.keys();
    let everyones = index.range(
        bounds(
            keys,
            lower.map(|rank| share.global(rank)),
            upper.map(|rank| share.global(rank)),
        ),
        direction,
        limit,
    );
    let everyones = ranked_range(keys, &everyones, direction)?;
    if everyones.len() > limit {
        return Err(format!(
            "a range limited to {limit} entries yields {}",
            everyones.len()
        ));
    }
    let covered = match everyones.last() {
        Some(&(last, _)) if everyones.len() == limit => Some(last),
        _ if limit == 0 => return Ok((Answer::Done, Answer::Done)),
        _ => None,
    };
    let own = everyones
        .iter()
        .filter_map(|&(rank, value)| Some((share.own(rank)?, value)))
        .collect();
    let expected = oracle.apply(&Operation::Range {
        lower,
        upper,
        direction,
        limit: usize::MAX,
    });
    let Answer::Entries(mut expected) = expected else {
        return Err("the oracle's range is no range".into());
    };
    expected.retain(|&(rank, _)| match (covered, direction) {
        (None, _) => true,
        (Some(last), Direction::Forward) => share.global(rank) <= last,
        (Some(last), Direction::Backward) => share.global(rank) >= last,
    });
    Ok((Answer::Entries(own), Answer::Entries(expected)))
}

fn same_entries<I: ConcurrentIndex>(
    index: &I,
    oracles: impl Iterator<Item = (usize, Oracle)>,
    threads: usize,
) -> Outcome {
    let everything = Operation::Range {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    let mut expected = BTreeMap::new();
    for (thread, mut oracle) in oracles {
        if let Answer::Entries(entries) = oracle.apply(&everything) {
            let share = Share { thread, threads };
            expected.extend(
                entries
                    .into_iter()
                    .map(|(rank, value)| (share.global(rank), value)),
            );
        }
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let entries = index.range((Bound::Unbounded, Bound::Unbounded), direction, usize::MAX);
        let mut entries = ranked_range(index.keys(), &entries, direction)?;
        if direction == Direction::Backward {
            entries.reverse();
        }
        if !entries
            .iter()
            .copied()
            .eq(expected.iter().map(|(&rank, &value)| (rank, value)))
        {
            return Err(format!(
                "{direction:?}: the writers left {} entries, the index holds {}, and they differ",
                expected.len(),
                entries.len()
            ));
        }
    }
    Ok(())
}

/// Threads draw ascending keys from one counter and insert them, as time series do: all write at
/// the right edge. Each looks its own keys up at once. At the end every key is there, in order.
///
/// # Panics
///
/// If the contract is broken.
pub fn check_ascending_writers<I: ConcurrentIndex>(make: impl Fn() -> I, threads: usize, plan: Plan) {
    let plan = plan.or_environment();
    let index = make();
    let keys = index.keys();
    let count = (plan.operations as u64).min(keys.rank_max() / 2);
    let base = keys.rank_max() - count;
    let next = AtomicU64::new(0);
    let outcome = on_threads(threads, |thread| {
        let mut rng = Rng::stream(plan.seed, thread as u64);
        let mut newest_own = None;
        loop {
            let rank = next.fetch_add(1, Ordering::Relaxed);
            if rank >= count {
                return Ok(());
            }
            let rank = base + rank;
            index.insert(&keys.key(rank, 0), value_of(rank, 0));
            let to_find = newest_own.filter(|_| rng.percent(50.0)).unwrap_or(rank);
            if index.get(&keys.key(to_find, 0)) != Some(value_of(to_find, 0)) {
                return Err(format!(
                    "thread {thread}: key {to_find} was inserted and is not found"
                ));
            }
            newest_own = Some(rank);
            if rng.percent(1.0) {
                let newest = index.range((Bound::Unbounded, Bound::Unbounded), Direction::Backward, 50);
                let newest = ranked_range(keys, &newest, Direction::Backward)?;
                let own = newest.iter().find(|&&(found, _)| found <= rank);
                // Newer keys of other threads may fill the scan; one that goes on to older keys
                // passes this one.
                if own.map_or(newest.len() < 50, |&(found, _)| found != rank) {
                    return Err(format!("thread {thread}: a scan of the newest misses {rank}"));
                }
            }
        }
    })
    .and_then(|()| index.check_structure())
    .and_then(|()| {
        let entries = index.range(
            (Bound::Unbounded, Bound::Unbounded),
            Direction::Forward,
            usize::MAX,
        );
        let entries = ranked_range(keys, &entries, Direction::Forward)?;
        let expected = (0..count).map(|rank| (base + rank, value_of(base + rank, 0)));
        if entries.into_iter().eq(expected) {
            Ok(())
        } else {
            Err("keys are missing or too many".into())
        }
    });
    report(plan, outcome);
}

/// Readers scan ranges in which half the keys stay and the other half come and go (law 5).
///
/// # Panics
///
/// If the contract is broken.
pub fn check_ranges_over_writers<I: ConcurrentIndex>(
    make: impl Fn() -> I,
    writers: usize,
    readers: usize,
    plan: Plan,
) {
    let plan = plan.or_environment();
    let index = make();
    let field = Field {
        base: index.keys().rank_max() / 2,
        stable: (plan.operations as u64 / 20).clamp(STABLE_MIN, 5_000),
    };
    let keys = index.keys();
    for number in 0..field.stable {
        let rank = field.base + 2 * number;
        index.insert(&keys.key(rank, 0), value_of(rank, 0));
    }
    let writers_left = AtomicUsize::new(writers);
    let is_broken = AtomicBool::new(false);
    let outcome = on_threads(writers + readers, |thread| {
        let mut rng = Rng::stream(plan.seed, thread as u64);
        if thread < writers {
            // Readers would go on for ever beside a writer that has panicked.
            scopeguard::defer! {
                writers_left.fetch_sub(1, Ordering::Relaxed);
            }
            for number in 0..plan.operations / writers {
                field.write(&index, &mut rng, number as u64);
                if is_broken.load(Ordering::Relaxed) {
                    break;
                }
            }
            return Ok(());
        }
        let mut rounds = 0;
        while rounds < ROUNDS_MIN || writers_left.load(Ordering::Relaxed) > 0 {
            if let Err(what) = field.read(&index, &mut rng) {
                is_broken.store(true, Ordering::Relaxed);
                return Err(what);
            }
            rounds += 1;
        }
        Ok(())
    })
    .and_then(|()| index.check_structure());
    report(plan, outcome);
}

/// The fewest keys that always stay, and the fewest ranges that a reader reads.
const STABLE_MIN: u64 = if cfg!(miri) { 24 } else { 100 };
const ROUNDS_MIN: usize = if cfg!(miri) { 3 } else { 20 };

/// Ranks from `base`: the even ones always stay, the odd ones come and go.
#[derive(Debug, Clone, Copy)]
struct Field {
    base: u64,
    stable: u64,
}

impl Field {
    fn write<I: ConcurrentIndex>(self, index: &I, rng: &mut Rng, version: u64) {
        let keys = index.keys();
        // Most writes fall in a moving hot spot, so that its nodes fill, split and empty.
        let wander = (version / 64 * 16) % self.stable;
        let number = if rng.percent(80.0) {
            (wander + rng.below(64)) % self.stable
        } else {
            rng.below(self.stable)
        };
        let stays = self.base + 2 * number;
        let comes_and_goes = stays + 1;
        match rng.below(10) {
            0 => index.insert(&keys.key(stays, 0), value_of(stays, version)),
            1..=5 => index.insert(&keys.key(comes_and_goes, 0), value_of(comes_and_goes, version)),
            _ => {
                index.remove(&keys.key(comes_and_goes, 0));
            }
        }
    }

    fn read<I: ConcurrentIndex>(self, index: &I, rng: &mut Rng) -> Outcome {
        let from = rng.below(self.stable);
        let width = if rng.percent(10.0) {
            self.stable
        } else {
            rng.below(200)
        };
        let to = (from + width).min(self.stable - 1);
        let (lower, upper) = (self.base + 2 * from, self.base + 2 * to);
        let direction = if rng.percent(50.0) {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let asked = bounds(index.keys(), Bound::Included(lower), Bound::Included(upper));
        let entries = index.range(asked, direction, usize::MAX);
        let entries = ranked_range(index.keys(), &entries, direction)?;
        let context = || format!("{direction:?} range {lower}..={upper}");
        if let Some((rank, value)) = entries.iter().find(|&&(rank, value)| !belongs_to(rank, value)) {
            return Err(format!(
                "{}: key {rank} has value {value:#x}, which it never had",
                context()
            ));
        }
        if let Some((rank, _)) = entries
            .iter()
            .find(|&&(rank, _)| !(lower..=upper).contains(&rank))
        {
            return Err(format!("{}: yields {rank}", context()));
        }
        let stable = entries
            .iter()
            .filter(|&&(rank, _)| (rank - self.base).is_multiple_of(2))
            .count() as u64;
        if stable == to - from + 1 {
            Ok(())
        } else {
            Err(format!(
                "{}: {stable} of {} keys that never left",
                context(),
                to - from + 1
            ))
        }
    }
}

/// Threads insert, look up and remove a few keys while many others around them come and go; the
/// recorded history of the few must be linearizable.
///
/// # Panics
///
/// If the contract is broken.
pub fn check_histories<I: ConcurrentIndex>(make: impl Fn() -> I, threads: usize, plan: Plan) {
    const OPERATIONS_PER_THREAD_MAX: usize = 400;
    let plan = plan.or_environment();
    let per_thread = (plan.operations / threads).clamp(1, OPERATIONS_PER_THREAD_MAX);
    let rounds = plan.operations.div_ceil(per_thread * threads);
    for round in 0..rounds as u64 {
        let index = make();
        let clock = Clock::new();
        let histories = std::sync::Mutex::new(Vec::new());
        let outcome = on_threads(threads, |thread| {
            let mut rng = Rng::stream(plan.seed.wrapping_add(round), thread as u64);
            let mut recorder = Recorder::new(&clock, thread);
            for number in 0..per_thread {
                act(
                    &index,
                    &mut recorder,
                    &mut rng,
                    (thread * per_thread + number) as u64,
                );
            }
            histories
                .lock()
                .map_err(|_| "poisoned")?
                .extend(recorder.into_events());
            Ok(())
        })
        .and_then(|()| index.check_structure())
        .and_then(|()| {
            let history = histories.into_inner().unwrap_or_default();
            linearizability::check(&history).map_err(|violation| violation.to_string())
        });
        report(plan, outcome);
    }
}

/// Ranks between two keys whose histories are recorded.
const HISTORY_GAP: u64 = 64;
const HISTORY_KEYS: u64 = 6;

/// Runs one recorded operation on one of a few keys, or an unrecorded one between them.
fn act<I: ConcurrentIndex>(index: &I, recorder: &mut Recorder<'_>, rng: &mut Rng, number: u64) {
    let keys = index.keys();
    let base = keys.rank_max() / 2;
    let rank = base + HISTORY_GAP * rng.below(HISTORY_KEYS);
    let key = keys.key(rank, rng.below(4));
    let value = value_of(rank, number);
    match rng.below(8) {
        0 | 1 => recorder.record(rank, || {
            index.insert(&key, value);
            Action::Insert(value)
        }),
        2 | 3 => recorder.record(rank, || Action::Get(index.get(&key))),
        4 => recorder.record(rank, || match index.remove(&key) {
            Removed::Blind => Action::RemoveBlind,
            Removed::Absent => Action::Remove(None),
            Removed::Value(value) => Action::Remove(Some(value)),
        }),
        5 => thread::yield_now(),
        filler => {
            let rank = rank + 1 + rng.below(HISTORY_GAP - 1);
            let key = keys.key(rank, 0);
            if filler == 6 || rng.percent(50.0) {
                index.insert(&key, value_of(rank, number));
            } else {
                index.remove(&key);
            }
        }
    }
}
