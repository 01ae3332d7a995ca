//! The answers of `bedload_stats`.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{create_table, execute, number};

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
