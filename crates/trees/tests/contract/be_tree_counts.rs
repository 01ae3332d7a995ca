//! Counts what the Bε-tree writes and reads: the law of parameters on trees as high as large ones.

use std::ops::Bound;

use bedload_pages::{FaultyPages, HeapPages, PageStore};
use bedload_testkit::Rng;
use bedload_trees::be_tree::{
    BeTree, BeTreeOptions, LeafTarget, Maintainer, MaintenanceWork, Pressure, Progress,
};
use bedload_trees::run::RunEdge;
use bedload_trees::{NoRow, Position, U64Order};

use crate::be_tree::publish_keys;

const PAYLOAD_LEN: usize = 8168;

/// Capacities so small that a million entries make as many levels as hundreds of millions
/// otherwise.
fn config() -> BeTreeOptions {
    BeTreeOptions::new().shrunk(1024).max_entries(32)
}

/// Written, and how often: by batches, and by maintenance for each of their entries.
#[derive(Debug)]
struct Cost {
    entries: u64,
    work: MaintenanceWork,
    height: u8,
    /// Entries that runs have, for each that there is.
    space: f64,
    /// Runs for each leaf.
    runs: f64,
    /// Pages of nodes, runs and filters.
    pages: usize,
}

impl Cost {
    /// How often an entry is written, the batch included.
    fn amplification(&self) -> f64 {
        1.0 + self.work.entries_written as f64 / self.entries as f64
    }
}

/// Loads keys in batches, maintaining as soon as something is due.
fn load(config: BeTreeOptions, batch: usize, keys: impl Iterator<Item = u64>) -> Cost {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, config).expect("an empty tree");
    let mut maintainer = tree.maintainer();
    let mut keys = keys.peekable();
    let mut entries = 0;
    while keys.peek().is_some() {
        let mut sorted: Vec<u64> = keys.by_ref().take(batch).collect();
        sorted.sort_unstable();
        entries += sorted.len() as u64;
        if publish_keys(&tree, sorted.into_iter().map(|key| (key, 0))) != Pressure::None {
            while maintainer.work(1 << 20).expect("maintained") == Progress::Paused {}
        }
        pages.reclaim().expect("reclaimed");
    }
    let report = tree.verify().expect("sound pages");
    assert!(report.is_sound(), "{:?}", report.problems);
    Cost {
        entries,
        work: maintainer.done(),
        height: report.height,
        space: report.entries as f64 / entries as f64,
        runs: (report.runs_above + report.leaf_runs) as f64 / report.leaves as f64,
        pages: report.pages.len(),
    }
}

fn uniform(entries: u64) -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(1);
    (0..entries).map(move |_| rng.next_u64())
}

/// Random keys of a window that moves through the keys.
fn moving_hot_spot(entries: u64) -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(2);
    (0..entries).map(move |at| (at << 20) + (rng.next_u64() >> 20))
}

#[test]
fn random_entries_are_written_a_few_times() {
    // As 10⁸ entries of a tree that is not shrunk.
    let cost = load(config(), 64, uniform(100_000));
    println!("uniform: {:.2} times, {cost:?}", cost.amplification());
    assert!(cost.height >= 4, "{cost:?}");
    assert!(cost.amplification() < 8.0, "{cost:?}");
    assert!(cost.space < 1.5 && cost.runs < 2.0, "{cost:?}");

    let cost = load(config(), 64, moving_hot_spot(100_000));
    println!("moving hot spot: {:.2} times, {cost:?}", cost.amplification());
    assert!(cost.height >= 4, "{cost:?}");
    assert!(cost.amplification() < 8.0, "{cost:?}");
}

#[test]
fn what_comes_in_order_is_written_once() {
    let cost = load(config(), 128, 0..100_000);
    println!(
        "in order, large batches: {:.2} times, {cost:?}",
        cost.amplification()
    );
    assert!(cost.amplification() < 1.05, "{cost:?}");
    assert_eq!(cost.work.push_downs, 0, "nothing went by the root");
    let cost = load(config(), 4, 0..100_000);
    println!(
        "in order, small batches: {:.2} times, {cost:?}",
        cost.amplification()
    );
    assert!(cost.amplification() < 2.1, "{cost:?}");
    assert_eq!(cost.work.push_downs, 0, "nothing went by the root");
}

#[test]
fn against_the_law_of_parameters_pushes_are_crumbs() {
    let lawful = load(config(), 64, uniform(60_000));
    // Far fewer entries pend for a child than half of a leaf's run.
    let crumbs = load(config().pending_entries(64), 64, uniform(60_000));
    println!(
        "{:.2} and {:.2} times",
        lawful.amplification(),
        crumbs.amplification()
    );
    assert!(
        crumbs.amplification() > 2.0 * lawful.amplification(),
        "{crumbs:?}, {lawful:?}"
    );
}

#[test]
fn small_trees_that_wait_for_more_write_less() {
    let work = |config| {
        // Batches that need no merging first, of sizes at which pushing down is over and is due.
        let costs = (2..=8).map(|batches| load(config, 190, uniform(batches * 190)));
        costs.map(|cost| cost.work.entries_written).sum::<u64>()
    };
    let (eager, patient) = (work(config()), work(config().shares_of_few(3)));
    println!("{eager} and {patient} entries");
    assert!(patient * 10 < eager * 9, "{patient} of {eager} entries");
    // Where children are many, it is the same.
    let cost = load(config().shares_of_few(3), 64, uniform(60_000));
    assert!(cost.amplification() < 8.0 && cost.runs < 2.0, "{cost:?}");
}

/// How many runs a reader of a random key meets.
fn runs_met<S: PageStore>(tree: &BeTree<U64Order, NoRow, S>, rng: &mut Rng) -> usize {
    let prefix = rng.next_u64();
    let target = LeafTarget::At(RunEdge { prefix, tie: 0 });
    tree.leaf_interval(target).expect("sound").runs.len()
}

#[test]
fn steps_are_small_and_readers_meet_few_runs() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, config()).expect("an empty tree");
    let (mut keys, mut rng) = (uniform(60_000), Rng::new(4));
    let (mut longest, mut met) = (0, Vec::new());
    loop {
        let mut batch: Vec<u64> = keys.by_ref().take(5).collect();
        if batch.is_empty() {
            break;
        }
        batch.sort_unstable();
        publish_keys(&tree, batch.into_iter().map(|key| (key, 0)));
        let mut maintainer = tree.maintainer();
        let mut before = 0;
        while maintainer.finish_one().expect("maintained") == Progress::Paused {
            let written = maintainer.done().entries_written;
            longest = longest.max(written - before);
            before = written;
        }
        met.push(runs_met(&tree, &mut rng));
        pages.reclaim().expect("reclaimed");
    }
    let mean = met.iter().sum::<usize>() as f64 / met.len() as f64;
    let most = met.iter().max().copied().unwrap_or(0);
    println!("{longest} entries in a step; {mean:.1} runs, {most} at most");
    assert!(
        longest <= 4 * 128,
        "a step writes {longest} entries, and a leaf has 128"
    );
    assert!(mean < 12.0 && most <= 24, "{mean:.1} runs, {most} at most");
}

#[test]
fn a_tidy_root_has_one_run() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, config()).expect("an empty tree");
    let root = || tree.levels().expect("sound").pop().expect("a root");
    let mut keys = uniform(4000);
    for number in 0..200 {
        let mut batch: Vec<u64> = keys.by_ref().take(20).collect();
        batch.sort_unstable();
        publish_keys(&tree, batch.into_iter().map(|key| (key, 0)));
        while tree.maintainer().finish_one().expect("maintained") == Progress::Paused {}
        if number > 30 && root().runs > 2 {
            break;
        }
    }
    assert!(root().runs > 2, "{:?}", root());
    let (pending, mut maintainer) = (root().entries, tree.maintainer());
    while maintainer.tidy(8).expect("maintained") == Progress::Paused {}
    assert_eq!((root().runs, root().entries), (1, pending));
    let work = maintainer.done();
    assert_eq!(
        (work.merges, work.push_downs, work.entries_written),
        (1, 0, pending)
    );
    assert!(tree.verify().expect("sound").is_sound());
}

/// However much others add meanwhile, tidying does about what was due when it began.
#[test]
fn tidying_ends_beside_others_that_insert() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, config()).expect("an empty tree");
    let mut keys = uniform(1 << 20);
    let mut publish = || {
        let mut batch: Vec<u64> = keys.by_ref().take(20).collect();
        batch.sort_unstable();
        publish_keys(&tree, batch.into_iter().map(|key| (key, 0)));
    };
    for _ in 0..8 {
        publish();
    }
    let mut maintainer = tree.maintainer();
    let mut steps = 0;
    while maintainer.tidy(1 << 20).expect("maintained") == Progress::Paused {
        assert!(!maintainer.is_under_way(), "a step at a time, as a whole");
        steps += 1;
        assert!(steps < 1000, "{:?}", maintainer.done());
        // Enough for the next step to be due.
        for _ in 0..4 {
            publish();
        }
    }
    assert!(steps > 10 && maintainer.is_due().expect("sound"), "{steps} steps");
    // Somebody else does the rest.
    let mut other = tree.maintainer();
    while other.tidy(1 << 20).expect("maintained") == Progress::Paused {}
    assert!(!other.is_due().expect("sound"));
    assert!(tree.verify().expect("sound").is_sound());
}

/// A maintainer that others keep busy makes room at the root between two pieces of its work.
#[test]
fn the_newest_runs_are_merged_alone() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, config()).expect("an empty tree");
    let mut keys = uniform(4000);
    let mut publish = || {
        let mut batch: Vec<u64> = keys.by_ref().take(20).collect();
        batch.sort_unstable();
        publish_keys(&tree, batch.into_iter().map(|key| (key, 0)));
    };
    let root = || tree.levels().expect("sound").pop().expect("a root");
    let mut maintainer = tree.maintainer();
    let is_due = |maintainer: &mut Maintainer<'_, _, _, _>| maintainer.is_due().expect("sound");
    assert!(!is_due(&mut maintainer));
    while !is_due(&mut maintainer) {
        publish();
    }
    let (runs, pending) = (root().runs, root().entries);
    assert!(runs > 1, "{:?}", root());
    let mut pieces = 0;
    while maintainer.merge_newest(1).expect("merged") == Progress::Paused {
        pieces += u32::from(maintainer.is_under_way());
        assert!(is_due(&mut maintainer) || root().runs == 1);
    }
    assert!(pieces > 0, "it pauses amid a merge");
    assert_eq!((root().runs, root().entries), (1, pending));
    let work = maintainer.done();
    assert_eq!((work.merges, work.entries_written), (1, pending));
    // It leaves other work.
    let mut maintainer = tree.maintainer();
    for _ in 0..60 {
        publish();
        while maintainer.merge_newest(8).expect("merged") == Progress::Paused {}
    }
    assert!(is_due(&mut maintainer) && maintainer.done().push_downs == 0);
    // One thing at a time, however many pages are allowed.
    assert_eq!(maintainer.work_on_one(1 << 20).expect("worked"), Progress::Paused);
    assert!(!maintainer.is_under_way());
    assert!(tree.verify().expect("sound").is_sound());
}

#[test]
fn lookups_and_ranges_read_a_page_a_level_and_run() {
    let pages = FaultyPages::new(HeapPages::new(PAYLOAD_LEN), []);
    let tree =
        BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new().shrunk(256)).expect("an empty tree");
    let mut rng = Rng::new(3);
    let mut keys: Vec<u64> = Vec::new();
    let mut maintainer = tree.maintainer();
    for _ in 0..200 {
        let mut some: Vec<u64> = (0..500).map(|_| rng.next_u64()).collect();
        some.sort_unstable();
        publish_keys(&tree, some.iter().map(|&key| (key, 0)));
        keys.append(&mut some);
        while maintainer.work(1000).expect("maintained") == Progress::Paused {}
    }
    let reads = |what: &str, of: &dyn Fn()| {
        let before = pages.calls().reads;
        of();
        let reads = (pages.calls().reads - before) as f64 / 1000.0;
        println!("{what}: {reads:.1} pages");
        reads
    };
    let look_up = || {
        for at in 0..1000 {
            let key = U64Order::key(keys[at * 97]);
            assert!(tree.get_with(&key, 0, |_| ()).expect("sound").is_some());
        }
    };
    let range = || {
        for at in 0..1000 {
            let key = U64Order::key(keys[at * 97]);
            let from = Position { key: &key, tie: 0 };
            let mut cursor = tree
                .range(Bound::Included(from), Bound::Unbounded)
                .expect("begun");
            for _ in 0..10 {
                cursor.next_entry().expect("sound");
            }
        }
    };
    let loaded = (reads("a lookup", &look_up), reads("a range of ten", &range));
    while maintainer.drain(1000).expect("maintained") == Progress::Paused {}
    let drained = (
        reads("a lookup, drained", &look_up),
        reads("a range of ten, drained", &range),
    );
    let height = f64::from(tree.verify().expect("sound").height);
    assert!(loaded.0 <= height + 2.0 * 20.0 && loaded.1 <= height + 2.0 * 28.0);
    assert!(
        drained.0 <= height + 2.0,
        "a node of each level, and of the leaf's run two pages"
    );
    assert!(drained.1 <= height + 4.0);
}

#[test]
fn runs_of_leaves_have_no_filters() {
    let pages = |bits, keys: &mut dyn Iterator<Item = u64>| load(config().filter_bits(bits), 128, keys).pages;
    assert_eq!(pages(12, &mut (0..20_000)), pages(0, &mut (0..20_000)));
    assert!(pages(12, &mut uniform(20_000)) > pages(0, &mut uniform(20_000)));
}

/// Counts the reads for one absent key, asked for by itself or as a range: a filter spares the
/// nodes and leaves of a run.
#[test]
fn filters_spare_lookups_the_runs() {
    let reads = [0, 12].map(|bits| {
        let pages = FaultyPages::new(HeapPages::new(PAYLOAD_LEN), []);
        let config = BeTreeOptions::new().filter_bits(bits);
        let tree = BeTree::create(&pages, U64Order, NoRow, config).expect("an empty tree");
        for seed in 0..10 {
            let mut rng = Rng::new(seed);
            let mut keys: Vec<u64> = (0..4000).map(|_| rng.next_u64() | 1).collect();
            keys.sort_unstable();
            publish_keys(&tree, keys.into_iter().map(|key| (key, 0)));
        }
        let mut rng = Rng::new(99);
        let before = pages.calls().reads;
        for _ in 0..1000 {
            let key = U64Order::key(rng.next_u64() & !1);
            assert!(tree.get_with(&key, 0, |_| ()).expect("sound").is_none());
            let at = |tie| Bound::Included(Position { key: &key, tie });
            let mut cursor = tree.range(at(0), at(u64::MAX)).expect("begun");
            assert!(cursor.next_entry().expect("sound").is_none());
        }
        (pages.calls().reads - before) / 2000
    });
    // Two pages of each of ten runs; or one of its filter.
    assert!(reads[0] >= 20 && reads[1] <= 14, "{reads:?}");
}

/// Probes find the share of keys that filters do not rule out: less with more bits for each key.
#[test]
fn probes_of_filters_find_false_positives() {
    let probes = |bits| {
        let pages = HeapPages::new(PAYLOAD_LEN);
        let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new().filter_bits(bits));
        let tree = tree.expect("an empty tree");
        // Small integers, whose hashes are those of the first numbers.
        for first in 0..10 {
            publish_keys(&tree, (0..4000).map(|key| (first + key * 10, 0)));
        }
        tree.probe_filters().expect("sound")
    };
    let share = |bits| {
        let found = probes(bits);
        assert!(found.filters > 5 && found.probes >= 2000, "{found:?}");
        found.false_positives as f64 / found.probes as f64
    };
    assert_eq!(probes(0).filters, 0);
    let (few, many) = (share(2), share(12));
    assert!(few > 0.1 && many < 0.03, "{few} {many}");
}

#[test]
fn a_short_range_reads_only_the_runs_that_it_meets() {
    let pages = FaultyPages::new(HeapPages::new(PAYLOAD_LEN), []);
    let tree = BeTree::create(&pages, U64Order, NoRow, config()).expect("an empty tree");
    for first in (0..120).step_by(10) {
        publish_keys(&tree, (first..first + 10).map(|key| (key, 0)));
    }
    assert_eq!(tree.verify().expect("sound").leaf_runs, 12);
    for is_back in [false, true] {
        let before = pages.calls().reads;
        let key = U64Order::key(54);
        let bound = Bound::Included(Position { key: &key, tie: 0 });
        let cursor = if is_back {
            tree.range_back(Bound::Unbounded, bound)
        } else {
            tree.range(bound, Bound::Unbounded)
        };
        let mut cursor = cursor.expect("begun");
        for _ in 0..3 {
            assert!(cursor.next_entry().expect("sound").is_some());
        }
        assert_eq!(
            pages.calls().reads - before,
            3,
            "the root, the leaf, and a run of one page"
        );
    }
}
