//! Numbers of files, which a permanent and a temporary index may share, and indexes of two
//! tablespaces.

use postgres::Client;

use crate::cluster::Cluster;
use crate::files::EXCHANGE;
use crate::installation::run;
use crate::rows::{By, check, create_table, execute, number, same_rows};

/// Numbers that are left before the one of the permanent index.
const NUMBERS_BEFORE: i64 = 20;

fn file_number(client: &mut Client, index: &str) -> i64 {
    number(client, &format!("SELECT pg_relation_filenode('{index}')::int8"))
}

/// A cluster with the table `t` of so many rows, where object ids have wrapped around: the number
/// of its index's file comes again soon. Returns a session and this number, too.
fn wrapped_around(settings: &str, rows: usize) -> (Cluster, Client, i64) {
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        &format!(
            "INSERT INTO t SELECT i * 7919 % 20011, i FROM generate_series(1, {rows}) i; REINDEX INDEX t_k"
        ),
    );
    let wanted = file_number(&mut client, "t_k");
    cluster.stop();
    let next = (wanted - NUMBERS_BEFORE).to_string();
    run(cluster
        .program("pg_resetwal")
        .args(["--next-oid", &next])
        .arg(cluster.data()));
    cluster.launch();
    client = cluster.client();
    (cluster, client, wanted)
}

/// Creates an index until its file has the number.
fn create_with_number(client: &mut Client, index: &str, create: &str, wanted: i64) {
    let mut others = Vec::new();
    for at in 0..10 * NUMBERS_BEFORE {
        execute(client, create);
        if file_number(client, index) == wanted {
            others
                .iter()
                .for_each(|other| execute(client, &format!("DROP INDEX {other}")));
            return;
        }
        let other = format!("{index}_{at}");
        execute(client, &format!("ALTER INDEX {index} RENAME TO {other}"));
        others.push(other);
    }
    panic!("no index gets the number {wanted}");
}

/// A temporary index may get the number of the file that a permanent one got by `REINDEX`. A
/// session that has read one of them reads and writes the pages of the other where they are.
#[test]
fn a_temporary_index_may_have_the_number_of_a_permanent_one() {
    let (cluster, mut client, wanted) = wrapped_around("", 20_000);
    // More often than a page is met before it is remembered, and no more often than its buffer is.
    let found = |client: &mut Client, table: &str| {
        execute(client, By::Index.settings());
        let counts = [0; 5].map(|_| number(client, &format!("SELECT count(*) FROM {table} WHERE k >= 0")));
        assert_eq!(counts, [counts[0]; 5]);
        counts[0]
    };
    execute(&mut client, "CREATE TEMP TABLE u (k int8, id int8)");
    assert_eq!(found(&mut client, "t"), 20_000);
    create_with_number(
        &mut client,
        "u_k",
        "CREATE INDEX u_k ON u USING bedload (k)",
        wanted,
    );
    execute(
        &mut client,
        "INSERT INTO u SELECT i, i FROM generate_series(1, 1000) i",
    );
    assert_eq!(found(&mut client, "u"), 1000);
    assert_eq!(found(&mut client, "t"), 20_000);
    check(&mut client, "u_k");
    check(&mut client, "t_k");
    cluster.stop();
    cluster.launch();
    client = cluster.client();
    assert_eq!(found(&mut client, "t"), 20_000);
    check(&mut client, "t_k");
}

/// Entries wait for a file, and the index that had it has one of the same number by then.
#[test]
fn indexes_of_two_tablespaces_may_have_one_number() {
    let (_cluster, mut client, wanted) = wrapped_around("allow_in_place_tablespaces = on", 100);
    client
        .batch_execute("CREATE TABLESPACE one LOCATION ''")
        .expect("a tablespace");
    execute(&mut client, "CREATE TABLE other (LIKE t)");
    let create = "CREATE INDEX other_k ON other USING bedload (k) TABLESPACE one";
    create_with_number(&mut client, "other_k", create, wanted);
    execute(
        &mut client,
        &format!(
            "SET allow_system_table_mods = on;
             BEGIN;
             INSERT INTO other SELECT i, i FROM generate_series(1, 10) i;
             {EXCHANGE}"
        ),
    );
    for end in ["", "COMMIT"] {
        execute(&mut client, end);
        assert_eq!(same_rows(&mut client, "t", "k >= 0"), 10);
        assert_eq!(same_rows(&mut client, "other", "k >= 0"), 100);
    }
    check(&mut client, "t_k");
    check(&mut client, "other_k");
}
