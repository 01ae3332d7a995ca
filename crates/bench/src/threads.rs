//! Threads that start together and are timed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quanta::Instant;

/// Runs `work` with each thread number concurrently; returns the results and the seconds from the
/// first start to the last end. The threads read the clock themselves, as the waiting thread may
/// not be scheduled until they have ended.
///
/// # Panics
///
/// If a thread panics.
pub fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> (Vec<T>, f64) {
    on_threads_after(threads, |_| {}, work)
}

/// Like [`on_threads`], after each thread in turn has run `first`, untimed, so that an index that
/// numbers its threads gives them the same numbers every time.
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
                    // The next thread gets its turn even after a panic.
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
