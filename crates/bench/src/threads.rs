//! Threads that begin together, and are timed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quanta::Instant;

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
