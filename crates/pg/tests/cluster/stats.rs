//! The reports of the extension and the server about an index: sizes, work, scans, progress.

use std::collections::BTreeSet;
use std::thread;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::rows::{check, create_table, execute, number};

fn stat(client: &mut Client, column: &str) -> i64 {
    number(client, &format!("SELECT {column} FROM bedload_stats('t_k')"))
}

/// Entries are counted where they are: waiting, in the head, in the runs of a level.
#[test]
fn entries_are_counted_where_they_are() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 300) i",
    );
    assert_eq!(stat(&mut client, "head_entries"), 300);
    assert_eq!(stat(&mut client, "head_pages"), 2);
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(1, 50000) i",
    );
    // Above all that the tree has, which is nothing, they go to the last leaf.
    assert_eq!(stat(&mut client, "entries_by_level[1]"), 50_000);
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(50001, 70000) i",
    );
    assert_eq!(stat(&mut client, "entries_by_level[2]"), 20_000);
    assert_eq!(stat(&mut client, "runs_by_level[2]"), 1);
    execute(&mut client, "BEGIN; INSERT INTO t VALUES (1, 1), (2, 2)");
    assert_eq!(stat(&mut client, "pending"), 2);
    assert_eq!(stat(&mut client, "entries"), 70_302);
    execute(&mut client, "COMMIT; SELECT bedload_drain('t_k')");
    assert_eq!(stat(&mut client, "head_entries + pending"), 0);
    assert_eq!(stat(&mut client, "entries"), 70_302);
    assert_eq!(stat(&mut client, "entries_by_level[1]"), 70_302);
    assert_eq!(stat(&mut client, "runs_by_level[2]"), 0);
    assert!(stat(&mut client, "nodes_by_level[1]") >= 1);
    let (pages, bytes) = (stat(&mut client, "pages_by_level[1]"), stat(&mut client, "bytes"));
    assert!(pages > 20 && bytes > pages * 8192, "{pages} pages, {bytes} bytes");
    assert_eq!(number(&mut client, "SELECT pg_relation_size('t_k')"), bytes);
    assert_eq!(stat(&mut client, "bulk_deletions"), 0);
    execute(&mut client, "DELETE FROM t WHERE k < 1000");
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    assert_eq!(stat(&mut client, "bulk_deletions"), 1);
    let left = number(&mut client, "SELECT count(*) FROM t");
    assert_eq!(stat(&mut client, "entries"), left);
}

#[test]
fn monitors_may_ask_and_others_may_not() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE ROLE watcher; GRANT pg_monitor TO watcher; CREATE ROLE other",
    );
    execute(&mut client, "SET ROLE watcher");
    assert_eq!(stat(&mut client, "entries"), 0);
    let refused = client
        .query("SELECT bedload_info('t_k')", &[])
        .expect_err("refused");
    assert_eq!(refused.code().map(|code| code.code()), Some("42501"));
    execute(&mut client, "RESET ROLE; SET ROLE other");
    let refused = client
        .query("SELECT bedload_stats('t_k')", &[])
        .expect_err("refused");
    assert_eq!(refused.code().map(|code| code.code()), Some("42501"));
}

#[test]
fn the_indexes_of_partitions_are_asked() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE p (k int8) PARTITION BY RANGE (k);
         CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
         CREATE INDEX p_k ON p USING bedload (k); CREATE INDEX p_b ON p (k);
         INSERT INTO p SELECT generate_series(1, 500)",
    );
    for function in ["info", "stats", "work", "check", "drain", "sweep"] {
        let refused = client
            .query(&format!("SELECT bedload_{function}('p_k')"), &[])
            .expect_err(function);
        let message = refused
            .as_db_error()
            .map_or("", postgres::error::DbError::message);
        assert_eq!(message, "\"p_k\" is partitioned", "{function}");
        execute(&mut client, &format!("SELECT bedload_{function}('p_1_k_idx')"));
    }
    // Those who ask of all indexes are told that there is no order, and the table is not read.
    for index in ["p_k", "p_b"] {
        let statement = format!("SELECT count(rows) FROM bedload_order('{index}')");
        assert_eq!(number(&mut client, &statement), 0, "{index}");
    }
    let of_a_part = "SELECT rows FROM bedload_order('p_1_k_idx1')";
    assert_eq!(number(&mut client, of_a_part), 500);
}

/// The server's own view counts each scan once, whatever kind it is: by it people find indexes that
/// nobody uses.
#[test]
fn the_servers_statistics_count_scans() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    let mut counted = |settings: &str, query: &str| {
        execute(&mut client, settings);
        client.query(query, &[]).expect(query);
        execute(&mut client, "RESET ALL; SELECT pg_stat_force_next_flush()");
        number(
            &mut client,
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 't_k'",
        )
    };
    let (index, bitmap) = (
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
        "SET enable_seqscan = off; SET enable_indexscan = off",
    );
    assert_eq!(
        counted(index, "SELECT id FROM t WHERE k < 100 ORDER BY k DESC"),
        1
    );
    assert_eq!(counted(index, "SELECT k FROM t WHERE k = 7"), 2);
    assert_eq!(counted(bitmap, "SELECT id FROM t WHERE k = 7"), 3);
    let joined = "SELECT t.id FROM generate_series(1, 5) i, LATERAL (SELECT id FROM t WHERE k > i LIMIT 1) t";
    assert_eq!(counted(index, joined), 8);
}

/// Rows are counted once, though an index-only scan looks for them before the executor does.
#[test]
fn the_servers_statistics_count_rows_as_for_a_b_tree() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let mut fetched = |method: &str, statement: &str| {
        execute(
            &mut client,
            &format!(
                "CREATE TABLE t (k int8, id int4); CREATE INDEX t_k ON t USING {method} (k);
                 INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; DELETE FROM t WHERE k > 90"
            ),
        );
        execute(&mut client, statement);
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off",
        );
        assert_eq!(number(&mut client, "SELECT count(k) FROM t WHERE k > 0"), 90);
        execute(&mut client, "RESET ALL; SELECT pg_stat_force_next_flush()");
        let counted = number(
            &mut client,
            "SELECT idx_tup_fetch FROM pg_stat_user_indexes WHERE indexrelname = 't_k'",
        );
        execute(&mut client, "DROP TABLE t");
        counted
    };
    for (statement, expected) in [("", 90), ("VACUUM t", 0)] {
        let counts = ["btree", "bedload"].map(|method| fetched(method, statement));
        assert_eq!(counts, [expected; 2], "{statement}");
    }
}

/// Merges count what they write again, and lookups the errors of filters.
#[test]
fn work_is_counted() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    let work = |client: &mut Client, column: &str| {
        number(
            client,
            &format!("SELECT ({column})::int8 FROM bedload_work('t_k')"),
        )
    };
    assert_eq!(work(&mut client, "entries_published + entries_merged"), 0);
    assert_eq!(work(&mut client, "(write_amplification IS NULL)::int"), 1);
    for first in (0..100_000).step_by(5000) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series({first}, {first} + 4999) i"
            ),
        );
    }
    assert_eq!(work(&mut client, "entries_published"), 100_000);
    execute(&mut client, "SELECT bedload_drain('t_k')");
    let merged = work(&mut client, "entries_merged");
    assert!((50_000..2_000_000).contains(&merged), "{merged} entries");
    assert_eq!(
        work(&mut client, "100000 * write_amplification"),
        100_000 + merged,
        "each was written, and some again"
    );
    for first in (0..60_000).step_by(5000) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series({first}, {first} + 4999) i"
            ),
        );
    }
    let filters = work(&mut client, "filters");
    assert!(filters > 2, "{filters} filters");
    let wrong = work(&mut client, "1000000 * false_positives");
    assert!((1..20_000).contains(&wrong), "{wrong} of a million keys");
    // With fewer bits they err more often, and without bits there are none.
    execute(
        &mut client,
        "ALTER INDEX t_k SET (filter_bits = 2); REINDEX INDEX t_k",
    );
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(1, 5000) i",
    );
    assert!(work(&mut client, "filters") > 0);
    let more = work(&mut client, "1000000 * false_positives");
    assert!(more > 10 * wrong, "{more} and {wrong} of a million keys");
    execute(
        &mut client,
        "ALTER INDEX t_k SET (filter_bits = 0); REINDEX INDEX t_k",
    );
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(1, 5000) i",
    );
    assert_eq!(work(&mut client, "filters"), 0);
    assert_eq!(work(&mut client, "(false_positives IS NULL)::int"), 1);
    // It is kept, and the index stays what it is.
    let before = work(&mut client, "entries_published");
    cluster.stop();
    cluster.launch();
    let mut client = cluster.client();
    assert_eq!(work(&mut client, "entries_published"), before);
    check(&mut client, "t_k");
}

/// While it lasts, a build tells what it is at and how far it is.
#[test]
fn builds_tell_their_progress() {
    let cluster = Cluster::start();
    let (mut client, mut watcher) = (cluster.client(), cluster.client());
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); INSERT INTO t SELECT i * 7919 % 1000003, i FROM generate_series(1, 200000) i",
    );
    let mut phases = BTreeSet::new();
    let (mut most_blocks, mut most_entries) = (0, 0);
    // A phase may be over between two looks.
    for _ in 0..50 {
        if phases.len() == 2 && most_blocks > 0 && most_entries > 0 {
            break;
        }
        let socket = cluster.socket();
        let building = thread::spawn(move || {
            let mut builder = connect(&socket).expect("a session");
            execute(&mut builder, "CREATE INDEX t_k ON t USING bedload (k)");
        });
        while !building.is_finished() {
            let seen = watcher.query(
                "SELECT phase, blocks_done, blocks_total, tuples_done, tuples_total FROM pg_stat_progress_create_index",
                &[],
            );
            for row in seen.expect("the progress") {
                let phase: String = row.get(0);
                let [blocks, blocks_total, entries, entries_total] =
                    [1, 2, 3, 4].map(|at| row.get::<_, i64>(at));
                assert!(blocks <= blocks_total && entries <= entries_total, "{row:?}");
                if phase.starts_with("building index: scanning") {
                    most_blocks = most_blocks.max(blocks);
                }
                if phase.starts_with("building index: sorting") {
                    assert_eq!(entries_total, 200_000);
                    most_entries = most_entries.max(entries);
                }
                if phase.starts_with("building index: s") {
                    phases.insert(phase);
                }
            }
        }
        building.join().expect("it is built");
        execute(&mut client, "DROP INDEX t_k");
    }
    assert_eq!(
        phases.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "building index: scanning table",
            "building index: sorting and loading entries"
        ]
    );
}
