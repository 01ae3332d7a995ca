//! Errors and timeouts while a latch, a batch, a pin or a right is held.

use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::SqlState;

use crate::cluster::Cluster;
use crate::contract::{declare, is_raised};
use crate::rows::{By, check, create_table, execute, number, same_rows};

/// A session that was released from its holds one time too often counts 2³² − 1 of them, and cannot
/// be cancelled.
fn can_be_cancelled(client: &mut Client) {
    assert_eq!(number(client, "SELECT harness_held_interrupts()"), 0);
    execute(client, "SET statement_timeout = '100ms'");
    let start = Instant::now();
    let error = client
        .batch_execute("SELECT pg_sleep(20)")
        .expect_err("it takes too long");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "it was cancelled, and did not end by itself"
    );
    execute(client, "RESET statement_timeout");
}

#[test]
fn a_session_is_whole_after_an_error_under_a_guard() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;",
    );
    can_be_cancelled(&mut client);
    for held in ["latch", "batch", "pin", "maintenance", "nothing"] {
        for sleeps in [false, true] {
            // Under a content lock the server does not let itself be cancelled: nobody sleeps
            // there.
            if sleeps && ["latch", "batch"].contains(&held) {
                continue;
            }
            execute(&mut client, "SET statement_timeout = '200ms'");
            let failed = client.batch_execute(&format!("SELECT harness_fail('t_k', '{held}', {sleeps})"));
            let error = failed.expect_err("it was asked to");
            if sleeps {
                assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{held}: {error:?}");
            }
            execute(&mut client, "RESET statement_timeout");
            can_be_cancelled(&mut client);
            assert_eq!(
                number(&mut client, "SELECT harness_can_maintain('t_k')::int::int8"),
                1,
                "the right to maintain went with the transaction"
            );
            same_rows(&mut client, "t", "k < 300");
        }
    }
    // In a subtransaction, whose abort releases as well.
    execute(
        &mut client,
        "DO $$ BEGIN
             FOR i IN 1..50 LOOP
                 BEGIN PERFORM harness_fail('t_k', 'latch', false); EXCEPTION WHEN OTHERS THEN END;
                 BEGIN PERFORM harness_fail('t_k', 'batch', false); EXCEPTION WHEN OTHERS THEN END;
             END LOOP;
             INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         END $$",
    );
    can_be_cancelled(&mut client);
    execute(&mut client, "VACUUM t");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "true");
}

/// A timeout meets a scan, a load and a flush at any point.
#[test]
fn a_timeout_at_any_point_does_no_harm() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let mut cancelled = 0;
    for milliseconds in 1..60 {
        execute(
            &mut client,
            &format!("SET statement_timeout = '{milliseconds}ms'"),
        );
        for statement in [
            "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 30000) i",
            "SELECT sum(id) FROM (SELECT id FROM t ORDER BY k) s",
            "REINDEX INDEX t_k",
        ] {
            cancelled += u32::from(client.batch_execute(statement).is_err());
        }
        // The shortest timeouts meet this statement too.
        while client.batch_execute("RESET statement_timeout").is_err() {}
    }
    assert!(cancelled > 20, "{cancelled} statements were cancelled");
    can_be_cancelled(&mut client);
    execute(&mut client, "VACUUM t");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000");
}

/// Each value of a list that the index does not have is a range in which nothing is found, so a
/// scan of many goes on for long without an entry.
#[test]
fn a_scan_of_a_long_list_can_be_cancelled() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, name text);
         INSERT INTO t SELECT 1000000 * i::int8, i, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_k ON t USING bedload (k); CREATE INDEX t_k_id ON t USING bedload (k, id)",
    );
    execute(&mut client, "VACUUM ANALYZE t");
    execute(&mut client, "SET plan_cache_mode = force_generic_plan");
    let absent: Vec<i64> = (0..3_000_000).map(|i| 1000 * i + 1).collect();
    let conditions = [("k = ANY ($1)", "t_k_id"), ("k = ANY ($1) AND id = 7", "t_k")];
    for (by, (condition, other)) in [By::Index, By::Bitmap]
        .map(|by| conditions.map(|of| (by, of)))
        .concat()
    {
        // The list is sorted first.
        for timeout in [Duration::from_millis(200), Duration::from_secs(4)] {
            execute(
                &mut client,
                &format!("{}; BEGIN; DROP INDEX {other}", by.settings()),
            );
            let query = client
                .prepare(&format!("SELECT count(name) FROM t WHERE {condition}"))
                .expect("a query");
            execute(
                &mut client,
                &format!("SET statement_timeout = {}", timeout.as_millis()),
            );
            let start = Instant::now();
            let error = client
                .query_one(&query, &[&absent])
                .expect_err("it takes too long");
            let taken = start.elapsed();
            println!("{by:?} {condition}: {taken:?}");
            assert_eq!(
                error.code(),
                Some(&SqlState::QUERY_CANCELED),
                "{by:?} {condition}: {error:?}"
            );
            assert!(
                taken < timeout + Duration::from_secs(5),
                "{by:?} {condition}: {taken:?}"
            );
            execute(&mut client, "ROLLBACK");
            can_be_cancelled(&mut client);
        }
    }
}

/// How often the session has looked for a cancelled statement, and the most pages of runs that it
/// has written between two looks.
fn interrupts(client: &mut Client) -> [i64; 2] {
    let counts = client.query_one("SELECT harness_interrupts()", &[]);
    let counts: Vec<i64> = counts.expect("counts").get(0);
    counts.try_into().expect("two counts")
}

/// Sorting under a locale's collation takes longer than anything else in a build, a commit and a
/// scan of pending entries.
#[test]
fn sorts_can_be_cancelled() {
    const ROWS: i64 = 120_000;
    let cluster = Cluster::start_with("maintenance_work_mem = '256MB'\nbedload.batch_entries = 10000000");
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        &format!(
            "CREATE TABLE s (k text COLLATE \"en-x-icu\"); CREATE TABLE t (LIKE s);
             INSERT INTO s SELECT md5(i::text) FROM generate_series(1, {ROWS}) i;
             CREATE INDEX t_k ON t USING bedload (k);
             SET enable_seqscan = off; SET enable_bitmapscan = off"
        ),
    );
    // Writing looks after each 1,024 entries. Sorting compares each of them more than twelve times,
    // and looks after each 4,096 comparisons.
    let (of_writing, of_sorting) = (ROWS / 1024, 12 * ROWS / 4096);
    let raise = format!("SELECT harness_raise_at({})", of_sorting / 2);
    let insert = "BEGIN; INSERT INTO t SELECT k FROM s";
    for (before, sorts, writes) in [
        ("BEGIN", "CREATE INDEX s_k ON s USING bedload (k)", of_writing),
        (insert, "SELECT count(*) FROM t WHERE k < '0'", 0),
        (insert, "COMMIT", of_writing),
    ] {
        execute(&mut client, before);
        let [looks, _] = interrupts(&mut client);
        execute(&mut client, sorts);
        let looks = interrupts(&mut client)[0] - looks;
        println!("{sorts}: {looks} looks");
        assert!(looks >= writes + of_sorting, "{sorts}: {looks} looks");
        execute(&mut client, "ROLLBACK; TRUNCATE t");
        // An error in the middle of it.
        execute(&mut client, &format!("{before}; {raise}"));
        assert!(is_raised(client.batch_execute(sorts)), "{sorts}");
        execute(&mut client, "ROLLBACK");
        can_be_cancelled(&mut client);
    }
    // Entries that were sorted in vain are still there when the transaction goes on.
    execute(&mut client, &format!("{insert}; SAVEPOINT a; {raise}"));
    let count = "SELECT count(*) FROM t WHERE k >= ''";
    assert!(is_raised(client.batch_execute(count)));
    execute(&mut client, "ROLLBACK TO a");
    assert_eq!(number(&mut client, count), ROWS);
    execute(&mut client, "COMMIT");
    assert_eq!(number(&mut client, count), ROWS);
    check(&mut client, "t_k");
}

/// A commit that merges whole leaves can be cancelled meanwhile.
#[test]
fn merges_of_a_commit_can_be_cancelled() {
    let cluster = Cluster::start_with("bedload.shrunk = 2");
    let mut client = cluster.client();
    declare(&mut client);
    // Entries are long, so that leaves have many pages.
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, more int8); CREATE INDEX t_k ON t USING bedload (k) INCLUDE (more)",
    );
    let insert = "INSERT INTO t SELECT (random() * 1e9)::int8, i, i FROM generate_series(1, 20000) i";
    for _ in 0..40 {
        execute(&mut client, insert);
    }
    let [_, most] = interrupts(&mut client);
    println!("{most} pages");
    // A merge goes on for 64 pages, half of them written.
    assert!(most <= 64, "{most} pages were written between two looks");
    let mut raised = 0;
    for point in (100..1500).step_by(100) {
        execute(
            &mut client,
            &format!("BEGIN; {insert}; SELECT harness_raise_at({point})"),
        );
        raised += u32::from(is_raised(client.batch_execute("COMMIT")));
        execute(&mut client, "SELECT harness_raise_at(0)");
    }
    println!("{raised} errors");
    assert!(raised > 5, "{raised} commits met an error");
    can_be_cancelled(&mut client);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 10000000");
    execute(&mut client, "VACUUM t");
    check(&mut client, "t_k");
}
