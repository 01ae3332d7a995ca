//! The server's own tests, run twice: as they are, and with their B-trees switched to bedload.
//! Their answers are the same. A standby replays the latter, and compares each page with the
//! primary's.
//!
//! `BEDLOAD_PG_SOURCE` names the server's source, which `scripts/pg-source` fetches: `make pg-test`
//! runs a slice of the suites, `make pg-soak` all of them (`BEDLOAD_PG_SUITES=all`).

mod answers;
mod replayed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::cluster::Cluster;
use crate::installation::{pg_config, run};
use crate::rows::{check, execute, number};

/// One of the server's suites.
struct Suite {
    /// Its folder in `src/test`, and its program.
    folder: &'static str,
    program: &'static str,
    schedule: &'static str,
    /// Files of a short run.
    slice: &'static [&'static str],
    /// The least number of indexes that must be switched, in a short run and in a whole one.
    switched_min: [i64; 2],
}

const REGRESS: Suite = Suite {
    folder: "regress",
    program: "pg_regress",
    schedule: "parallel_schedule",
    slice: &[
        "test_setup",
        "copy",
        "copyselect",
        "insert",
        "insert_conflict",
        "create_function_c",
        "create_misc",
        "create_table",
        "create_type",
        "create_index",
        "index_including",
        "create_aggregate",
        "triggers",
        "select",
        "inherit",
        "vacuum",
        "select_distinct",
        "subselect",
        "union",
        "case",
        "join",
        "aggregates",
        "transactions",
        "portals",
        "btree_index",
        "update",
        "delete",
        "prepared_xacts",
        "matview",
        "tablesample",
        "generated",
        "join_hash",
        "tidscan",
        "incremental_sort",
        "stats_ext",
        "select_parallel",
        "portals_p2",
        "cluster",
        "bitmapops",
        "combocid",
        "equivclass",
        "plancache",
        "temp",
        "domain",
        "truncate",
        "alter_table",
        "rowtypes",
        "returning",
        "partition_join",
        "partition_prune",
        "indexing",
        "tuplesort",
        "memoize",
        "stats",
        "fast_default",
    ],
    switched_min: [200, 300],
};

const ISOLATION: Suite = Suite {
    folder: "isolation",
    program: "pg_isolation_regress",
    schedule: "isolation_schedule",
    slice: &[
        "two-ids",
        "index-only-scan",
        "partial-index",
        "horizons",
        "drop-index-concurrently-1",
        "multiple-cic",
        "reindex-concurrently",
        "vacuum-no-cleanup-lock",
        "insert-conflict-do-update",
    ],
    switched_min: [20, 40],
};

/// Settings for the suites, as their own server has them where they depend on it.
const SETTINGS: &str = "
    allow_in_place_tablespaces = on
    autovacuum = on
    max_connections = 60
    max_prepared_transactions = 20
    shared_buffers = 64MB
";

const DATABASE: &str = "regression";

/// The longest that a standby may be behind when a suite has ended.
const REPLAY_MAX: Duration = Duration::from_secs(300);

/// The settings that `pg_regress` gives a database that it makes itself.
const DATABASE_SETTINGS: [&str; 6] = [
    "lc_messages = 'C'",
    "lc_monetary = 'C'",
    "lc_numeric = 'C'",
    "lc_time = 'C'",
    "bytea_output = 'hex'",
    "timezone_abbreviations = 'Default'",
];

impl Suite {
    fn is_whole() -> bool {
        std::env::var("BEDLOAD_PG_SUITES").is_ok_and(|which| which == "all")
    }

    /// The tests to run, in groups that may run at once.
    fn schedule(&self, folder: &Path) -> String {
        let path = folder.join(self.schedule);
        let schedule = fs::read_to_string(path).expect("a schedule");
        if Self::is_whole() {
            return schedule;
        }
        let groups = schedule.lines().filter_map(|line| line.strip_prefix("test: "));
        let groups = groups.map(|group| {
            let chosen = group.split_whitespace().filter(|file| self.slice.contains(file));
            chosen.collect::<Vec<_>>().join(" ")
        });
        let groups = groups.filter(|group| !group.is_empty());
        groups.map(|group| format!("test: {group}\n")).collect()
    }

    /// Runs the suite, and leaves its results in a folder of the cluster, which it returns.
    fn run(&self, cluster: &Cluster, source: &Path, switches: bool) -> PathBuf {
        let mut client = cluster.client();
        execute(
            &mut client,
            &format!("CREATE DATABASE {DATABASE} TEMPLATE template0"),
        );
        for setting in DATABASE_SETTINGS {
            execute(&mut client, &format!("ALTER DATABASE {DATABASE} SET {setting}"));
        }
        let mut client = in_database(cluster);
        execute(&mut client, include_str!("switching.sql"));
        if !switches {
            execute(&mut client, "DROP EVENT TRIGGER switching");
        }
        drop(client);
        // Where the cluster's owner may read it, and write.
        let folder = cluster.socket().join(self.folder);
        let from = source.join("src/test").join(self.folder);
        run(Command::new("cp").arg("-R").arg(from).arg(&folder));
        cluster.give(&folder);
        let schedule = folder.join("schedule");
        fs::write(&schedule, self.schedule(&folder)).expect("written");
        let programs = pg_config("--pgxs");
        let programs = programs.ancestors().nth(2).expect("it is deep");
        let mut regress = cluster.owned(&programs.join("test").join(self.folder).join(self.program));
        regress.args([
            "--use-existing",
            "--user=postgres",
            "--port=5432",
            "--max-concurrent-tests=20",
        ]);
        regress.arg(format!("--dbname={DATABASE}"));
        for (option, path) in [
            ("--bindir", &pg_config("--bindir")),
            ("--dlpath", &source.join("src/test/regress")),
            ("--host", &cluster.socket()),
            ("--inputdir", &folder),
            ("--outputdir", &folder),
            ("--schedule", &schedule),
        ] {
            regress.arg(option).arg(path);
        }
        // It compares with its own expectations, which another minor version of the server need not
        // meet.
        let output = regress
            .output()
            .expect("a program of the server's development package");
        let results = folder.join("results");
        assert!(
            output.status.code().is_some_and(|code| code < 2) && results.exists(),
            "{regress:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        results
    }

    /// Runs the suite as it is and switched, at once, and compares.
    fn compare(&self) {
        let source = std::env::var("BEDLOAD_PG_SOURCE");
        let source = PathBuf::from(source.expect("BEDLOAD_PG_SOURCE, which scripts/pg-source tells"));
        let plain = Cluster::start_with(SETTINGS);
        let switched = Cluster::start_with(&format!("{SETTINGS}wal_consistency_checking = 'all'"));
        let standby = switched.standby_with(SETTINGS);
        let (expected, found) = thread::scope(|scope| {
            let expected = scope.spawn(|| self.run(&plain, &source, false));
            let found = self.run(&switched, &source, true);
            (expected.join().expect("it ran"), found)
        });
        let files = answers::same(&expected, &found);
        let mut client = in_database(&switched);
        let count = |client: &mut Client, table: &str| {
            number(client, &format!("SELECT count(*) FROM switching.{table}"))
        };
        let (switched, kept) = (count(&mut client, "switched"), count(&mut client, "kept"));
        let checked = check_all(&mut client);
        wait_for(&mut client);
        let answered = replayed::same_answers(&mut in_database(&standby));
        println!(
            "{}: {files} files have the same answers; {switched} indexes were switched and {kept} kept, {checked} of them \
             are left and sound, and a standby answers by {answered}",
            self.folder
        );
        assert!(checked == 0 || answered > 0, "{checked} indexes are left");
        let switched_min = self.switched_min[usize::from(Self::is_whole())];
        assert!(switched >= switched_min, "{switched} indexes for {switched_min}");
    }
}

fn in_database(cluster: &Cluster) -> Client {
    let host = cluster.socket();
    let parameters = format!("host={} user=postgres dbname={DATABASE}", host.display());
    Client::connect(&parameters, NoTls).expect("a session")
}

/// Waits until the standby has replayed everything; it ends if a page is not the primary's.
fn wait_for(primary: &mut Client) {
    let here: String = primary
        .query_one("SELECT pg_current_wal_lsn()::text", &[])
        .expect("a position")
        .get(0);
    let deadline = Instant::now() + REPLAY_MAX;
    let replayed = format!("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= '{here}'");
    while number(primary, &replayed) == 0 {
        assert!(
            Instant::now() < deadline,
            "the standby does not replay what the suite has written"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Checks all indexes that a suite has left; returns how many there are.
fn check_all(client: &mut Client) -> usize {
    let indexes = client.query(
        "SELECT pg_class.oid::regclass::text FROM pg_class JOIN pg_am ON pg_am.oid = relam
         JOIN pg_index ON indexrelid = pg_class.oid WHERE amname = 'bedload' AND relkind = 'i' AND indisvalid",
        &[],
    );
    let indexes = indexes.expect("indexes");
    for index in &indexes {
        check(client, index.get(0));
    }
    indexes.len()
}

#[test]
fn the_servers_regression_tests_have_the_same_answers() {
    REGRESS.compare();
}

#[test]
fn the_servers_isolation_tests_have_the_same_answers() {
    ISOLATION.compare();
}
