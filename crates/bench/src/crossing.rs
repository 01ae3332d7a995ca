//! How long a cache line takes from one processor to another.
//!
//! Where a hypervisor moves virtual processors about, two of them share a core now, a last-level cache then, and at other
//! times neither: what two threads reach together differs with that by a factor of two and more. So rounds of two
//! threads tell it beside what they measure.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::runner::{Figure, on_threads};

/// Times that the line goes there and back: enough for a mean, and over before the threads are moved.
const ROUND_TRIPS: u64 = 5_000;

/// Nanoseconds from a store on one processor to the answering store on another.
fn crossing_ns() -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);

    let line = &Line(AtomicU64::new(0));
    let (_, seconds) = on_threads(2, |thread| {
        for turn in (thread as u64..).step_by(2).take(ROUND_TRIPS as usize) {
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
        }
    });
    seconds * 1e9 / (2 * ROUND_TRIPS) as f64
}

/// What `measure` returns, with the longer of the times that a line took before and after, if there are several threads.
pub(crate) fn beside(threads: usize, measure: impl FnOnce() -> Vec<Figure>) -> Vec<Figure> {
    if threads < 2 {
        return measure();
    }
    let before = crossing_ns();
    let mut figures = measure();
    figures.push(Figure {
        metric: "a line goes across".to_owned(),
        unit: "ns",
        value: before.max(crossing_ns()),
    });
    figures
}
