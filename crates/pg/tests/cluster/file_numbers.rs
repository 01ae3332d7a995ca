//! Numbers of files, which a permanent and a temporary index may share.

use postgres::Client;

use crate::cluster::Cluster;
use crate::installation::run;
use crate::rows::{By, check, create_table, execute, number};

/// Numbers that are left before the one of the permanent index.
const NUMBERS_BEFORE: i64 = 20;

fn file_number(client: &mut Client, index: &str) -> i64 {
    number(client, &format!("SELECT pg_relation_filenode('{index}')::int8"))
}

/// When object ids have wrapped around, a temporary index may get the number of the file that a
/// permanent one got by `REINDEX`. A session that has read one of them reads and writes the pages
/// of the other where they are.
#[test]
fn a_temporary_index_may_have_the_number_of_a_permanent_one() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 20011, i FROM generate_series(1, 20000) i; REINDEX INDEX t_k",
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
    // More often than a page is met before it is remembered, and no more often than its buffer is.
    let found = |client: &mut Client, table: &str| {
        execute(client, By::Index.settings());
        let counts = [0; 5].map(|_| number(client, &format!("SELECT count(*) FROM {table} WHERE k >= 0")));
        assert_eq!(counts, [counts[0]; 5]);
        counts[0]
    };
    execute(&mut client, "CREATE TEMP TABLE u (k int8, id int8)");
    let mut shares_number = false;
    for at in 0..10 * NUMBERS_BEFORE {
        assert_eq!(found(&mut client, "t"), 20_000);
        execute(&mut client, "CREATE INDEX u_k ON u USING bedload (k)");
        shares_number = file_number(&mut client, "u_k") == wanted;
        if shares_number {
            break;
        }
        execute(&mut client, &format!("ALTER INDEX u_k RENAME TO u_{at}"));
    }
    assert!(shares_number, "a temporary index gets the number {wanted}");
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
