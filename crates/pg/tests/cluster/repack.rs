//! pg_repack, an extension that rewrites tables while sessions write to them: it copies a table,
//! repeats in the copy what changed meanwhile, and exchanges the files of both.
//!
//! Needs the program `pg_repack` beside the server's own (Debian has a package of it).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::cluster::{Cluster, connect};
use crate::installation::{pg_config, run, skip};
use crate::rows::{Rng, check, execute, number, same_rows};

const WRITERS: u64 = 2;
const REWRITES: usize = 3;

/// Inserts, updates and deletes rows; returns in how many transactions. Most of these stay open for
/// a while, so the exchange waits for one and repeats its changes in the transaction of its own.
fn write(socket: &Path, writer: u64, is_over: &AtomicBool) -> u64 {
    let mut client = connect(socket).expect("a session");
    let mut rng = Rng::new(11 + writer);
    let mut transactions = 0;
    for next in (1_u64..).map(|turn| turn * 20) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // Writers keep out of each other's rows.
        let id = |of: u64| of * WRITERS + writer;
        let mut any = || id(rng.below(next));
        let (updated, deleted) = (any(), any());
        let pause = if rng.below(3) == 0 { 0.0 } else { 0.02 };
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT (random() * 1e6)::int8, i, 'new' FROM generate_series({}, {}, {WRITERS}) i;
                 UPDATE t SET k = k + 1, note = 'updated' WHERE id = {updated};
                 DELETE FROM t WHERE id = {deleted};
                 SELECT pg_sleep({pause})",
                id(next),
                id(next + 19)
            ),
        );
        transactions += 1;
    }
    transactions
}

#[test]
fn pg_repack_loses_no_rows_of_concurrent_writers() {
    let program = pg_config("--bindir").join("pg_repack");
    if !program.exists() {
        skip("there is no pg_repack");
        return;
    }
    let cluster = Cluster::start_with("bedload.max_workers = 2");
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE EXTENSION pg_repack;
         CREATE TABLE t (k int8, id int8 PRIMARY KEY, note text);
         CREATE INDEX t_k ON t USING bedload (k); CREATE INDEX t_note ON t USING bedload (note, k);
         INSERT INTO t SELECT i * 7919 % 20011, -i, md5(i::text) FROM generate_series(1, 20000) i",
    );
    execute(&mut client, "DELETE FROM t WHERE id % 3 = 0");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (socket, over) = (cluster.socket(), &is_over);
        let writers = [0, 1].map(|writer| {
            let socket = socket.clone();
            scope.spawn(move || write(&socket, writer, over))
        });
        // The writers would go on for ever if this panicked.
        let over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        for _ in 0..REWRITES {
            let file = "SELECT pg_relation_filenode('t_k')::int8";
            let before = number(&mut client, file);
            let mut repack = cluster.owned(&program);
            run(repack
                .args(["--username=postgres", "--dbname=postgres", "--table=t", "--host"])
                .arg(&socket));
            assert_ne!(number(&mut client, file), before, "the table was rewritten");
        }
        drop(over);
        for writer in writers {
            assert!(writer.join().expect("it wrote") > 0);
        }
    });
    assert!(same_rows(&mut client, "t", "k >= 0") > 10_000);
    check(&mut client, "t_k");
    check(&mut client, "t_note");
}
