//! `kill -9` of the whole server under load, and recovery.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, connect};
use crate::contract::{declare, is_raised};
use crate::rows::{
    Rng, check, create_table, execute, is_conflict, number, same_rows, until, until_one_waits,
};
use crate::settings::setting;
use crate::unique::{finish, is_under_way, is_waiting, start};

const WRITERS: usize = 2;

#[test]
fn what_was_acknowledged_survives_kills() {
    let cluster = Cluster::start_with(
        "checkpoint_timeout = 30s\nmax_wal_size = 64MB\nmin_wal_size = 32MB\nbedload.max_workers = 2",
    );
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE TABLE acknowledged (writer int8, serial int8); CREATE INDEX a_k ON acknowledged USING bedload (serial)",
    );
    drop(client);
    let mut rng = Rng::new(0xdead);
    let serials: [AtomicI64; WRITERS] = Default::default();
    let kills = setting("BEDLOAD_PG_KILLS", 20);
    for kill in 0..kills {
        let is_over = AtomicBool::new(false);
        let socket = cluster.socket();
        thread::scope(|scope| {
            for (writer, serial) in (0_u64..).zip(&serials) {
                let (socket, is_over) = (&socket, &is_over);
                scope.spawn(move || {
                    let mut client = connect(socket).expect("a session");
                    let mut rng = Rng::new(kill * 100 + writer + 1);
                    while !is_over.load(Ordering::Relaxed) {
                        let next = serial.load(Ordering::Relaxed) + 1;
                        let (first, count) = (rng.below(1_000_000), 1 + rng.below(2000));
                        let last = first + count;
                        let work = match rng.below(8) {
                            0 => format!("DELETE FROM t WHERE k BETWEEN {first} AND {last} + 5000"),
                            1 => format!("UPDATE t SET k = k + 1 WHERE k BETWEEN {first} AND {last}"),
                            2 => "VACUUM t".to_owned(),
                            3 => format!("INSERT INTO t SELECT i, i FROM generate_series({first}, {last}) i"),
                            4 => "CHECKPOINT".to_owned(),
                            _ => format!(
                                "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, {count}) i"
                            ),
                        };
                        let record = format!("INSERT INTO acknowledged VALUES ({writer}, {next})");
                        let done = client.batch_execute(&work).and_then(|()| client.batch_execute(&record));
                        match done {
                            Ok(()) => serial.store(next, Ordering::Relaxed),
                            Err(_) if client.is_closed() => return,
                            // Two writers have met at a row.
                            Err(error) => assert!(is_conflict(&error), "{work}: {error:?}"),
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(100 + rng.below(500)));
            cluster.kill_and_recover();
            is_over.store(true, Ordering::Relaxed);
        });
        let mut client = cluster.client();
        check(&mut client, "t_k");
        check(&mut client, "a_k");
        same_rows(&mut client, "t", "k BETWEEN 200000 AND 400000");
        execute(&mut client, "SET enable_seqscan = off");
        for (writer, serial) in serials.iter().enumerate() {
            let last = serial.load(Ordering::Relaxed);
            let kept = number(
                &mut client,
                &format!(
                    "SELECT count(DISTINCT serial) FROM acknowledged WHERE serial BETWEEN 1 AND {last} AND writer = {writer}"
                ),
            );
            assert_eq!(kept, last, "writer {writer} after kill {kill}");
        }
    }
    let mut client = cluster.client();
    same_rows(&mut client, "t", "true");
    execute(&mut client, "VACUUM t");
    number(&mut client, "SELECT bedload_sweep('t_k')");
    assert_eq!(
        number(&mut client, "SELECT bedload_sweep('t_k')"),
        0,
        "what was lost was found the first time"
    );
    check(&mut client, "t_k");
    let written: i64 = serials.iter().map(|serial| serial.load(Ordering::Relaxed)).sum();
    // However busy the machine is, or nothing was at stake.
    let kills = i64::try_from(kills).expect("few");
    assert!(
        written >= kills,
        "{written} statements were acknowledged, {kills} kills"
    );
}

/// Pages that crashes cut off from the tree are free again after a VACUUM, beside others that
/// write.
#[test]
fn vacuum_frees_what_crashes_cut_off() {
    // More than 3,000 rows take.
    const ENOUGH: i64 = 8;
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let mut lost = 0;
    // Pages are written before they are named: a crash between the two cuts them off.
    for point in (20..400).step_by(20) {
        execute(&mut client, &format!("SELECT harness_raise_at(-{point})"));
        let insert = "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 20000) i";
        client
            .batch_execute(insert)
            .expect_err("the server crashes before it ends");
        cluster.kill_and_recover();
        client = cluster.client();
        lost = number(&mut client, "SELECT harness_lost('t_k')");
        if lost >= ENOUGH {
            break;
        }
    }
    assert!(lost >= ENOUGH, "crashes cut {lost} pages off");
    let blocks = "SELECT pg_relation_size('t_k') / 8192";
    let before = number(&mut client, blocks);
    let mut other = cluster.client();
    // A transaction that writes, and a snapshot that is held, are no matter.
    execute(
        &mut other,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO t VALUES (-1, -1)",
    );
    execute(&mut client, "VACUUM t");
    execute(&mut other, "COMMIT");
    println!("{lost} of {before} pages were lost");
    assert_eq!(number(&mut client, "SELECT harness_lost('t_k')"), 0);
    assert_eq!(number(&mut client, "SELECT bedload_sweep('t_k')"), 0);
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 200000");
    execute(
        &mut client,
        "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 3000) i",
    );
    assert_eq!(number(&mut client, blocks), before, "they are used again");
}

/// Errors leave pages of runs that nothing names. Without full-page images, what VACUUM does to
/// them can be replayed only if the log has the pages.
#[test]
fn changes_of_pages_that_errors_cut_off_are_replayed() {
    // A run has several pages.
    let cluster = Cluster::start_with("full_page_writes = off\nbedload.shrunk = 1");
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let standby = cluster.standby();
    let mut reader = standby.client();
    let mut errors = 0;
    for point in 1.. {
        execute(&mut client, &format!("SELECT harness_raise_at({point})"));
        let insert = "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 5000) i";
        let is_raised = is_raised(client.batch_execute(insert));
        execute(&mut client, "SELECT harness_raise_at(0)");
        // It deletes the entries of rows that were rolled back, and frees the pages.
        execute(&mut client, "VACUUM t");
        if !is_raised {
            break;
        }
        errors += 1;
    }
    assert!(errors > 10, "{errors} errors");
    let end = client.query_one("SELECT pg_current_wal_lsn()::text", &[]);
    let end: String = end.expect("a position").get(0);
    let is_replayed = format!("SELECT (pg_last_wal_replay_lsn() >= '{end}')::int::int8");
    until(&mut reader, &is_replayed, 1);
    assert_eq!(same_rows(&mut reader, "t", "true"), 5000);
    cluster.kill_and_recover();
    let mut client = cluster.client();
    check(&mut client, "t_k");
    assert_eq!(same_rows(&mut client, "t", "true"), 5000);
}

/// VACUUM looks for lost pages beside statements that lose some, and merges that are about to free
/// others.
#[test]
fn vacuum_frees_nothing_that_is_in_use() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let is_over = AtomicBool::new(false);
    let socket = cluster.socket();
    thread::scope(|scope| {
        for seed in 1..=2 {
            let (socket, is_over) = (&socket, &is_over);
            scope.spawn(move || {
                let mut client = connect(socket).expect("a session");
                let mut rng = Rng::new(seed);
                for _ in 0..400 {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    // Some end with an error in the midst of writing.
                    let point = 1 + rng.below(60);
                    execute(&mut client, &format!("SELECT harness_raise_at({point})"));
                    let insert =
                        "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 1500) i";
                    is_raised(client.batch_execute(insert));
                    execute(&mut client, "SELECT harness_raise_at(0)");
                }
            });
        }
        // The writers would go on for ever if this panicked.
        let _over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        for _ in 0..60 {
            execute(&mut client, "VACUUM t");
            execute(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
            same_rows(&mut client, "t", "k BETWEEN 500000 AND 510000");
            execute(&mut client, "COMMIT");
        }
    });
    check(&mut client, "t_k");
    // All who wrote have ended by now.
    execute(&mut client, "CREATE TABLE u ()");
    execute(&mut client, "VACUUM t");
    same_rows(&mut client, "t", "true");
    assert_eq!(number(&mut client, "SELECT harness_lost('t_k')"), 0);
}

/// `VACUUM` takes pages for lost that another session has unlinked and is about to free.
#[test]
fn vacuum_waits_for_those_who_are_about_to_free_pages() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(&mut client, "SET bedload.batch_entries = 0");
    while number(&mut client, "SELECT head_pages FROM bedload_stats('t_k')") < 8 {
        execute(
            &mut client,
            "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 8) i",
        );
    }
    execute(&mut client, "SELECT pg_advisory_lock(7)");
    let sealing = start(
        &cluster.socket(),
        "SET bedload.batch_entries = 0; SET bedload.pause_before_retirement = 7;
         INSERT INTO t SELECT i, i FROM generate_series(1, 200) i",
    );
    until_one_waits(&mut client, || is_under_way(&sealing));
    let vacuuming = start(&cluster.socket(), "VACUUM t");
    assert!(is_waiting(&vacuuming), "the other is about to free pages");
    execute(&mut client, "SELECT pg_advisory_unlock(7)");
    assert_eq!(finish(&sealing), Ok(()));
    assert_eq!(finish(&vacuuming), Ok(()));
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}
