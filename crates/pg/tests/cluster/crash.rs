//! `kill -9` of the whole server under load, and recovery.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, connect};
use crate::rows::{Rng, check, create_table, execute, number, same_rows};

const WRITERS: usize = 2;

/// How many kills: 20, or as the environment asks.
fn kills() -> u64 {
    let asked = std::env::var("BEDLOAD_PG_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok());
    asked.unwrap_or(20)
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let cluster = Cluster::start_with("checkpoint_timeout = 30s\nmax_wal_size = 64MB\nmin_wal_size = 32MB");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE TABLE acknowledged (writer int8, serial int8); CREATE INDEX a_k ON acknowledged USING bedload (serial)",
    );
    drop(client);
    let mut rng = Rng::new(0xdead);
    let serials: [AtomicI64; WRITERS] = Default::default();
    for kill in 0..kills() {
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
                            Err(_) => {}
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
    assert!(written > 100, "{written} statements were acknowledged");
}
