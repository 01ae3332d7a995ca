//! Logical replication into tables with these indexes, one of which is a table's replica identity.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::cluster::Cluster;
use crate::installation::major_version;
use crate::rows::{check, execute, number, same_rows, until_one_waits};
use crate::unique::{finish, is_waiting, start};

/// `t` has a B-tree as its primary key, `u` a unique index of ours in that place, and `f` no key at
/// all.
const TABLES: &str = "
    CREATE TABLE t (id int8 PRIMARY KEY, k int8);
    CREATE TABLE u (id int8 NOT NULL, k int8);
    CREATE UNIQUE INDEX u_id ON u USING bedload (id);
    ALTER TABLE u REPLICA IDENTITY USING INDEX u_id;
    CREATE TABLE f (id int8, k int8);
    ALTER TABLE f REPLICA IDENTITY FULL;";

const INDEXES: [&str; 4] = ["t_k", "u_k", "u_id", "f_k"];

/// Whether subscribers can look rows up by an index of ours: version 17 knows no operator of other
/// access methods than its own there.
fn can_be_an_identity() -> bool {
    major_version() != 17
}

/// Makes a B-tree the replica identity of `u`, as docs/postgres.md advises for version 17.
const TREE_AS_IDENTITY: &str = "
    CREATE UNIQUE INDEX u_tree ON u (id);
    ALTER TABLE u REPLICA IDENTITY USING INDEX u_tree";

/// Waits until the subscriber has what the publisher has committed.
fn catch_up(publisher: &mut Client) {
    let here: String = publisher
        .query_one("SELECT pg_current_wal_insert_lsn()::text", &[])
        .expect("a position")
        .get(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_there = format!("SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn >= '{here}'");
    while number(publisher, &is_there) == 0 {
        assert!(Instant::now() < deadline, "the subscriber does not catch up");
        thread::sleep(Duration::from_millis(20));
    }
}

fn alike(publisher: &mut Client, subscriber: &mut Client) {
    catch_up(publisher);
    for table in ["t", "u", "f"] {
        let rows = format!("SELECT count(*) || ' ' || coalesce(sum(k * id)::text, '') FROM {table}");
        let rows = [&mut *publisher, &mut *subscriber].map(|client| {
            let row = client.query_one(&rows, &[]).expect("a sum");
            row.get::<_, String>(0)
        });
        assert_eq!(rows[0], rows[1], "{table}");
        same_rows(subscriber, table, "k BETWEEN -10000 AND 100000");
    }
    INDEXES.iter().for_each(|index| check(subscriber, index));
}

/// Subscribes to publication `p`, and waits until its tables are copied.
fn subscribe(from: &Cluster, to: &Cluster) {
    let mut subscriber = to.client();
    let subscribe = format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} user=postgres dbname=postgres' PUBLICATION p WITH (streaming = on)",
        from.socket().display()
    );
    execute(&mut subscriber, &subscribe);
    let deadline = Instant::now() + Duration::from_secs(60);
    while number(
        &mut subscriber,
        "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'",
    ) > 0
    {
        assert!(
            Instant::now() < deadline,
            "the tables are not copied:\n{}",
            to.log()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn changes_are_applied_to_tables_with_indexes() {
    let settings = "wal_level = logical\nlogical_decoding_work_mem = 64kB";
    let [from, to] = [(); 2].map(|()| Cluster::start_with(settings));
    let (mut publisher, mut subscriber) = (from.client(), to.client());
    execute(&mut publisher, TABLES);
    execute(
        &mut publisher,
        "CREATE PUBLICATION p FOR TABLE t, u, f;
         INSERT INTO t SELECT i, i * 7919 % 10007 FROM generate_series(1, 5000) i;
         INSERT INTO u SELECT * FROM t; INSERT INTO f SELECT * FROM t WHERE id <= 300",
    );
    execute(&mut subscriber, TABLES);
    if !can_be_an_identity() {
        execute(&mut subscriber, TREE_AS_IDENTITY);
    }
    execute(
        &mut subscriber,
        "CREATE INDEX t_k ON t USING bedload (k); CREATE INDEX u_k ON u USING bedload (k);
         CREATE INDEX f_k ON f USING bedload (k)",
    );
    subscribe(&from, &to);
    alike(&mut publisher, &mut subscriber);
    for table in ["t", "u"] {
        // Small and large, taken back in part, and with rows found by the replica identity.
        for statement in [
            "INSERT INTO t VALUES (100001, 1), (100002, 2)",
            "BEGIN; INSERT INTO t SELECT 200000 + i, -i FROM generate_series(1, 20000) i; SAVEPOINT a;
             INSERT INTO t SELECT 300000 + i, i FROM generate_series(1, 5000) i; ROLLBACK TO a;
             INSERT INTO t SELECT 400000 + i, i FROM generate_series(1, 100) i; COMMIT",
            "UPDATE t SET k = k + 20000 WHERE id % 5 = 0",
            "UPDATE t SET id = id + 1000000 WHERE id % 7 = 0",
            "DELETE FROM t WHERE id % 3 = 0",
            "INSERT INTO t SELECT i, 50000 FROM generate_series(3, 3000, 3) i WHERE i % 7 <> 0",
        ] {
            let statement = statement.replace(" t ", &format!(" {table} "));
            execute(&mut publisher, &statement);
        }
    }
    execute(
        &mut publisher,
        "UPDATE f SET k = -k WHERE id % 2 = 0; DELETE FROM f WHERE id % 3 = 0",
    );
    alike(&mut publisher, &mut subscriber);
    // Addresses of rows are used again.
    execute(&mut subscriber, "VACUUM t, u, f");
    execute(
        &mut publisher,
        "UPDATE u SET k = k + 1; UPDATE t SET k = k + 1; INSERT INTO f SELECT * FROM u LIMIT 100",
    );
    alike(&mut publisher, &mut subscriber);
    execute(
        &mut publisher,
        "TRUNCATE t, u; INSERT INTO u VALUES (1, 1); DELETE FROM u WHERE id = 1; INSERT INTO u VALUES (1, 2)",
    );
    alike(&mut publisher, &mut subscriber);
    assert_eq!(number(&mut subscriber, "SELECT k FROM u"), 2);
    execute(&mut subscriber, "DROP SUBSCRIPTION s");
}

/// Creates `u` on both servers, its replica identity an index of ours, and publishes two rows.
fn publish_u(publisher: &mut Client, subscriber: &mut Client) {
    let table = "CREATE TABLE u (id int8 NOT NULL, k int8); CREATE UNIQUE INDEX u_id ON u USING bedload (id);
                 ALTER TABLE u REPLICA IDENTITY USING INDEX u_id";
    execute(publisher, table);
    execute(
        publisher,
        "INSERT INTO u VALUES (1, 1), (2, 2); CREATE PUBLICATION p FOR TABLE u",
    );
    execute(subscriber, table);
}

/// A change is of a row that the subscriber has deleted. Its worker has found the entry of that
/// row, whose address would become another row's before the worker looks at it.
#[test]
fn the_row_of_another_key_is_not_replicated_to() {
    if !can_be_an_identity() {
        return a_subscriber_of_version_17_wants_a_tree();
    }
    let [from, to] = [(); 2].map(|()| Cluster::start_with("wal_level = logical"));
    let (mut publisher, mut subscriber) = (from.client(), to.client());
    publish_u(&mut publisher, &mut subscriber);
    let pause = "ALTER DATABASE postgres SET bedload.pause_before_row = 7";
    execute(&mut subscriber, pause);
    subscribe(&from, &to);
    execute(
        &mut subscriber,
        "DELETE FROM u WHERE id = 1; SELECT pg_advisory_lock(7)",
    );
    execute(&mut publisher, "UPDATE u SET k = 3 WHERE id = 1");
    until_one_waits(&mut subscriber, || true);
    let vacuum = start(&to.socket(), "VACUUM (INDEX_CLEANUP ON) u");
    assert!(is_waiting(&vacuum), "the entry is in use");
    execute(&mut subscriber, "INSERT INTO u VALUES (5, 5)");
    execute(&mut subscriber, "SELECT pg_advisory_unlock(7)");
    assert_eq!(finish(&vacuum), Ok(()));
    catch_up(&mut publisher);
    let rows = "SELECT sum(id * 100 + k)::int8 FROM u";
    assert_eq!(
        number(&mut subscriber, rows),
        202 + 505,
        "the change finds no row"
    );
    check(&mut subscriber, "u_id");
    execute(&mut subscriber, "DROP SUBSCRIPTION s");
}

/// Replication stops at the first change that needs the row's address, loses nothing, and goes on
/// when the identity is a B-tree.
fn a_subscriber_of_version_17_wants_a_tree() {
    let [from, to] = [(); 2].map(|()| Cluster::start_with("wal_level = logical"));
    let (mut publisher, mut subscriber) = (from.client(), to.client());
    publish_u(&mut publisher, &mut subscriber);
    subscribe(&from, &to);
    execute(&mut publisher, "UPDATE u SET k = 3 WHERE id = 1");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !to.log().contains("missing operator") {
        assert!(
            Instant::now() < deadline,
            "replication does not stop:\n{}",
            to.log()
        );
        thread::sleep(Duration::from_millis(20));
    }
    execute(&mut subscriber, TREE_AS_IDENTITY);
    catch_up(&mut publisher);
    let rows = "SELECT sum(id * 100 + k)::int8 FROM u";
    assert_eq!(number(&mut subscriber, rows), 103 + 202);
    check(&mut subscriber, "u_id");
    execute(&mut subscriber, "DROP SUBSCRIPTION s");
}
