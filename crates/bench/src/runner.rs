//! Rounds, threads, and figures made of them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quanta::{Clock, Instant};

use crate::record::Record;
use crate::subjects::{BASELINE, Entrant, Subject};

/// How much work a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A moment: for tests.
    Tiny,
    /// Seconds for each subject.
    Small,
    /// What published figures rest on.
    Full,
}

impl Scale {
    /// The scale of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "tiny" => Some(Self::Tiny),
            "small" => Some(Self::Small),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    scale: Scale,
    entries: Option<usize>,
    operations_max: Option<usize>,
    rounds: Option<usize>,
    threads_max: Option<usize>,
    only: Vec<String>,
    degrees: Vec<String>,
}

impl Plan {
    /// Every subject, at this scale.
    #[must_use]
    pub const fn new(scale: Scale) -> Self {
        Self {
            scale,
            entries: None,
            operations_max: None,
            rounds: None,
            threads_max: None,
            only: Vec::new(),
            degrees: Vec::new(),
        }
    }

    /// The same at another scale.
    #[must_use]
    pub fn with_scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// Loads so many entries instead of the scale's.
    #[must_use]
    pub const fn with_entries(mut self, entries: usize) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Times no more than so many lookups, scans or operations of a mix, of all threads together, whatever is loaded.
    #[must_use]
    pub const fn with_operations_max(mut self, operations: usize) -> Self {
        self.operations_max = Some(operations);
        self
    }

    /// Makes so many rounds instead of the scale's.
    #[must_use]
    pub const fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Runs on no more threads than this.
    #[must_use]
    pub const fn with_threads_max(mut self, threads: usize) -> Self {
        self.threads_max = Some(threads);
        self
    }

    /// Leaves all subjects out but these and the baseline.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = names.into_iter().collect();
        self
    }

    /// Leaves all degrees of order out but these, in scenarios that have several.
    #[must_use]
    pub fn with_degrees(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.degrees = names.into_iter().collect();
        self
    }

    /// Whether a degree of order is wanted.
    #[must_use]
    pub fn takes_degree(&self, name: &str) -> bool {
        self.degrees.is_empty() || self.degrees.iter().any(|degree| degree == name)
    }

    /// Entries loaded.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.unwrap_or(match self.scale {
            Scale::Tiny => 4_000,
            Scale::Small => 1_000_000,
            Scale::Full => 10_000_000,
        })
    }

    /// Operations that each of the threads times in a scenario that would have them time so many together.
    #[must_use]
    pub fn share(&self, operations: usize, threads: usize) -> usize {
        operations.min(self.operations_max.unwrap_or(operations)) / threads
    }

    /// Rounds of all subjects.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(match self.scale {
            Scale::Tiny => 1,
            Scale::Small => 3,
            Scale::Full => 5,
        })
    }

    /// Numbers of threads: 1, 2, 4 … as the machine allows.
    #[must_use]
    pub fn threads(&self) -> Vec<usize> {
        let available = thread::available_parallelism().map_or(1, usize::from);
        let most = if self.scale == Scale::Tiny { 2 } else { available };
        let most = most.min(self.threads_max.unwrap_or(most)).max(1);
        (0..)
            .map(|power| 1 << power)
            .take_while(|&threads| threads <= most)
            .collect()
    }

    /// Entries loaded by a scenario that has sizes of its own: small, and full.
    #[must_use]
    pub fn entries_of(&self, small: usize, full: usize) -> usize {
        match (self.entries, self.scale) {
            (None, Scale::Small) => small,
            (None, Scale::Full) => full,
            _ => self.entries(),
        }
    }

    /// Whether a subject is to run, in a scenario of this baseline.
    #[must_use]
    pub fn takes(&self, name: &str, baseline: &str) -> bool {
        self.only.is_empty() || name == baseline || self.only.iter().any(|only| only == name)
    }
}

/// One figure of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

/// Runs `round` for every entrant in turn, as often as the plan asks, for every number of threads.
pub fn rounds<K>(
    scenario: &'static str,
    plan: &Plan,
    entrants: &[Entrant<K>],
    round: impl Fn(&dyn Subject<K>, usize, u64) -> Vec<Figure>,
) -> Vec<Record> {
    rounds_of_all(scenario, plan, entrants, |entrants, threads, number, samples| {
        for entrant in entrants {
            let figures = unless_peer_panics(entrant, || {
                let subject = (entrant.make)();
                round(subject.as_ref(), threads, number)
            });
            samples.add(entrant.name, figures.unwrap_or_default());
        }
    })
}

/// Runs `round`, which measures all entrants, as often as the plan asks, for every number of threads.
pub fn rounds_of_all<K>(
    scenario: &'static str,
    plan: &Plan,
    entrants: &[Entrant<K>],
    round: impl Fn(&[&Entrant<K>], usize, u64, &mut Samples),
) -> Vec<Record> {
    let is_taken = |entrant: &&Entrant<K>| plan.takes(entrant.name, BASELINE);
    let entrants: Vec<_> = entrants.iter().filter(is_taken).collect();
    let mut records = Vec::new();
    for threads in plan.threads() {
        let mut samples = Samples::new();
        for number in 0..plan.rounds() {
            round(&entrants, threads, number as u64, &mut samples);
        }
        let mut params = vec![
            ("threads", threads.to_string()),
            ("entries", plan.entries().to_string()),
        ];
        params.extend(
            plan.operations_max
                .map(|most| ("operations at most", most.to_string())),
        );
        records.extend(summarise(scenario, BASELINE, &params, &samples));
    }
    records
}

/// What `measure` answers; none if the entrant is a peer and panics, which is reported.
pub fn unless_peer_panics<K, T>(entrant: &Entrant<K>, measure: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(measure)) {
        Ok(answer) => Some(answer),
        Err(_) if entrant.is_peer => {
            eprintln!("{} panicked", entrant.name);
            None
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// Figures of several rounds, by subject and metric, in the order in which they first came.
#[derive(Debug, Default)]
pub struct Samples {
    kinds: Vec<(&'static str, Figure, Vec<f64>)>,
}

impl Samples {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the figures of a round.
    pub fn add(&mut self, subject: &'static str, figures: Vec<Figure>) {
        for figure in figures {
            let known = self
                .kinds
                .iter_mut()
                .find(|(name, known, _)| *name == subject && known.metric == figure.metric);
            match known {
                Some((_, _, values)) => values.push(figure.value),
                None => {
                    let values = vec![figure.value];
                    self.kinds.push((subject, figure, values));
                }
            }
        }
    }
}

/// Medians, extremes, and ratios to a subject of the same run.
#[must_use]
pub fn summarise(
    scenario: &'static str,
    baseline: &'static str,
    params: &[(&'static str, String)],
    samples: &Samples,
) -> Vec<Record> {
    let of_baseline = |metric: &str| {
        let mut kinds = samples.kinds.iter();
        let found = kinds.find(|(name, figure, _)| *name == baseline && figure.metric == metric);
        found.map_or(f64::NAN, |(_, _, values)| median(values))
    };
    let revision = option_env!("BEDLOAD_REVISION").unwrap_or("unknown").to_owned();
    let mut params: BTreeMap<_, _> = params.iter().cloned().collect();
    params.extend([("machine", machine()), ("revision", revision)]);
    samples
        .kinds
        .iter()
        .map(|(subject, figure, values)| Record {
            scenario,
            subject,
            metric: figure.metric.clone(),
            unit: figure.unit,
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: values.len(),
            baseline,
            ratio: median(values) / of_baseline(&figure.metric),
            params: params.clone(),
        })
        .collect()
}

/// The middle of these values, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => (sorted[middle - 1] + upper) / 2.0,
    }
}

fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} {}, {cores} threads",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

/// Runs `work` on every thread number at once; returns the answers and the seconds from the first start to the last
/// end. The threads read the clock themselves: whoever waits for them may be let run only when they have ended.
///
/// # Panics
///
/// If a thread panics.
pub fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> (Vec<T>, f64) {
    on_threads_after(threads, |_| {}, work)
}

/// The same, after each thread in turn has done `first`, untimed: so that an index that numbers its threads gives them the
/// same numbers every time, as it would if they lasted.
///
/// # Panics
///
/// If a thread panics.
pub fn on_threads_after<T: Send>(
    threads: usize,
    first: impl Fn(usize) + Sync,
    work: impl Fn(usize) -> T + Sync,
) -> (Vec<T>, f64) {
    let start = Barrier::new(threads + 1);
    let turn = AtomicUsize::new(0);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, turn, first, work) = (&start, &turn, &first, &work);
                scope.spawn(move || {
                    while turn.load(Ordering::Acquire) != thread {
                        thread::yield_now();
                    }
                    // Also if it panics, the next one gets its turn.
                    let done = catch_unwind(AssertUnwindSafe(|| first(thread)));
                    turn.store(thread + 1, Ordering::Release);
                    start.wait();
                    done.unwrap_or_else(|panic| resume_unwind(panic));
                    let begun = Instant::now();
                    let answer = work(thread);
                    (answer, begun, Instant::now())
                })
            })
            .collect();
        start.wait();
        let (mut answers, mut begun, mut ended) = (Vec::with_capacity(threads), None, None);
        for handle in handles {
            let (answer, from, to) = handle.join().unwrap_or_else(|panic| resume_unwind(panic));
            answers.push(answer);
            begun = Some(begun.map_or(from, |begun: Instant| begun.min(from)));
            ended = ended.max(Some(to));
        }
        let span = begun.zip(ended).map(|(begun, ended)| ended - begun);
        (answers, span.unwrap_or_default().as_secs_f64())
    })
}

/// Time stamps for keys: nanoseconds since the stamps were made, so that they fit in 48 bits for three days.
#[derive(Debug, Clone)]
pub struct Stamps {
    clock: Clock,
    start: u64,
}

impl Stamps {
    /// Begins at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::beginning_at(0)
    }

    /// Begins at so many ticks, for keys that are set back by as many.
    #[must_use]
    pub fn beginning_at(ticks: u64) -> Self {
        let clock = Clock::new();
        let start = clock.raw().wrapping_sub(ticks);
        Self { clock, start }
    }

    /// Ticks of the processor's clock since the beginning.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.raw().wrapping_sub(self.start)
    }

    /// About how many ticks there are in so many nanoseconds.
    #[must_use]
    pub fn ticks(&self, nanoseconds: u64) -> f64 {
        const SAMPLE: u64 = 1 << 32;
        nanoseconds as f64 * SAMPLE as f64 / self.clock.delta_as_nanos(0, SAMPLE) as f64
    }

    /// Nanoseconds between two of these stamps.
    #[must_use]
    pub fn nanoseconds(&self, from: u64, to: u64) -> u64 {
        self.clock.delta_as_nanos(from, to)
    }
}

impl Default for Stamps {
    fn default() -> Self {
        Self::new()
    }
}
