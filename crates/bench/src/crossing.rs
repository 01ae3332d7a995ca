//! The time that a cache line takes between two processors.
//!
//! A hypervisor may move virtual processors, so that two of them share a core, a last-level cache,
//! or neither; the throughput of two threads on shared memory varies with that by a factor of two
//! and more. So rounds of two threads report it beside their results.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quanta::Instant;

use crate::record::Figure;
use crate::runner::median;
use crate::threads::on_threads;

/// Round trips of the line per measurement, and the number of measurements: short enough that
/// threads are not moved, and most run while both threads do.
const ROUND_TRIPS: usize = 250;
const MEASUREMENTS: usize = 21;

/// Returns the nanoseconds from a store on one processor to the answering store on another.
fn crossing_ns() -> f64 {
    #[repr(align(128))]
    struct Line(AtomicUsize);

    let line = &Line(AtomicUsize::new(0));
    let answer = |turn| {
        let mut spins = 0;
        while line.0.load(Ordering::Acquire) != turn {
            spins += 1;
            // Both threads may be on one processor.
            if spins % 1_000 == 0 {
                thread::yield_now()
            } else {
                spin_loop()
            }
        }
        line.0.store(turn + 1, Ordering::Release);
    };
    let (measured, _) = on_threads(2, |thread| {
        let mut turns = (thread..).step_by(2);
        let mut measured = [0.0; MEASUREMENTS];
        for seconds in &mut measured {
            let begun = Instant::now();
            turns.by_ref().take(ROUND_TRIPS).for_each(answer);
            *seconds = begun.elapsed().as_secs_f64();
        }
        median(&measured)
    });
    median(&measured) * 1e9 / (2 * ROUND_TRIPS) as f64
}

/// Returns the figures of `measure` and, for several threads, the longer of the line's crossing
/// times before and after.
pub(crate) fn beside(threads: usize, measure: impl FnOnce() -> Vec<Figure>) -> Vec<Figure> {
    if threads < 2 {
        return measure();
    }
    let before = crossing_ns();
    let mut figures = measure();
    figures.push(Figure::new("a line goes across", "ns", before.max(crossing_ns())));
    figures
}
