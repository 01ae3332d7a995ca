//! Mixed work on a table of steady size: rows come and the oldest go, others are updated, some are
//! looked up and counted, and VACUUM runs, all at once. Tiny as a test; `make pg-mixed` runs it
//! with `BEDLOAD_PG_MIXED=rows,MiB,seconds`, the server in a memory cgroup of so many MiB.
//!
//! A table has two indexes, of nearly ordered times and of random keys.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::beyond_memory::{Scale, key_of};
use crate::cluster::connect;
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute, number, same_rows};

const INDEXES: [&str; 2] = ["m_at", "m_k"];
/// Rows of a commit.
const COMMIT_ROWS: u64 = 1_000;
/// Distance of the times of successive rows, and by how much one may deviate.
const STEP: u64 = 10;
const DEVIATION_MAX: u64 = 500;
/// Parts of the run, each with its figures.
const PARTS: u32 = 10;
/// VACUUM pauses for its own time divided by this.
const VACUUM_PAUSE: u32 = 2;
/// An index of a tiny run may grow by half of this, whatever size it had: it has a few pages of
/// each kind, and so no steady size.
const FEW_PAGES: i64 = 400;

/// The time of a row. Rows come nearly in order of it.
fn time_of(id: u64) -> u64 {
    STEP * id + DEVIATION_MAX - key_of(id).unsigned_abs() % DEVIATION_MAX
}

/// Rows that exist: those from `first` to `end`, but for some that are being deleted.
struct Live {
    first: AtomicU64,
    end: AtomicU64,
    is_over: AtomicBool,
}

impl Live {
    /// A row that exists now and, as a rule, for a while.
    fn any(&self, rng: &mut Rng) -> u64 {
        let (first, end) = (
            self.first.load(Ordering::Acquire),
            self.end.load(Ordering::Acquire),
        );
        let margin = (end - first) / 5;
        first + margin + rng.below(end - first - margin)
    }

    /// Whether what was asked about a row before had to find it: its deletion has not begun.
    fn was_there(&self, id: u64) -> bool {
        self.first.load(Ordering::Acquire) <= id
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

fn copy(client: &mut Client, rows: std::ops::Range<u64>) {
    let mut text = String::new();
    for id in rows {
        writeln!(text, "{}\t{}\t{id}\tabcdefghij", time_of(id), key_of(id)).expect("memory");
    }
    let mut copy = client.copy_in("COPY m FROM STDIN").expect("a copy");
    copy.write_all(text.as_bytes()).expect("rows");
    copy.finish().expect("rows");
}

/// Appends rows; deletes the oldest whenever a tenth more than `rows` are there.
fn come_and_go(client: &mut Client, live: &Live, rows: u64) {
    while live.goes_on() {
        let end = live.end.load(Ordering::Relaxed);
        copy(client, end..end + COMMIT_ROWS);
        live.end.store(end + COMMIT_ROWS, Ordering::Release);
        let first = end + COMMIT_ROWS - rows;
        if first - live.first.load(Ordering::Relaxed) >= rows / 10 {
            live.first.store(first, Ordering::Release);
            execute(client, &format!("DELETE FROM m WHERE at < {}", STEP * first));
        }
    }
}

/// Updates rows that are found by their keys; those whose pages have no room get new entries.
fn update(client: &mut Client, live: &Live) -> u64 {
    let (mut rng, mut count) = (Rng::new(3), 0);
    let update = client
        .prepare("UPDATE m SET filler = 'klmnopqrst' WHERE k = $1")
        .expect("a statement");
    while live.goes_on() {
        let id = live.any(&mut rng);
        let updated = client.execute(&update, &[&key_of(id)]).expect("an update");
        if live.was_there(id) {
            assert_eq!(updated, 1, "row {id}");
            count += 1;
        }
    }
    count
}

/// Looks rows up by key, and counts those of short times; returns how often.
fn read(client: &mut Client, live: &Live) -> u64 {
    let (mut rng, mut count) = (Rng::new(5), 0);
    execute(client, "SET enable_seqscan = off");
    let point = client.prepare("SELECT id FROM m WHERE k = $1").expect("a query");
    let range = client
        .prepare("SELECT count(*) FROM m WHERE at >= $1 AND at < $2")
        .expect("a query");
    while live.goes_on() {
        let id = live.any(&mut rng);
        let found = client.query(&point, &[&key_of(id)]).expect("an answer");
        let found: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        if !live.was_there(id) {
            continue;
        }
        assert_eq!(found, [id.cast_signed()], "row {id} by its key");
        let (from, to) = (STEP * id, STEP * id + 10 * STEP);
        // Those that come later have later times.
        if to + DEVIATION_MAX < STEP * live.end.load(Ordering::Acquire) {
            let near = id.saturating_sub(DEVIATION_MAX / STEP)..id + 10;
            let expected = near.filter(|&id| (from..to).contains(&time_of(id))).count();
            let row = client.query_one(&range, &[&from.cast_signed(), &to.cast_signed()]);
            let found: i64 = row.expect("an answer").get(0);
            if live.was_there(id) {
                assert_eq!(found, expected.cast_signed() as i64, "rows from {from} to {to}");
            }
        }
        count += 2;
    }
    count
}

fn vacuum(client: &mut Client, live: &Live) {
    while live.goes_on() {
        let begin = Instant::now();
        execute(client, "VACUUM m");
        let pause = begin.elapsed() / VACUUM_PAUSE;
        thread::sleep(pause.max(Duration::from_millis(10)));
    }
}

/// Figures of one part of the run.
struct Part {
    /// Rows appended a second.
    rate: f64,
    /// Pages of each index at its end.
    pages: [i64; INDEXES.len()],
}

fn watch(client: &mut Client, live: &Live, time: Duration) -> Vec<Part> {
    let parts = (0..PARTS).map(|_| {
        let (begin, before) = (Instant::now(), live.end.load(Ordering::Relaxed));
        thread::sleep(time / PARTS);
        let came = live.end.load(Ordering::Relaxed) - before;
        Part {
            rate: came as f64 / begin.elapsed().as_secs_f64(),
            pages: INDEXES.map(|index| number(client, &format!("SELECT pg_relation_size('{index}') / 8192"))),
        }
    });
    parts.collect()
}

/// Adds the sizes of the indexes; asserts that they stay what they have become.
fn add_sizes(results: &mut Results, parts: &[Part]) {
    // The first parts are those in which the table and its indexes reach their size.
    let (settling, steady) = parts.split_at(parts.len() / 2);
    for (at, index) in INDEXES.iter().enumerate() {
        let most = |parts: &[Part]| parts.iter().map(|part| part.pages[at]).max();
        let (before, after) = (most(settling), most(steady));
        let all: Vec<i64> = parts.iter().map(|part| part.pages[at]).collect();
        assert!(
            after <= before.map(|before| before.max(FEW_PAGES) * 3 / 2),
            "pages of {index}, part by part: {all:?}"
        );
        for (half, pages) in [("first half", before), ("second half", after)] {
            let column = index.strip_prefix("m_").expect("its name");
            let metric = format!("index on {column}, largest in the {half}");
            let pages = pages.expect("some parts") as f64;
            add(results, &metric, "MiB", vec![pages / 128.0]);
        }
    }
}

#[test]
fn mixed_work_leaves_indexes_as_large_as_they_were() {
    let scale = Scale::from_environment("BEDLOAD_PG_MIXED");
    let (cluster, limit) = scale.start("bedload.max_workers = 1");
    let mut results = Results::open("pg-mixed", scale.rows, &scale.command("pg-mixed"));
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE m (at int8, k int8, id int8, filler char(10));
         CREATE INDEX m_at ON m USING bedload (at); CREATE INDEX m_k ON m USING bedload (k)",
    );
    let mut loaded = 0;
    while loaded < scale.rows {
        copy(&mut client, loaded..loaded + COMMIT_ROWS);
        loaded += COMMIT_ROWS;
    }
    let live = Live {
        first: AtomicU64::new(0),
        end: AtomicU64::new(loaded),
        is_over: AtomicBool::new(false),
    };
    // In less time, a slow machine deletes nothing.
    let time = scale.time.max(Duration::from_secs(5));
    let (parts, updates, queries) = thread::scope(|scope| {
        let (live, socket) = (&live, cluster.socket());
        let session = || connect(&socket).expect("a session");
        let [mut writer, mut updater, mut reader, mut cleaner] = std::array::from_fn(|_| session());
        scope.spawn(move || come_and_go(&mut writer, live, scale.rows));
        let updater = scope.spawn(move || update(&mut updater, live));
        let reader = scope.spawn(move || read(&mut reader, live));
        scope.spawn(move || vacuum(&mut cleaner, live));
        let parts = watch(&mut client, live, time);
        live.is_over.store(true, Ordering::Relaxed);
        (
            parts,
            updater.join().expect("updates"),
            reader.join().expect("queries"),
        )
    });

    for index in INDEXES {
        check(&mut client, index);
    }
    let count = number(&mut client, "SELECT count(*) FROM m");
    let width = (1_i64 << 62) / count * 1_000;
    assert!(same_rows(&mut client, "m", &format!("k BETWEEN 1000 AND {width}")) > 0);
    add_sizes(&mut results, &parts);
    let rates: Vec<f64> = parts.iter().map(|part| part.rate).collect();
    for (which, rate) in [("first", rates[0]), ("last", rates[rates.len() - 1])] {
        let metric = format!("rows appended, {which} tenth");
        add(&mut results, &metric, "rows/s", vec![rate]);
    }
    add(&mut results, "rows appended", "rows/s", rates);
    let per_second = |count: u64| vec![count as f64 / time.as_secs_f64()];
    add(&mut results, "rows updated", "rows/s", per_second(updates));
    add(&mut results, "queries", "queries/s", per_second(queries));
    drop(cluster);
    drop(limit);
}

fn add(results: &mut Results, metric: &str, unit: &str, values: Vec<f64>) {
    let figure = Figure {
        subject: "bedload",
        setting: "",
        metric,
        unit,
    };
    results.add(figure, values);
}
