//! How many pages queries look at, as rows were loaded: nothing is merged for the occasion.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{execute, number, pages_of, same_rows};

const ROWS: i64 = 100_000;
const BATCH: i64 = 5_000;

/// A table whose random keys came in large transactions, and then some more in small ones. All rows
/// are visible to all.
fn load(client: &mut Client) {
    execute(
        client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k)",
    );
    let insert = |client: &mut Client, first: i64, count: i64| {
        execute(
            client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series({first}, {first} + {count} - 1) i"
            ),
        );
    };
    for first in (0..ROWS - 1000).step_by(usize::try_from(BATCH).expect("few")) {
        insert(client, first, BATCH.min(ROWS - 1000 - first));
    }
    for first in (ROWS - 1000..ROWS).step_by(20) {
        insert(client, first, 20);
    }
    execute(client, "VACUUM (INDEX_CLEANUP off) t");
    execute(client, "ANALYZE t");
    // Functions of the extension look at pages, too.
    execute(client, "SET enable_seqscan = off; SET enable_bitmapscan = off");
    assert!(number(client, "SELECT head_entries FROM bedload_stats('t_k')") > 0);
}

/// The most runs that a scan meets in a leaf's interval.
fn runs(client: &mut Client) -> i64 {
    let runs = number(
        client,
        "SELECT (sum(runs) FILTER (WHERE level > 1) + ceil(sum(runs) FILTER (WHERE level = 1) / sum(nodes) FILTER (WHERE level = 1)))::int8
         FROM bedload_stats('t_k'), unnest(runs_by_level, nodes_by_level) WITH ORDINALITY AS levels (runs, nodes, level)",
    );
    assert!(runs > 4, "{runs} runs are too few to tell");
    runs
}

/// Pages of a query that was asked before, with other keys, in the session.
fn pages_when_asked_again(client: &mut Client, query: &dyn Fn(i64) -> String) -> i64 {
    for key in 1..=8 {
        pages_of(client, &query(key * 11_000));
    }
    pages_of(client, &query(50_000))
}

#[test]
fn short_scans_look_at_a_page_of_each_run() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    load(&mut client);
    let runs = runs(&mut client);
    // The head page, the trunk, and a page or two more where a leaf of a run ends.
    let others = 6;
    let point = |key: i64| format!("SELECT id FROM t WHERE k = {key}");
    let pages = pages_when_asked_again(&mut client, &point);
    assert!(pages <= runs + others, "a point: {pages} pages, {runs} runs");
    let first = |key: i64| format!("SELECT k FROM t WHERE k >= {key} ORDER BY k LIMIT 1");
    let pages = pages_when_asked_again(&mut client, &first);
    assert!(pages <= runs + others, "LIMIT 1: {pages} pages, {runs} runs");
    // Each of the rows may lie in a page of its own.
    let ten = |key: i64| format!("SELECT id FROM t WHERE k >= {key} ORDER BY k LIMIT 10");
    let pages = pages_when_asked_again(&mut client, &ten);
    assert!(
        pages <= 2 * runs + 10 + others,
        "LIMIT 10: {pages} pages, {runs} runs"
    );
    let range = |key: i64| format!("SELECT id FROM t WHERE k BETWEEN {key} AND {key} + 9");
    let pages = pages_when_asked_again(&mut client, &range);
    assert!(pages <= runs + 10 + others, "10 rows: {pages} pages, {runs} runs");
    same_rows(&mut client, "t", "k BETWEEN 50000 AND 51000");
}

#[test]
fn counts_look_at_few_pages() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    load(&mut client);
    let runs = runs(&mut client);
    let count = |key: i64| format!("SELECT count(*) FROM t WHERE k BETWEEN {key} AND {key} + 999");
    let pages = pages_when_asked_again(&mut client, &count);
    // A page or two of each run, some of the larger ones, one of the visibility map.
    assert!(pages <= 2 * runs + 16, "{pages} pages, {runs} runs");
    let counted = number(&mut client, &count(50_000));
    let expected = "SELECT count(*) FROM (SELECT k + 0 AS k FROM t) s WHERE k BETWEEN 50000 AND 50999";
    assert_eq!(counted, number(&mut client, expected));
}

/// A scan without an end reads the entries of the head once, and then only if there are others.
#[test]
fn an_unchanged_head_is_remembered() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k)",
    );
    for first in (0..2000).step_by(20) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series({first}, {first} + 19) i"
            ),
        );
    }
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let full = number(&mut client, "SELECT head_pages::int8 FROM bedload_stats('t_k')");
    assert!(full > 3, "{full} pages of the head");
    let query = |key: i64| format!("SELECT k FROM t WHERE k >= {key} ORDER BY k LIMIT 1");
    let first = pages_of(&mut client, &query(1));
    assert!(first > full, "{first} pages");
    let again = pages_when_asked_again(&mut client, &query);
    assert!(again <= first - (full - 1), "{again} pages, and {first} at first");
    // Other sessions change it.
    let mut other = cluster.client();
    execute(&mut other, "INSERT INTO t VALUES (50001, -1)");
    execute(&mut other, "DELETE FROM t WHERE k = 7919");
    assert_eq!(number(&mut client, "SELECT id FROM t WHERE k = 50001"), -1);
    same_rows(&mut client, "t", "k >= 0");
    // Stretches of their own, in a page whose keys have the same ends afterwards.
    for id in [-2, -3, -4] {
        let batch = format!("INSERT INTO t SELECT i * 1000 - {id}, {id} FROM generate_series(0, 99) i");
        execute(&mut other, &batch);
        let count = format!("SELECT count(*) FROM t WHERE k >= 0 AND k % 1000 = -({id}) AND id = {id}");
        (0..6).for_each(|_| assert_eq!(number(&mut client, &count), 100));
    }
    execute(&mut other, "VACUUM t");
    same_rows(&mut client, "t", "k >= 0");
}

/// Within a transaction an index may begin again in the same file, with pages of the same names.
#[test]
fn a_file_that_begins_again_is_not_mistaken_for_what_it_was() {
    for level in ["replica", "minimal"] {
        let settings = format!("bedload.shrunk = 1\nwal_level = {level}\nmax_wal_senders = 0");
        let cluster = Cluster::start_with(&settings);
        let mut client = cluster.client();
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;
             CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k)",
        );
        for factor in [1, 3, 2] {
            execute(
                &mut client,
                &format!(
                    "TRUNCATE t; SET bedload.batch_entries = 19000;
                     INSERT INTO t SELECT i * {factor}, i FROM generate_series(1, 20000) i"
                ),
            );
            for id in [1, 5000, 9000, 13_000, 19_999] {
                for _ in 0..6 {
                    let query = format!("SELECT id FROM t WHERE k = {id} * {factor}");
                    assert_eq!(number(&mut client, &query), id);
                }
            }
            let count = "SELECT count(*) FROM t WHERE k > 0";
            assert_eq!(number(&mut client, count), 20_000);
        }
        execute(&mut client, "COMMIT");
        same_rows(&mut client, "t", "k BETWEEN 100 AND 300");
    }
}
