//! Storage parameters of indexes.

use crate::cluster::Cluster;
use crate::rows::{check, create_table, execute, number, pending, same_rows};

/// Runs above the leaves have filters as the index says when they are written.
#[test]
fn filters_are_as_large_as_their_index_says() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "DROP INDEX t_k; CREATE INDEX t_k ON t USING bedload (k) WITH (filter_bits = 0)",
    );
    let load = |client: &mut _, first: i64| {
        for first in (first..first + 20_000).step_by(2000) {
            let rows = format!("SELECT i * 7919 % 20011, i FROM generate_series({first}, {first} + 1999) i");
            execute(client, &format!("INSERT INTO t {rows}"));
        }
    };
    let bytes = "SELECT bytes FROM bedload_stats('t_k')";
    load(&mut client, 1);
    let bytes_without = number(&mut client, bytes);
    same_rows(&mut client, "t", "k = 7");
    let mut measured = |options: &str| {
        execute(&mut client, &format!("TRUNCATE t; ALTER INDEX t_k {options}"));
        load(&mut client, 1);
        same_rows(&mut client, "t", "k = 7");
        check(&mut client, "t_k");
        number(&mut client, bytes)
    };
    let bytes_by_default = measured("RESET (filter_bits)");
    let bytes_of_long = measured("SET (filter_bits = 32)");
    assert!(
        bytes_without < bytes_by_default && bytes_by_default < bytes_of_long,
        "{bytes_without}, {bytes_by_default}, {bytes_of_long}"
    );
    // Runs with filters and runs without them are of one index.
    execute(&mut client, "ALTER INDEX t_k SET (filter_bits = 0)");
    load(&mut client, 30_001);
    same_rows(&mut client, "t", "k BETWEEN 7 AND 10");
    check(&mut client, "t_k");
}

/// An index may have fewer entries wait than the session lets it, and other indexes are none the
/// wiser.
#[test]
fn entries_of_an_index_wait_as_it_says() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8);
         CREATE INDEX t_k ON t USING bedload (k) WITH (batch_entries = 0);
         CREATE INDEX t_id ON t USING bedload (id) WITH (batch_entries = 600)",
    );
    // The first transaction of a session looks at each row.
    execute(&mut client, "INSERT INTO t VALUES (1, 1)");
    let insert = "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i";
    execute(&mut client, &format!("BEGIN; {insert}"));
    assert_eq!(
        (pending(&mut client, "t_k"), pending(&mut client, "t_id")),
        (0, 400)
    );
    execute(
        &mut client,
        "COMMIT; ALTER INDEX t_k RESET (batch_entries); ALTER INDEX t_id SET (batch_entries = -1)",
    );
    execute(&mut client, &format!("BEGIN; {insert}"));
    assert_eq!(
        (pending(&mut client, "t_k"), pending(&mut client, "t_id")),
        (1000, 1000)
    );
    execute(&mut client, "ROLLBACK");
    same_rows(&mut client, "t", "k < 100");
    check(&mut client, "t_k");
    check(&mut client, "t_id");
}
