//! A streaming standby that answers while it replays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, connect};
use crate::rows::{By, Rng, check, create_table, execute, is_conflict, rows_by, same_rows};

#[test]
fn a_standby_answers_while_it_replays() {
    // The standby compares each page that it replays with the primary's, and stops where they
    // differ.
    let primary = Cluster::start_with("wal_consistency_checking = 'all'\nbedload.max_workers = 2");
    let mut client = primary.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT (random() * 50000)::int8, i FROM generate_series(1, 20000) i;",
    );
    let standby = primary.standby();
    let is_over = AtomicBool::new(false);
    let (mut answered, mut conflicts) = (0, 0);
    thread::scope(|scope| {
        let (socket, over) = (primary.socket(), &is_over);
        scope.spawn(move || {
            let mut client = connect(&socket).expect("a session");
            let mut rng = Rng::new(5);
            while !over.load(Ordering::Relaxed) {
                let first = rng.below(50000);
                execute(
                    &mut client,
                    &format!(
                        "INSERT INTO t SELECT (random() * 50000)::int8, i FROM generate_series(1, 2000) i;
                         DELETE FROM t WHERE k BETWEEN {first} AND {first} + 3000;"
                    ),
                );
                // Scans mark entries of dead rows, in runs and in the head.
                execute(
                    &mut client,
                    &format!("SET enable_seqscan = off; SET enable_bitmapscan = off; INSERT INTO t VALUES ({first}, 1);
                         DELETE FROM t WHERE k = {first}"),
                );
                execute(&mut client, &format!("SELECT id FROM t WHERE k BETWEEN {first} AND {first} + 3000 ORDER BY k"));
                execute(&mut client, "VACUUM t");
            }
        });
        // The writer would go on for ever if this panicked.
        let _over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        let mut reader = standby.client();
        let mut rng = Rng::new(6);
        let start = Instant::now();
        while answered < 60 {
            assert!(
                start.elapsed() < Duration::from_secs(600),
                "{answered} queries were answered, and {conflicts} cancelled"
            );
            let first = rng.below(50000);
            let query = format!("SELECT k, id FROM t WHERE k BETWEEN {first} AND {first} + 4000");
            execute(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
            let mut ask = |by: By| {
                reader.batch_execute(by.settings())?;
                let rows = reader.query(&query, &[])?;
                let mut rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
                rows.sort_unstable();
                Ok(rows)
            };
            let by_table = ask(By::Table);
            let answers = by_table.and_then(|table| Ok((table, ask(By::Index)?, ask(By::Bitmap)?)));
            match answers {
                Ok((table, index, bitmap)) => {
                    assert_eq!(index, table, "{query}");
                    assert_eq!(bitmap, table, "{query}");
                    answered += 1;
                }
                // Replay has removed rows that the snapshot needs, and cancels the query: as with
                // every index.
                Err(error) => {
                    assert!(is_conflict(&error), "{query}: {error:?}");
                    conflicts += 1;
                }
            }
            reader.batch_execute("ROLLBACK").ok();
            if reader.is_closed() {
                reader = standby.client();
            }
        }
    });
    standby.promote();
    let mut promoted = standby.client();
    check(&mut promoted, "t_k");
    let rows = rows_by(&mut promoted, "SELECT k, id FROM t ORDER BY k", By::Index).len();
    assert!(rows > 0);
    execute(
        &mut promoted,
        "INSERT INTO t SELECT (random() * 50000)::int8, i FROM generate_series(1, 20000) i; DELETE FROM t WHERE id < 500",
    );
    execute(&mut promoted, "VACUUM t");
    same_rows(&mut promoted, "t", "k < 20000");
    check(&mut promoted, "t_k");
}
