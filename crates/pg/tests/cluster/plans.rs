//! The planner's choices, beside those that it makes with B-trees on the same rows, and what it
//! thinks they cost.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{execute, execute_each, plan};

const METHODS: [&str; 2] = ["btree", "bedload"];

/// Queries on a table `{t}`, and a part of their plan with either index. Both plans are the same
/// throughout.
const ALIKE: [(&str, &str); 26] = [
    ("SELECT * FROM {t} WHERE k = 5000", "Index Scan using {t}_k"),
    ("SELECT * FROM {t} WHERE k = 5000::int4", "Index Scan using {t}_k"),
    ("SELECT * FROM {t} WHERE k IS NULL", "Index Scan using {t}_k"),
    (
        "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 5010",
        "Bitmap Index Scan on {t}_k",
    ),
    (
        "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 6000",
        "Bitmap Index Scan on {t}_k",
    ),
    (
        "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 6000 ORDER BY k",
        "Bitmap Index Scan on {t}_k",
    ),
    (
        "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 60000",
        "Seq Scan on {t}",
    ),
    (
        "SELECT * FROM {t} WHERE k > 5000 ORDER BY k LIMIT 1",
        "Index Scan using {t}_k",
    ),
    (
        "SELECT * FROM {t} WHERE k > 5000 ORDER BY k DESC LIMIT 10",
        "Index Scan Backward using {t}_k",
    ),
    ("SELECT * FROM {t} ORDER BY k", "Index Scan using {t}_k"),
    ("SELECT * FROM {t} ORDER BY at", "Index Scan using {t}_at"),
    ("SELECT max(k) FROM {t}", "Index Only Scan Backward using {t}_k"),
    (
        "SELECT count(*) FROM {t} WHERE k BETWEEN 5000 AND 6000",
        "Index Only Scan using {t}_k",
    ),
    (
        "SELECT count(*) FROM {t} WHERE k BETWEEN 5000 AND 60000",
        "Index Only Scan using {t}_k",
    ),
    ("SELECT * FROM few JOIN {t} USING (k)", "Nested Loop"),
    (
        "SELECT * FROM few JOIN {t} ON {t}.k BETWEEN few.k AND few.k + 5",
        "Nested Loop",
    ),
    ("SELECT * FROM many JOIN {t} USING (k)", "Hash Join"),
    (
        "SELECT * FROM {t} a JOIN {t} b ON a.k = b.at ORDER BY a.k LIMIT 10",
        "Merge Join",
    ),
    ("SELECT * FROM {t} WHERE k = 5000 OR at = 6000", "BitmapOr"),
    (
        "SELECT * FROM {t} WHERE k IN (5000, 6000, 7000)",
        "Bitmap Index Scan on {t}_k",
    ),
    (
        "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 6000 AND at BETWEEN 1000 AND 3000",
        "Index Scan using {t}_at",
    ),
    (
        "SELECT * FROM {t} WHERE at BETWEEN 1000 AND 3000",
        "Index Scan using {t}_at",
    ),
    (
        "SELECT * FROM {t} WHERE at BETWEEN 1000 AND 60000",
        "Index Scan using {t}_at",
    ),
    (
        "SELECT * FROM {t} WHERE part < 10",
        "Bitmap Index Scan on {t}_part",
    ),
    (
        "SELECT * FROM {t} WHERE part = 3",
        "Bitmap Index Scan on {t}_part",
    ),
    ("SELECT * FROM {t} WHERE part = 300", "Seq Scan on {t}"),
];

/// Two tables with the same rows: random keys `k`, times `at` that ascend, both indexed; loaded by
/// thousands.
fn load(client: &mut Client) {
    // The statistics are of all rows, not of a sample.
    execute(client, "SET default_statistics_target = 1000");
    for method in METHODS {
        execute(
            client,
            &format!(
                "CREATE TABLE {method} (k int8, at int8, part int4, note char(60));
                 CREATE INDEX {method}_k ON {method} USING {method} (k);
                 CREATE INDEX {method}_at ON {method} USING {method} (at);
                 CREATE INDEX {method}_part ON {method} USING {method} (part) WHERE part < 10"
            ),
        );
        for first in (0..100_000).step_by(1000) {
            execute(
                client,
                &format!(
                    "INSERT INTO {method} SELECT nullif(i * 7919 % 100003, 0), i, i % 1000, 'note'
                     FROM generate_series({first}, {first} + 999) i"
                ),
            );
        }
        // Runs stay as they were loaded.
        execute(client, &format!("VACUUM (ANALYZE, INDEX_CLEANUP off) {method}"));
    }
    execute_each(
        client,
        &[
            "CREATE TABLE few AS SELECT i * 4001 AS k FROM generate_series(1, 20) i",
            "CREATE TABLE many AS SELECT i AS k FROM generate_series(1, 50000) i",
            "ANALYZE few, many",
        ],
    );
}

fn plan_of(client: &mut Client, query: &str, method: &str) -> String {
    let query = query.replace("{t}", method);
    let rows = client
        .query(&format!("EXPLAIN (COSTS OFF) {query}"), &[])
        .expect("a plan");
    let lines = rows
        .iter()
        .map(|row| row.get::<_, String>(0).replace(method, "{t}") + "\n");
    lines.collect()
}

/// The planner's costs of an index scan: before its first row, and in all.
#[derive(Debug)]
struct Cost {
    startup: f64,
    total: f64,
}

fn cost(client: &mut Client, query: &str, method: &str) -> Cost {
    let plan = plan(client, &query.replace("{t}", method));
    let scan = plan.lines().find(|line| line.contains("Index")).expect(&plan);
    let costs = scan.split("cost=").nth(1).and_then(|rest| rest.split(' ').next());
    let (startup, total) = costs.and_then(|costs| costs.split_once("..")).expect(&plan);
    Cost {
        startup: startup.parse().expect("a number"),
        total: total.parse().expect("a number"),
    }
}

#[test]
fn plans_are_those_with_a_b_tree() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    load(&mut client);
    for (query, part) in ALIKE {
        let [btree, bedload] = METHODS.map(|method| plan_of(&mut client, query, method));
        assert!(btree.contains(part), "{query}:\n{btree}");
        assert_eq!(btree, bedload, "{query}");
    }
    // An index of a third of the pages is worth reading instead of the table.
    let [btree, bedload] = METHODS.map(|method| plan_of(&mut client, "SELECT count(*) FROM {t}", method));
    assert!(btree.contains("Seq Scan"), "{btree}");
    assert!(bedload.contains("Index Only Scan using {t}_at"), "{bedload}");
}

const ONE_KEY: &str = "SELECT * FROM {t} WHERE k = 5000";
const FEW_ROWS: &str = "SELECT * FROM {t} WHERE k BETWEEN 5000 AND 5005";
const MANY_ROWS: &str = "SELECT k FROM {t} WHERE k BETWEEN 5000 AND 80000";

/// A scan pays for each run that it meets; one of a single key less, as filters rule most of them
/// out.
#[test]
fn costs_follow_the_runs_of_an_index() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    load(&mut client);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let costs = |client: &mut Client, method: &str| {
        [ONE_KEY, FEW_ROWS, MANY_ROWS].map(|query| cost(client, query, method))
    };
    let btree = costs(&mut client, "btree");
    let loaded = costs(&mut client, "bedload");
    let found = format!("{btree:?} {loaded:?}");
    assert!(
        loaded[0].startup > btree[0].startup && loaded[1].startup > loaded[0].startup,
        "{found}"
    );
    // The pages of entries are fewer.
    assert!(loaded[0].total < 1.5 * btree[0].total, "{found}");
    assert!(loaded[2].total < 0.8 * btree[2].total, "{found}");
    // Beyond the memory that is taken to cache the index, a range reads a page of each run.
    execute(&mut client, "SET effective_cache_size = '8kB'");
    let uncached = costs(&mut client, "bedload");
    assert!(
        uncached[1].startup > loaded[1].startup + 4.0,
        "{found} {uncached:?}"
    );
    // So does a lookup where runs have no filters.
    execute(
        &mut client,
        "CREATE TABLE unfiltered (k int8);
         CREATE INDEX unfiltered_k ON unfiltered USING bedload (k) WITH (filter_bits = 0)",
    );
    for first in (0..100_000).step_by(1000) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO unfiltered SELECT i * 7919 % 100003 FROM generate_series({first}, {first} + 999) i"
            ),
        );
    }
    execute(&mut client, "ANALYZE unfiltered");
    let uncached = cost(&mut client, ONE_KEY, "unfiltered");
    execute(&mut client, "RESET effective_cache_size");
    let cached = cost(&mut client, ONE_KEY, "unfiltered");
    assert!(uncached.startup > cached.startup + 4.0, "{cached:?} {uncached:?}");
    execute(&mut client, "SELECT bedload_drain('bedload_k')");
    let drained = costs(&mut client, "bedload");
    assert!(
        drained[0].startup < loaded[0].startup && drained[1].startup < loaded[1].startup,
        "{found} {drained:?}"
    );
}

/// A scan of a list pays for a descent for each of its values.
#[test]
fn costs_follow_the_values_of_a_list() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    load(&mut client);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let list = |len: u32| {
        let values: Vec<String> = (1..=len).map(|i| (i * 97 % 100_003).to_string()).collect();
        format!("ANY ('{{{}}}')", values.join(", "))
    };
    let mut by_k = |len| {
        cost(
            &mut client,
            &format!("SELECT k FROM {{t}} WHERE k = {}", list(len)),
            "bedload",
        )
    };
    let [one, thousand, two_thousand] = [1, 1000, 2000].map(&mut by_k);
    let found = format!("{one:?} {thousand:?} {two_thousand:?}");
    assert!(thousand.startup < 1.1 * one.startup, "{found}");
    let each = (two_thousand.total - thousand.total) / 1000.0;
    // A descent reads the head only once.
    assert!(each > 0.3 * one.startup && each < 1.2 * one.startup, "{found}");
}
