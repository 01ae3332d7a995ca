//! How long a cache line takes from one processor to another.
//!
//! Where a hypervisor moves virtual processors about, two of them share a core now, a last-level cache then, and at other
//! times neither: what two threads reach together differs with that by a factor of two and more. So rounds of two
//! threads tell it beside what they measure.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quanta::Instant;

use crate::record::Figure;
use crate::runner::median;
use crate::threads::on_threads;

/// Times that the line goes there and back in one measurement, and measurements: over before the threads are moved, and most
/// of them while both run.
const ROUND_TRIPS: usize = 250;
const MEASUREMENTS: usize = 21;

/// Nanoseconds from a store on one processor to the answering store on another.
fn crossing_ns() -> f64 {
    #[repr(align(128))]
    struct Line(AtomicUsize);

    let line = &Line(AtomicUsize::new(0));
    let answer = |turn| {
        let mut spins = 0;
        while line.0.load(Ordering::Acquire) != turn {
            spins += 1;
            // Both may be on one processor.
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

/// What `measure` returns, with the longer of the times that a line took before and after, if there are several threads.
pub(crate) fn beside(threads: usize, measure: impl FnOnce() -> Vec<Figure>) -> Vec<Figure> {
    if threads < 2 {
        return measure();
    }
    let before = crossing_ns();
    let mut figures = measure();
    figures.push(Figure::new("a line goes across", "ns", before.max(crossing_ns())));
    figures
}
