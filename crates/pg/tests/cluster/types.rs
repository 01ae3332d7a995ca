//! Columns of other types than `int8`.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{check, execute, plan};

/// A type, the expression that makes a value of the number `i`, and constants to compare with.
const TYPES: [(&str, &str, [&str; 3]); 7] = [
    (
        "int2",
        "((i * 37) % 4001 - 2000)::int2",
        ["-5::int2", "7", "100000::int8"],
    ),
    (
        "int4",
        "(i * 7919) % 100003 - 50000",
        ["-5::int2", "777", "-3000000000::int8"],
    ),
    (
        "int8",
        "(i * 7919) % 100003 - 50000",
        ["-5::int2", "777", "30000000000::int8"],
    ),
    (
        "date",
        "'2000-01-01'::date + (i * 37) % 4001 - 2000",
        ["'1999-05-05'::date", "'2001-01-01'::date", "'infinity'::date"],
    ),
    (
        "time",
        "'00:00'::time + (i * 37) % 86000 * interval '1 second'",
        ["'03:00'::time", "'00:30'::time", "'24:00'::time"],
    ),
    (
        "timestamp",
        "'2000-01-01'::timestamp + (i * 37 - 90000) * interval '1 second'",
        [
            "'1999-12-31 23:00'::timestamp",
            "'-infinity'::timestamp",
            "'infinity'::timestamp",
        ],
    ),
    (
        "timestamptz",
        "'2000-01-01 00:00+00'::timestamptz + (i * 37 - 90000) * interval '1 second'",
        [
            "'1999-12-31 23:00+00'::timestamptz",
            "'-infinity'::timestamptz",
            "'2000-01-01 05:00+02'::timestamptz",
        ],
    ),
];

/// The values of a query as text, read by a sequential scan or else by a certain kind of plan.
fn read(client: &mut Client, query: &str, node: &str) -> Vec<Option<String>> {
    let is_on = |kind: &str| node.starts_with(kind);
    execute(
        client,
        &format!(
            "SET enable_seqscan = {}; SET enable_indexscan = {}; SET enable_indexonlyscan = {}; SET enable_bitmapscan = {}",
            is_on("Seq"),
            is_on("Index"),
            is_on("Index Only"),
            is_on("Bitmap")
        ),
    );
    let plan = plan(client, query);
    assert!(plan.contains(node), "{query}:\n{plan}");
    let rows = client.query(query, &[]).expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn columns_of_integers_and_times_are_indexed() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    for (of, value, constants) in TYPES {
        execute(
            &mut client,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k {of}, id int8);
                 INSERT INTO t SELECT {value}, i FROM generate_series(1, 2000) i;
                 CREATE INDEX t_k ON t USING bedload (k);
                 INSERT INTO t SELECT {value}, i FROM generate_series(2001, 5000) i;
                 INSERT INTO t SELECT null, i FROM generate_series(1, 20) i;
                 INSERT INTO t (k, id) SELECT {value}, i FROM generate_series(7000, 7003) i;"
            ),
        );
        let comparisons = constants.iter().flat_map(|constant| {
            ["<", "<=", "=", ">=", ">"].map(|operator| format!("k {operator} {constant}"))
        });
        for condition in comparisons.chain(["k IS NULL".to_owned(), "k IS NOT NULL".to_owned()]) {
            for order in ["ORDER BY k, id", "ORDER BY k DESC, id"] {
                let query = format!("SELECT k::text || '/' || id FROM t WHERE {condition} {order}");
                let expected = read(&mut client, &query, "Seq Scan");
                assert_eq!(read(&mut client, &query, "Index Scan"), expected, "{of}: {query}");
                assert_eq!(
                    read(&mut client, &query, "Bitmap Index Scan"),
                    expected,
                    "{of}: {query}"
                );
            }
            let query = format!("SELECT k::text FROM t WHERE {condition} ORDER BY t.k");
            let expected = read(&mut client, &query, "Seq Scan");
            assert_eq!(
                read(&mut client, &query, "Index Only Scan"),
                expected,
                "{of}: {query}"
            );
        }
        check(&mut client, "t_k");
    }
    let valid = "SELECT count(*) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
                 WHERE amname = 'bedload' AND NOT amvalidate(c.oid)";
    assert_eq!(crate::rows::number(&mut client, valid), 0);
}
