//! The background worker: merges that commits have made due are done by it, or by commits where
//! there is none.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::cluster::{Cluster, connect, connect_to};
use crate::contract::declare;
use crate::rows::{check, create_table, execute, number, same_rows, until, until_one_waits};

/// Has workers pause before they retire pages of runs while a session holds advisory lock 7.
/// Sessions retire none here, as each load is longer than what goes to the head.
const PAUSES: &str = "bedload.max_workers = 2\nbedload.pause_before_retirement = 7";

const WORKERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'bedload worker'";

const WAITING_WORKERS: &str = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                               WHERE NOT granted AND backend_type = 'bedload worker'";

/// Inserts 500 random rows in a transaction.
fn insert(client: &mut Client, table: &str) {
    let rows = "SELECT (random() * 1e9)::int8, i FROM generate_series(1, 500) i";
    execute(client, &format!("INSERT INTO {table} {rows}"));
}

/// Entries that merges have written in an index, and those that this session has.
fn merged(client: &mut Client, index: &str) -> (i64, i64) {
    let all = format!("SELECT entries_merged FROM bedload_work('{index}')");
    (number(client, &all), number(client, "SELECT (harness_work())[5]"))
}

/// Has a worker of the index of a table pause, with a lock on the index; returns the session that
/// holds it up.
fn with_paused_worker(cluster: &Cluster, table: &str) -> Client {
    let mut holder = cluster.client();
    pause_worker(&mut cluster.client(), &mut holder, table);
    holder
}

/// Has a worker of the index of a table pause, whom one session calls and another one holds up.
fn pause_worker(client: &mut Client, holder: &mut Client, table: &str) {
    execute(holder, "SELECT pg_advisory_lock(7)");
    execute(client, "SET bedload.pause_before_naming = 0");
    // A session whose commits do the merges would pause, too.
    execute(client, "SET statement_timeout = '60s'");
    // The root has room for what comes until the worker pauses.
    for _ in 0..8 {
        insert(client, table);
    }
    until(client, WAITING_WORKERS, 1);
}

/// A server with a table whose worker pauses, a session, and the one that holds the worker up.
fn paused(settings: &str) -> (Cluster, Client, Client) {
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let holder = with_paused_worker(&cluster, "t");
    (cluster, client, holder)
}

#[test]
fn a_worker_does_what_commits_have_made_due() {
    let cluster = Cluster::start_with("bedload.max_workers = 2");
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    for _ in 0..100 {
        insert(&mut client, "t");
    }
    until(&mut client, WORKERS, 0);
    let (all, own) = merged(&mut client, "t_k");
    println!("{all} entries were merged, {own} of them by the session");
    assert!(own < all / 2, "{own} of {all} entries were merged by the session");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
    assert_eq!(cluster.log().matches("ERROR").count(), 0, "{}", cluster.log());
}

/// Commits do all merges where there are to be no workers, where the server has no process for one,
/// and for indexes that others cannot see.
#[test]
fn commits_do_the_work_where_no_worker_can() {
    let no_process = "bedload.max_workers = 2\nmax_worker_processes = 0\nmax_logical_replication_workers = 0";
    for (settings, create) in [
        ("bedload.max_workers = 0", "CREATE TABLE"),
        (no_process, "CREATE TABLE"),
        ("bedload.max_workers = 2", "CREATE TEMPORARY TABLE"),
        ("bedload.max_workers = 2", "BEGIN; CREATE TABLE"),
    ] {
        let cluster = Cluster::start_with(settings);
        let mut client = cluster.client();
        declare(&mut client);
        execute(
            &mut client,
            &format!("{create} t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k)"),
        );
        // Within a transaction, each of them is published by itself.
        execute(&mut client, "SET bedload.batch_entries = 500");
        for _ in 0..60 {
            insert(&mut client, "t");
        }
        let (all, own) = merged(&mut client, "t_k");
        assert!(all > 0 && own == all, "{settings}, {create}: {own} of {all}");
        assert_eq!(number(&mut client, WORKERS), 0, "{settings}, {create}");
        same_rows(&mut client, "t", "k < 100000000");
        assert_eq!(cluster.log().matches("ERROR").count(), 0, "{}", cluster.log());
    }
}

/// Commits of one row and of several go on while a worker is in the middle of a merge, as long as
/// the root has room for them.
#[test]
fn commits_wait_for_no_merge() {
    let cluster = Cluster::start_with("bedload.max_workers = 2\nbedload.pause_before_naming = 7");
    let (mut client, mut holder) = (cluster.client(), cluster.client());
    create_table(&mut client);
    execute(&mut holder, "SELECT pg_advisory_lock(7)");
    let socket = cluster.socket();
    let commits = thread::spawn(move || {
        let mut client = connect(&socket).expect("a session");
        execute(&mut client, "SET bedload.pause_before_naming = 0");
        (0..8).for_each(|_| insert(&mut client, "t"));
        until(&mut client, WAITING_WORKERS, 1);
        for id in 0..20 {
            execute(&mut client, &format!("INSERT INTO t VALUES ({id}, {id})"));
        }
        insert(&mut client, "t");
    });
    // No timeout of the server is for commits.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !commits.is_finished() {
        assert!(Instant::now() < deadline, "a commit waits");
        thread::sleep(Duration::from_millis(2));
    }
    commits.join().expect("it succeeds");
    assert_eq!(number(&mut client, WAITING_WORKERS), 1, "the merge has not ended");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 9 * 500 + 20);
    same_rows(&mut client, "t", "k < 100000000");
    drop(holder);
    until(&mut client, WORKERS, 0);
    check(&mut client, "t_k");
}

/// A server has no more workers than it is to have.
#[test]
fn workers_are_counted() {
    let settings = format!("{PAUSES}\nbedload.max_workers = 1\nlog_min_messages = debug1");
    let cluster = Cluster::start_with(&settings);
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE TABLE u (k int8, id int8); CREATE INDEX u_k ON u USING bedload (k)",
    );
    let holder = with_paused_worker(&cluster, "t");
    execute(&mut client, "SET bedload.pause_before_retirement = 0");
    for _ in 0..60 {
        insert(&mut client, "u");
    }
    let (all, own) = merged(&mut client, "u_k");
    assert!(all > 0 && own == all, "{own} of {all}");
    // The commits saw that a process would have been for nothing.
    let mut started = |index: &str| {
        let id = number(&mut client, &format!("SELECT '{index}'::regclass::oid::int8"));
        let line = format!("starting background worker process \"bedload worker for index {id}\"");
        cluster.log().matches(&line).count()
    };
    assert_eq!((started("t_k"), started("u_k")), (1, 0));
    drop(holder);
    until(&mut client, WORKERS, 0);
    check(&mut client, "t_k");
    check(&mut client, "u_k");
}

/// Statements that need an index for themselves wait for a merge at most.
#[test]
fn a_worker_gives_way() {
    let cluster = Cluster::start_with(PAUSES);
    let mut client = cluster.client();
    for statement in [
        "DROP TABLE t",
        "DROP INDEX t_k; DROP TABLE t",
        "REINDEX INDEX t_k; DROP TABLE t",
        "TRUNCATE t; DROP TABLE t",
    ] {
        create_table(&mut client);
        let holder = with_paused_worker(&cluster, "t");
        let socket = cluster.socket();
        let other = thread::spawn(move || execute(&mut connect(&socket).expect("a session"), statement));
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'";
        until(&mut client, waits, 1);
        assert!(!other.is_finished());
        drop(holder);
        other.join().expect("it succeeds");
        until(&mut client, WORKERS, 0);
    }
    let log = cluster.log();
    assert_eq!(log.matches("ERROR").count(), 0, "{log}");
}

/// Extensions that rewrite a table lock it alone, not its indexes.
#[test]
fn who_locks_the_table_waits_for_a_merge() {
    let (_cluster, mut client, holder) = paused(PAUSES);
    let locks = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                 WHERE backend_type = 'bedload worker' AND granted
                 AND mode = 'RowExclusiveLock' AND relation = 't'::regclass";
    assert_eq!(number(&mut client, locks), 1);
    drop(holder);
    execute(&mut client, "BEGIN; LOCK TABLE t; COMMIT");
    check(&mut client, "t_k");
}

/// A worker ends when its database is to be dropped or copied, for which the server waits some
/// seconds, though it would stay for longer.
#[test]
fn a_worker_leaves_a_database_that_is_wanted() {
    let cluster = Cluster::start_with("bedload.max_workers = 2\nbedload.worker_lingers = 60");
    let mut client = cluster.client();
    for statement in [
        "DROP DATABASE d",
        "DROP DATABASE d WITH (FORCE)",
        "CREATE DATABASE e TEMPLATE d; DROP DATABASE d",
    ] {
        execute(&mut client, "CREATE DATABASE d");
        let mut other = connect_to(&cluster.socket(), "d").expect("a session");
        execute(&mut other, "CREATE EXTENSION bedload");
        create_table(&mut other);
        while number(&mut other, WORKERS) == 0 {
            insert(&mut other, "t");
        }
        drop(other);
        for statement in statement.split("; ") {
            execute(&mut client, statement);
        }
        assert_eq!(number(&mut client, WORKERS), 0);
    }
    let log = cluster.log();
    assert_eq!(log.matches("ERROR").count(), 0, "{log}");
}

/// A worker has none of the timeouts that its database has for sessions.
#[test]
fn a_worker_has_no_timeouts() {
    let cluster = Cluster::start_with(PAUSES);
    let (mut client, mut holder) = (cluster.client(), cluster.client());
    declare(&mut client);
    create_table(&mut client);
    // They are for sessions that begin later.
    for timeout in [
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
    ] {
        execute(
            &mut client,
            &format!("ALTER DATABASE postgres SET {timeout} = '1ms'"),
        );
    }
    pause_worker(&mut client, &mut holder, "t");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(number(&mut client, WORKERS), 1);
    drop(holder);
    until(&mut client, WORKERS, 0);
    let (all, own) = merged(&mut client, "t_k");
    assert!(
        all > 0 && own == 0,
        "{own} of {all} entries were merged by the session"
    );
    check(&mut client, "t_k");
    let log = cluster.log();
    assert_eq!(log.matches("ERROR").count(), 0, "{log}");
}

/// A worker that finds the root being maintained takes no transaction ids while it waits.
#[test]
fn a_worker_that_waits_for_the_root_takes_no_ids() {
    let cluster = Cluster::start_with("bedload.max_workers = 2\nbedload.shrunk = 64");
    let (mut client, mut holder) = (cluster.client(), cluster.client());
    create_table(&mut client);
    // Runs that are not due to be merged, but that VACUUM merges.
    for _ in 0..4 {
        insert(&mut client, "t");
    }
    assert_eq!(number(&mut client, WORKERS), 0);
    execute(&mut holder, "SELECT pg_advisory_lock(7)");
    let socket = cluster.socket();
    let vacuum = thread::spawn(move || {
        let mut client = connect(&socket).expect("a session");
        execute(&mut client, "SET bedload.pause_before_naming = 7");
        execute(&mut client, "VACUUM t");
    });
    until_one_waits(&mut client, || !vacuum.is_finished());
    for _ in 0..4 {
        insert(&mut client, "t");
    }
    until(&mut client, WORKERS, 1);
    let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8";
    let before = number(&mut client, next);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(number(&mut client, next), before);
    drop(holder);
    vacuum.join().expect("it succeeds");
    until(&mut client, WORKERS, 0);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
    let log = cluster.log();
    assert_eq!(log.matches("ERROR").count(), 0, "{log}");
}

/// A worker that fails says so, and is not called again for some time.
#[test]
fn a_worker_that_fails_is_not_called_again_at_once() {
    let (cluster, mut client, holder) = paused(PAUSES);
    let cancel =
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'bedload worker'";
    assert_eq!(number(&mut client, cancel), 1);
    until(&mut client, WORKERS, 0);
    drop(holder);
    let (before, _) = merged(&mut client, "t_k");
    for _ in 0..400 {
        insert(&mut client, "t");
    }
    let (all, own) = merged(&mut client, "t_k");
    assert!(own > 0 && own == all - before, "{own} of {}", all - before);
    assert_eq!(number(&mut client, WORKERS), 0);
    let log = cluster.log();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
}

/// The server is killed while a worker has put a merged run in the place of others, and has not
/// freed these.
#[test]
fn what_a_killed_worker_leaves_is_reclaimed() {
    let cluster = Cluster::start_with(PAUSES);
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let rows = number(&mut client, "SELECT count(*) FROM t");
    let holder = with_paused_worker(&cluster, "t");
    // A commit has all of the log written, the worker's records among it.
    execute(&mut client, "CREATE TABLE u ()");
    cluster.kill_and_recover();
    drop(holder);
    client = cluster.client();
    assert!(number(&mut client, "SELECT count(*) FROM t") > rows);
    check(&mut client, "t_k");
    let lost = "SELECT harness_lost('t_k')";
    assert!(number(&mut client, lost) > 0, "what was merged is lost");
    execute(&mut client, "VACUUM t");
    assert_eq!(number(&mut client, lost), 0);
    for _ in 0..60 {
        insert(&mut client, "t");
    }
    until(&mut client, WORKERS, 0);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
}

/// `VACUUM` beside a worker waits for the merge at hand, and takes none of its pages.
#[test]
fn vacuum_waits_for_a_worker() {
    let (cluster, mut client, holder) = paused(PAUSES);
    let socket = cluster.socket();
    let vacuum = thread::spawn(move || execute(&mut connect(&socket).expect("a session"), "VACUUM t"));
    // It has found the pages of the runs that the worker is about to free, and looks again when
    // the worker is done.
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'tuple'";
    until(&mut client, waits, 1);
    drop(holder);
    vacuum.join().expect("it succeeds");
    until(&mut client, WORKERS, 0);
    assert_eq!(number(&mut client, "SELECT harness_lost('t_k')"), 0);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
}

/// `VACUUM` does not take pages for lost that a worker has written and is about to name.
#[test]
fn vacuum_takes_no_pages_of_a_merge() {
    let settings = "bedload.max_workers = 2\nbedload.pause_before_naming = 7";
    let (_cluster, mut client, holder) = paused(settings);
    execute(
        &mut client,
        "SET bedload.pause_before_naming = 0; SET statement_timeout = '60s'",
    );
    execute(&mut client, "VACUUM t");
    drop(holder);
    until(&mut client, WORKERS, 0);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 100000000");
}
