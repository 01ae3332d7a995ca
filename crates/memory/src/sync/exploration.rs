//! How models are explored by loom.
//!
//! `make loom` runs all of them; one alone is
//! `RUSTFLAGS="--cfg loom" cargo test -p bedload-memory --lib --release loom_NAME`, with more
//! preemptions if `LOOM_MAX_PREEMPTIONS` says so.
//!
//! *Who writes is the model's own thread, who reads is spawned*, and of two writers each is the
//! spawned one in turn. Loom tries the other order of two accesses when it meets the later one, and
//! of the earlier ones to a word it knows the last. If that is a load by the same thread, as in an
//! exchange of what was loaded, the load by another thread before it is forgotten: a spawned writer
//! is not tried before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a model in each way in which its threads may take turns, with up to so many preemptions,
/// and in which loads may be told what stores put there.
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
