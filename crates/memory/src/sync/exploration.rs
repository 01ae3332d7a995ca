//! How models are explored by loom.
//!
//! `make loom` runs all of them; one alone is
//! `RUSTFLAGS="--cfg loom" cargo test -p bedload-memory --lib --release loom_NAME`, with more
//! preemptions if `LOOM_MAX_PREEMPTIONS` says so.
//!
//! *The writer is the model's own thread, readers are spawned*; of two writers each is the spawned
//! one in turn. Loom tries the other order of two accesses when it meets the later one, and of the
//! earlier accesses to a word it knows only the last. If that is a load by the same thread, as in
//! an exchange of a loaded value, an earlier load by another thread is forgotten: a spawned writer
//! is not tried before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a model in each order in which its threads may take turns, with up to `preemptions`
/// preemptions, and in which loads may return values that stores wrote.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    let preemptions = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{runs} runs with up to {preemptions} preemptions");
    assert!(runs > 1, "nothing was explored");
}
