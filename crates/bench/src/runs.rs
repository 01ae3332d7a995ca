//! The runs whose results are stored, and from which documents get their figures.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A run whose results are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRun {
    /// The name of its file of results, without the extension.
    pub name: &'static str,
    /// The scenario and options, as on the command line.
    pub arguments: &'static str,
    /// Whether it is repeated only when it is asked for by name, as it takes minutes and gigabytes.
    pub is_large: bool,
}

const fn run(name: &'static str, arguments: &'static str) -> StoredRun {
    StoredRun {
        name,
        arguments,
        is_large: false,
    }
}

const fn large(name: &'static str, arguments: &'static str) -> StoredRun {
    StoredRun {
        name,
        arguments,
        is_large: true,
    }
}

/// All runs. Those that are not large take less than an hour on two processors.
pub const STORED_RUNS: &[StoredRun] = &[
    run(
        "table-ingest",
        "table-ingest --entries 1000000 --degrees in-order,second-late,scrambled",
    ),
    run(
        "table-ingest-settings",
        "table-ingest --entries 1000000 --rounds 2 --degrees in-order/batch-1,in-order/batch-1/writers-4,\
         in-order/batch-1/writers-16,in-order/batch-100,in-order/batch-400000,in-order/relaxed,\
         in-order/batch-100/relaxed,scrambled/relaxed,in-order/writers-2,in-order/batch-100/writers-2",
    ),
    run("table-read", "table-read --entries 1000000 --rounds 2"),
    run("table-late", "table-late --entries 500000 --rounds 1"),
    run("table-keyed", "table-keyed --entries 500000 --rounds 1"),
    run(
        "table-beyond-memory",
        "table-beyond-memory --entries 1000000 --rounds 1",
    ),
    large(
        "table-beyond-memory-50m",
        "table-beyond-memory --entries 50000000 --rounds 3 --only bedload",
    ),
    large(
        "table-sustained",
        "table-sustained --seconds 45 --rounds 1 --only bedload",
    ),
    large(
        "table-large",
        "table-large --entries 100000000 --rounds 1 --only bedload",
    ),
    run(
        "table-deletions",
        "table-deletions --entries 2000000 --rounds 1 --only bedload,same-again",
    ),
    run("table-filter", "table-filter --entries 2000000 --rounds 1"),
    run("table-command", "table-command --entries 10000000 --rounds 3"),
    run("sparse-throughput", "sparse-throughput --rounds 1"),
    run("sparse-latency", "sparse-latency --rounds 1"),
    run("sparse-growth", "sparse-growth --entries 2000000 --rounds 1"),
    run("sparse-density", "sparse-density --entries 100000 --rounds 1"),
    run(
        "timeseries",
        "timeseries --entries 4000000 --operations 1000000 --rounds 2 \
         --only same-again,blink-hash,sb-tree,sb-tree-reserved,bplustree,scc-tree,skip-map",
    ),
    run(
        "timeseries-latency",
        "timeseries-latency --entries 1000000 --rounds 3 --only same-again,blink-hash,sb-tree,bplustree,scc-tree,btree-map",
    ),
    run(
        "newest-scan",
        "newest-scan --rounds 4 --only same-again,blink-hash,sb-tree,bplustree,scc-tree",
    ),
    run(
        "delayed",
        "delayed --rounds 4 --only same-again,blink-hash,sb-tree,sb-tree-reserved,bplustree,scc-tree",
    ),
    run(
        "ycsb",
        "ycsb --entries 500000 --rounds 3 --only same-again,blink-hash,sb-tree,bplustree,scc-tree",
    ),
    run(
        "ycsb-addresses",
        "ycsb-addresses --entries 500000 --rounds 3 --only blink-hash,sb-tree,bplustree,scc-tree",
    ),
    run(
        "memory",
        "memory --rounds 1 --only blink-hash,sb-tree,bplustree,scc-tree,btree-map",
    ),
    run("factor-analysis", "factor-analysis --rounds 3"),
    run("blink-hash-splits", "blink-hash-splits --rounds 1"),
    run(
        "motivation",
        "motivation --rounds 3 --only same-again,blink-hash,sb-tree,bplustree,scc-tree,skip-map",
    ),
    run("blink-hash-tuning", "blink-hash-tuning --rounds 2"),
    run("blink-hash-conversion", "blink-hash-conversion --rounds 3"),
    run("segment", "segment --rounds 2"),
    run(
        "near-sorted-ingest",
        "near-sorted-ingest --entries 2000000 --rounds 2",
    ),
    run(
        "near-sorted-lookup",
        "near-sorted-lookup --entries 1000000 --rounds 2",
    ),
    run(
        "near-sorted-scan",
        "near-sorted-scan --entries 1000000 --rounds 2",
    ),
    run(
        "near-sorted-mixed",
        "near-sorted-mixed --entries 1000000 --rounds 3",
    ),
    run(
        "tpch-receiptdate",
        "tpch-receiptdate --entries 1000000 --rounds 2",
    ),
    run("runs", "runs --entries 2000000 --rounds 3"),
    run("run-filters", "run-filters --entries 2000000 --rounds 2"),
    run("be-tree", "be-tree --entries 2000000 --rounds 2"),
    run("sware-grid", "sware-grid --entries 500000 --rounds 3"),
    run("sware-parts", "sware-parts --entries 1000000 --rounds 2"),
    run("sware-ablation", "sware-ablation --entries 500000 --rounds 3"),
    run(
        "sware-buffer-size",
        "sware-buffer-size --entries 1000000 --rounds 2",
    ),
    run("sware-scale", "sware-scale --entries 2000000 --rounds 3"),
    run("sware-disk", "sware-disk --entries 100000 --rounds 1"),
    run("sware-be-tree", "sware-be-tree --entries 1000000 --rounds 3"),
    run("patterns", "patterns --entries 1000000 --rounds 2"),
];

/// Runs `program`, which is `bedload-bench`, for each stored run with one of these names, or for
/// all that are not large if there are none. Each run is a process of its own in `root`, and
/// replaces its file in `results`, a directory below it.
///
/// # Errors
///
/// No run has such a name, or a run fails. Results of the runs before it are stored.
pub fn perform(program: &Path, root: &Path, results: &str, names: &[String], note: &str) -> io::Result<()> {
    if let Some(name) = names
        .iter()
        .find(|name| !STORED_RUNS.iter().any(|run| run.name == **name))
    {
        return Err(io::Error::other(format!("no stored run is called {name}")));
    }
    let selected = STORED_RUNS
        .iter()
        .filter(|run| (names.is_empty() && !run.is_large) || names.iter().any(|name| name == run.name));
    for run in selected {
        let begin = Instant::now();
        let mut command = Command::new(program);
        command.current_dir(root).stdout(Stdio::null());
        command.arg("run").args(run.arguments.split_whitespace());
        command.args(["--results", &format!("{results}/{}.jsonl", run.name)]);
        command.args(["--note", note]);
        let status = command.status()?;
        if !status.success() {
            return Err(io::Error::other(format!("{}: {status}", run.name)));
        }
        writeln!(io::stdout(), "{:24} {:4} s", run.name, begin.elapsed().as_secs())?;
    }
    Ok(())
}
