//! A table in hash partitions on two servers, by `postgres_fdw`: each shard has indexes of its own.

use postgres::Client;

use crate::cluster::{Cluster, connect_to};
use crate::rows::{By, check, execute, number, rows_by, same_rows};

const ROWS: i64 = 30_000;

/// The documentation's recipe.
fn shard(client: &mut Client, servers: &[&Cluster; 2]) {
    execute(
        client,
        "CREATE EXTENSION postgres_fdw;
         CREATE TABLE readings (sensor int8, at int8, value float8) PARTITION BY HASH (sensor)",
    );
    for (number, server) in servers.iter().enumerate() {
        execute(
            client,
            &format!(
                "CREATE SERVER shard{number} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (
                     host '{}', port '5432', dbname 'shard', async_capable 'true', batch_size '1000', fetch_size '10000',
                     use_remote_estimate 'true');
                 CREATE USER MAPPING FOR CURRENT_USER SERVER shard{number} OPTIONS (user 'postgres');
                 CREATE FOREIGN TABLE readings_{number} PARTITION OF readings
                     FOR VALUES WITH (MODULUS 2, REMAINDER {number}) SERVER shard{number} OPTIONS (table_name 'readings')",
                server.socket().display()
            ),
        );
    }
}

fn plan(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("EXPLAIN (VERBOSE, COSTS OFF) {query}"), &[]);
    let rows = rows.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

#[test]
fn two_servers_hold_a_table() {
    let servers = [Cluster::start(), Cluster::start()];
    let mut client = servers[0].client();
    let mut shards = servers.each_ref().map(|server| {
        execute(&mut server.client(), "CREATE DATABASE shard");
        let mut shard = connect_to(&server.socket(), "shard").expect("a session");
        execute(
            &mut shard,
            "CREATE EXTENSION bedload; CREATE TABLE readings (sensor int8, at int8, value float8);
             CREATE INDEX readings_at ON readings USING bedload (at);
             CREATE INDEX readings_sensor ON readings USING bedload (sensor, at)",
        );
        shard
    });
    shard(&mut client, &servers.each_ref());
    let insert =
        format!("INSERT INTO readings SELECT i % 97, i * 7919 % 100003, i FROM generate_series(1, {ROWS}) i");
    let inserts = plan(
        &mut client,
        "INSERT INTO readings_1 SELECT i % 97, i, i FROM generate_series(1, 10) i",
    );
    assert!(inserts.contains("Batch Size: 1000"), "{inserts}");
    execute(&mut client, &insert);
    // A transaction here is one there: its entries went into each index at once, as one run.
    for shard in &mut shards {
        let rows = number(shard, "SELECT count(*) FROM readings");
        assert!((ROWS / 3..ROWS * 2 / 3).contains(&rows), "{rows} rows of {ROWS}");
        assert_eq!(
            number(shard, "SELECT head_entries FROM bedload_stats('readings_at')"),
            0
        );
        execute(shard, "ANALYZE readings");
    }
    execute(
        &mut client,
        "BEGIN; INSERT INTO readings VALUES (1, -1, 0), (2, -1, 0), (3, -1, 0), (4, -1, 0); ROLLBACK",
    );
    execute(&mut client, "SET enable_partitionwise_aggregate = on");
    for (query, parts) in [
        (
            "SELECT * FROM readings WHERE at >= 5000 ORDER BY at LIMIT 10",
            &["Merge Append", "((at >= 5000)) ORDER BY at ASC NULLS LAST"][..],
        ),
        (
            "SELECT sensor, count(*), max(at) FROM readings WHERE at > 50000 GROUP BY sensor",
            &[
                "Async Foreign Scan",
                "Relations: Aggregate on",
                "count(*), max(at)",
                "GROUP BY 1",
            ],
        ),
        (
            "SELECT value FROM readings WHERE sensor = 7 AND at BETWEEN 100 AND 90000 ORDER BY at DESC",
            &[
                "Foreign Scan on public.readings_",
                "((sensor = 7)) ORDER BY at DESC NULLS FIRST",
            ],
        ),
        (
            "SELECT * FROM readings WHERE at = 4242",
            &["Async Foreign Scan", "((at = 4242))"],
        ),
    ] {
        let plan = plan(&mut client, query);
        assert!(parts.iter().all(|part| plan.contains(part)), "{query}:\n{plan}");
    }
    // The servers read their parts by index.
    execute(
        &mut shards[0],
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let by_order = plan(
        &mut shards[0],
        "SELECT sensor, at, value FROM readings WHERE at >= 5000 AND at <= 6000 ORDER BY at",
    );
    assert!(by_order.contains("Index Scan using readings_at"), "{by_order}");
    // Two servers answer as one would.
    execute(
        &mut client,
        &format!(
            "CREATE TABLE whole (sensor int8, at int8, value float8); {}",
            insert.replace("INTO readings", "INTO whole")
        ),
    );
    for statement in [
        "SELECT",
        "UPDATE {} SET at = at + 200000 WHERE at BETWEEN 40000 AND 50000",
        "DELETE FROM {} WHERE at BETWEEN 60000 AND 70000",
        "INSERT INTO {} SELECT 3, i, i FROM generate_series(1, 20) i",
    ] {
        for table in ["readings", "whole"] {
            execute(&mut client, &statement.replace("{}", table));
        }
        for query in [
            "SELECT at, sensor FROM {} WHERE at BETWEEN 30000 AND 65000 ORDER BY at, sensor, value",
            "SELECT at, count(*) FROM {} GROUP BY at ORDER BY at DESC LIMIT 100",
            "SELECT max(at), count(*) FROM {} WHERE sensor = 7",
        ] {
            let answers = ["readings", "whole"].map(|table| {
                let rows = client.query(&query.replace("{}", table), &[]).expect("rows");
                rows.iter()
                    .map(|row| (row.get(0), row.get(1)))
                    .collect::<Vec<(i64, i64)>>()
            });
            assert!(!answers[0].is_empty());
            assert_eq!(answers[0], answers[1], "{query} after {statement}");
        }
    }
    for shard in &mut shards {
        for index in ["readings_at", "readings_sensor"] {
            check(shard, index);
        }
        execute(
            shard,
            "ALTER TABLE readings RENAME at TO k; ALTER TABLE readings RENAME sensor TO id",
        );
        same_rows(shard, "readings", "k BETWEEN 3000 AND 9000");
        let query = "SELECT k, id FROM readings WHERE id = 7 AND value > 0 ORDER BY k";
        assert!(rows_by(shard, query, By::Index).is_sorted());
    }
}
