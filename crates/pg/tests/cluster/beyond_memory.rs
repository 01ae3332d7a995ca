//! Tables whose indexes outgrow the server's memory: random keys by COPY, lookups and ranges, and
//! the wait for a commit; without an index, with a B-tree, with ours, in one run. Tiny as a test;
//! `make pg-beyond-memory` runs it with `BEDLOAD_PG_BEYOND_MEMORY=rows,MiB,seconds`, the server in
//! a memory cgroup of so many MiB.
//!
//! Each has a table of its own, and they take turns. The B-tree is built when its table is full,
//! which leaves it as compact as it can be; ours has grown with its table. Both take what is timed
//! as they are.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::types::ToSql;

use crate::cluster::Cluster;
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute, number, until};

const SUBJECTS: [&str; 3] = ["no index", "btree", "bedload"];
/// Turns of each subject at each figure, which divide its time.
const ROUNDS: u32 = 4;
/// Keys lie below 2^62.
const KEY_BITS: u32 = 62;
const LOAD_ROWS: u64 = 100_000;
/// Different keys of warm lookups.
const WARM_KEYS: u64 = 500;

/// With fewer waits beyond it, a quantile says little more than the longest.
const BEYOND_MIN: usize = 10;
/// The merges under way.
const MERGING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'bedload worker' AND state = 'active'";
/// By when the server has started a worker that a commit asked for.
const WORKER_START: Duration = Duration::from_millis(50);

/// The least memory of a server that is measured: besides its buffers, three sessions have some 20
/// MiB of their own while one of them commits [`LOAD_ROWS`], and what it writes must fit, too.
const MEMORY_MIB_MIN: u64 = 64;

/// How much to measure.
pub(crate) struct Scale {
    pub(crate) rows: u64,
    /// The limit of the server's memory, if it is to have one.
    memory_mib: Option<u64>,
    /// For each figure.
    pub(crate) time: Duration,
}

impl Scale {
    /// As a variable of the environment says: rows, MiB and seconds; tiny if it does not.
    pub(crate) fn from_environment(name: &str) -> Self {
        let asked = std::env::var(name).unwrap_or_default();
        let numbers: Option<Vec<u64>> = asked.split(',').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rows, memory_mib, seconds]) => {
                assert!(
                    memory_mib >= MEMORY_MIB_MIN,
                    "{name}={asked}: in {memory_mib} MiB the kernel kills the server while it \
                     loads; give it {MEMORY_MIB_MIN} MiB or more"
                );
                Self {
                    rows,
                    memory_mib: Some(memory_mib),
                    time: Duration::from_secs(seconds),
                }
            }
            _ => {
                assert!(asked.is_empty(), "{name} is rows,MiB,seconds");
                Self {
                    rows: 20_000,
                    memory_mib: None,
                    time: Duration::from_millis(100),
                }
            }
        }
    }

    /// A server with a quarter of its memory for its buffers, and its limit.
    pub(crate) fn start(&self, settings: &str) -> (Cluster, Option<MemoryLimit>) {
        let buffers_mib = self.memory_mib.map_or(16, |mib| mib / 4);
        let settings = format!(
            "bedload.shrunk = 1\nfsync = on\nshared_buffers = {buffers_mib}MB\nmax_wal_size = 2GB\n\
             effective_cache_size = {}MB\nmaintenance_work_mem = {}MB\nmax_parallel_maintenance_workers = 0\n\
             max_parallel_workers_per_gather = 0\n{settings}",
            4 * buffers_mib,
            buffers_mib / 2
        );
        let cluster = Cluster::start_with(&settings);
        let limit = self.memory_mib.map(|mib| MemoryLimit::of(&cluster, mib));
        (cluster, limit)
    }

    /// The target of make that measures as much, with a variable of its name.
    pub(crate) fn command(&self, target: &str) -> String {
        format!(
            "make {target} {}={},{},{}",
            target.to_uppercase().replace('-', "_"),
            self.rows,
            self.memory_mib.unwrap_or(0),
            self.time.as_secs()
        )
    }
}

/// A memory cgroup for the server, removed when dropped.
pub(crate) struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// Puts a running server into a cgroup, of either version, below the root's.
    fn of(cluster: &Cluster, mib: u64) -> Self {
        let name = format!("bedload-{}", std::process::id());
        let found = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ]
        .into_iter()
        .find_map(|(root, file)| {
            let path = PathBuf::from(root).join(&name);
            fs::create_dir(&path).ok()?;
            let limit = Self(path);
            fs::write(limit.0.join(file), (mib << 20).to_string()).ok()?;
            Some(limit)
        });
        let limit = found.expect("root, and a memory cgroup below /sys/fs/cgroup");
        for (at, process) in cluster.processes().into_iter().enumerate() {
            // A session may have ended meanwhile; those to come inherit the postmaster's group.
            let moved = fs::write(limit.0.join("cgroup.procs"), process);
            assert!(at > 0 || moved.is_ok(), "the postmaster: {moved:?}");
        }
        limit
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Processes that have ended are still counted for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The key of a row: any, and different for all (the finalizer of SplitMix64 is a bijection).
pub(crate) fn key_of(id: u64) -> i64 {
    let mixed = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> (64 - KEY_BITS)).cast_signed()
}

/// A table of a subject, and what was measured of it.
struct Subject {
    name: &'static str,
    client: Client,
    table: String,
    /// The row to come next.
    next: u64,
    /// The figure of each turn, by metric and unit.
    figures: Vec<(String, &'static str, Vec<f64>)>,
    /// How long each transaction took, in milliseconds, by kind.
    waits: Vec<(String, Vec<f64>)>,
}

impl Subject {
    fn create(cluster: &Cluster, name: &'static str) -> Self {
        let mut client = cluster.client();
        let table = format!("t_{}", name.replace(' ', "_"));
        execute(
            &mut client,
            &format!("CREATE TABLE {table} (k int8, id int8, filler char(10))"),
        );
        let mut subject = Self {
            name,
            client,
            table,
            next: 0,
            figures: Vec::new(),
            waits: Vec::new(),
        };
        if name == "bedload" {
            subject.create_index();
        }
        subject
    }

    fn has_index(&self) -> bool {
        self.name != "no index"
    }

    fn create_index(&mut self) {
        let Self { name, table, .. } = self;
        let create = format!("CREATE INDEX {table}_k ON {table} USING {name} (k)");
        execute(&mut self.client, &create);
    }

    fn add(&mut self, metric: &str, unit: &'static str, value: f64) {
        match self.figures.iter_mut().find(|(known, ..)| known == metric) {
            Some((_, _, values)) => values.push(value),
            None => self.figures.push((metric.to_owned(), unit, vec![value])),
        }
    }

    fn add_waits(&mut self, what: &str, waits: Vec<f64>) {
        match self.waits.iter_mut().find(|(known, _)| known == what) {
            Some((_, all)) => all.extend(waits),
            None => self.waits.push((what.to_owned(), waits)),
        }
    }

    /// Copies rows, the next ones.
    fn copy(&mut self, rows: u64) {
        let mut text = String::new();
        for id in self.next..self.next + rows {
            writeln!(text, "{}\t{id}\tabcdefghij", key_of(id)).expect("memory");
        }
        self.next += rows;
        let copy = format!("COPY {} FROM STDIN", self.table);
        let mut copy = self.client.copy_in(&copy).expect("a copy");
        copy.write_all(text.as_bytes()).expect("rows");
        copy.finish().expect("rows");
    }

    /// Waits until no merge is under way, so that none takes the time of the next subject.
    fn settle(&mut self) {
        if self.name == "bedload" {
            std::thread::sleep(WORKER_START);
            until(&mut self.client, MERGING, 0);
        }
    }

    /// Settles, and adds how long that took.
    fn settle_after(&mut self, what: &str) {
        let begin = Instant::now();
        self.settle();
        let metric = format!("{what}, merges after it");
        self.add(&metric, "ms", begin.elapsed().as_secs_f64() * 1e3);
    }

    /// Copies rows for some time.
    fn copy_for(&mut self, what: &str, rows_per_copy: u64, time: Duration) {
        let (begin, first) = (Instant::now(), self.next);
        let mut waits = Vec::new();
        while begin.elapsed() < time {
            let begin = Instant::now();
            self.copy(rows_per_copy);
            waits.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let rate = (self.next - first) as f64 / begin.elapsed().as_secs_f64();
        self.add(what, "rows/s", rate);
        self.add_waits(what, waits);
        self.settle_after(what);
    }

    /// Commits single rows for some time.
    fn commit_for(&mut self, time: Duration) {
        let insert = format!("INSERT INTO {} VALUES ($1, $2, 'abcdefghij')", self.table);
        let insert = self.client.prepare(&insert).expect("a statement");
        let mut waits = Vec::new();
        let begin = Instant::now();
        while begin.elapsed() < time {
            let begin = Instant::now();
            let row: [&(dyn ToSql + Sync); 2] = [&key_of(self.next), &self.next.cast_signed()];
            assert_eq!(self.client.execute(&insert, &row).expect("a row"), 1);
            waits.push(begin.elapsed().as_secs_f64() * 1e3);
            self.next += 1;
        }
        self.add_waits("commit of a row", waits);
        self.settle_after("commit of a row");
    }

    /// Checks that no row is lost, and stores what was measured.
    fn finish(mut self, results: &mut Results) {
        if self.name == "bedload" {
            check(&mut self.client, &format!("{}_k", self.table));
        }
        // By the index, each row would be a read of its own.
        execute(&mut self.client, "SET enable_seqscan = on");
        let found = number(&mut self.client, &format!("SELECT count(*) FROM {}", self.table));
        assert_eq!(found, self.next.cast_signed(), "rows by {}", self.name);
        let mut store = |metric: &str, unit, values| {
            let figure = Figure {
                subject: self.name,
                setting: "",
                metric,
                unit,
            };
            results.add(figure, values);
        };
        for (metric, unit, values) in self.figures {
            store(&metric, unit, values);
        }
        for (what, mut waits) in self.waits {
            waits.sort_by(f64::total_cmp);
            for (name, per_mille) in [("median", 500), ("p99", 990), ("p99.9", 999), ("longest", 1000)] {
                let last = waits.len() - 1;
                let at = (waits.len() * per_mille / 1000).min(last);
                if per_mille < 1000 && last - at < BEYOND_MIN {
                    continue;
                }
                store(&format!("{what}, {name}"), "ms", vec![waits[at]]);
            }
        }
    }
}

/// Fills the tables, a tenth of each in turn.
fn load(subjects: &mut [Subject], rows: u64) {
    for tenth in 0..10 {
        for subject in &mut *subjects {
            let (begin, end) = (Instant::now(), rows * (tenth + 1) / 10);
            while subject.next < end {
                subject.copy(LOAD_ROWS.min(end - subject.next));
            }
            subject.settle();
            let metric = match tenth {
                0 => "load, first tenth",
                9 => "load, last tenth",
                _ => continue,
            };
            // A B-tree is built when its table is full.
            if subject.name != "btree" {
                subject.add(
                    metric,
                    "rows/s",
                    (rows / 10) as f64 / begin.elapsed().as_secs_f64(),
                );
            }
        }
    }
}

/// Asks a query about random rows for some time; returns answers a second. `is_right` judges an
/// answer, a row's id and the first column, which every query must have.
fn ask_for(
    client: &mut Client,
    query: &str,
    time: Duration,
    mut row: impl FnMut() -> u64,
    width: Option<i64>,
    is_right: impl Fn(u64, &[i64]) -> bool,
) -> f64 {
    let query = client.prepare(query).expect("a query");
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < time {
        let id = row();
        let key = key_of(id);
        let end = width.map(|width| key.saturating_add(width));
        let parameters: Vec<&(dyn ToSql + Sync)> = match &end {
            Some(end) => vec![&key, end],
            None => vec![&key],
        };
        let rows = client.query(&query, &parameters).expect("an answer");
        let first: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        assert!(is_right(id, &first), "row {id}: {first:?}");
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

/// Puts this thread and a session's process on one processor, or frees them again. Apart, they
/// wait for each other's processor to wake up, which takes longer than a query and differs from
/// turn to turn.
fn pin(client: &mut Client, processors: &str) {
    let session = number(client, "SELECT pg_backend_pid()::int8").to_string();
    let thread = fs::read_link("/proc/thread-self").expect("Linux tells");
    let thread = thread.file_name().expect("a number").to_string_lossy();
    for task in [&*session, &*thread] {
        let set = Command::new("taskset")
            .args(["-pc", processors, task])
            .output()
            .expect("taskset, of util-linux");
        assert!(set.status.success(), "{set:?}");
    }
}

/// The reads of a turn.
fn reads(subject: &mut Subject, rows: u64, round: u32, time: Duration) {
    let mut rng = Rng::new(u64::from(round) + 1);
    let mut warm = Rng::new(0x5eed);
    let table = subject.table.clone();
    let points = format!("SELECT id FROM {table} WHERE k = $1");
    let is_point = |id: u64, found: &[i64]| found == [id.cast_signed()];
    let client = &mut subject.client;
    let any = ask_for(client, &points, time, || rng.below(rows), None, is_point);
    let mut few = 0.0;
    for _ in 0..2 {
        // The first time, they are fetched.
        let any_of_few = || warm.below(rows) % WARM_KEYS;
        few = ask_for(client, &points, time, any_of_few, None, is_point);
    }
    let [short, long] = [10_i64, 1000].map(|limit| {
        let query = format!("SELECT id FROM {table} WHERE k >= $1 ORDER BY k LIMIT {limit}");
        // Few keys are so near the greatest that fewer follow.
        let begins = |id: u64, found: &[i64]| found.first() == Some(&id.cast_signed());
        ask_for(client, &query, time, || rng.below(rows), None, begins)
    });
    let width = i64::try_from((1_u64 << KEY_BITS) / rows * 1000).expect("below 2^63");
    let count = format!("SELECT count(*) FROM {table} WHERE k BETWEEN $1 AND $2");
    let is_count = |_: u64, found: &[i64]| found.len() == 1 && found[0] > 0;
    let counts = ask_for(client, &count, time, || rng.below(rows), Some(width), is_count);
    for (metric, rate) in [
        ("one key, any", any),
        ("one key of a few", few),
        ("10 rows", short),
        ("1,000 rows", long),
        ("count of 1,000 keys", counts),
    ] {
        subject.add(metric, "queries/s", rate);
    }
}

/// Puts the subjects in a random order, so that none always follows the same one.
fn shuffle(subjects: &mut [Subject], rng: &mut Rng) {
    for end in (1..subjects.len()).rev() {
        let other = usize::try_from(rng.below(end as u64 + 1)).expect("few");
        subjects.swap(end, other);
    }
}

fn measure(cluster: &Cluster, scale: &Scale, results: &mut Results) {
    let mut subjects = SUBJECTS.map(|name| Subject::create(cluster, name));
    load(&mut subjects, scale.rows);
    for subject in &mut subjects {
        if subject.name == "btree" {
            subject.create_index();
        }
        let table = subject.table.clone();
        // So that the pages of the table say which rows all can see.
        execute(
            &mut subject.client,
            &format!("VACUUM (INDEX_CLEANUP off) {table}"),
        );
        execute(&mut subject.client, &format!("ANALYZE {table}"));
        if subject.has_index() {
            let size = format!("SELECT pg_relation_size('{table}_k')");
            let bytes = number(&mut subject.client, &size);
            subject.add("size of the index", "MiB", bytes as f64 / f64::from(1 << 20));
            execute(
                &mut subject.client,
                "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan",
            );
        }
    }
    execute(&mut subjects[0].client, "CHECKPOINT");
    let time = scale.time / ROUNDS;
    let is_measured = scale.memory_mib.is_some();
    let mut order = Rng::new(1);
    for round in 0..ROUNDS {
        shuffle(&mut subjects, &mut order);
        for subject in subjects.iter_mut().filter(|subject| subject.has_index()) {
            if is_measured {
                pin(&mut subject.client, "0");
            }
            reads(subject, scale.rows, round, time);
        }
    }
    if is_measured {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        for subject in &mut subjects {
            pin(&mut subject.client, &format!("0-{}", all - 1));
        }
    }
    let long = LOAD_ROWS.min(scale.rows);
    for (what, rows_per_copy) in [("COPY of 1,000 rows", 1000), ("COPY of 100,000 rows", long)] {
        for _ in 0..ROUNDS {
            shuffle(&mut subjects, &mut order);
            for subject in &mut subjects {
                subject.copy_for(what, rows_per_copy, time);
            }
        }
    }
    for _ in 0..ROUNDS {
        shuffle(&mut subjects, &mut order);
        for subject in &mut subjects {
            subject.commit_for(time);
        }
    }
    for subject in subjects {
        subject.finish(results);
    }
}

#[test]
fn what_outgrows_memory_goes_on() {
    let scale = Scale::from_environment("BEDLOAD_PG_BEYOND_MEMORY");
    let (cluster, limit) = scale.start("bedload.max_workers = 2");
    let command = scale.command("pg-beyond-memory");
    let mut results = Results::open("pg-beyond-memory", scale.rows, &command);
    measure(&cluster, &scale, &mut results);
    drop(cluster);
    drop(limit);
}
