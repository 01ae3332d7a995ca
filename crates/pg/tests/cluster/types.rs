//! Columns of other types than `int8`.

use postgres::Client;
use postgres::error::SqlState;

use crate::cluster::Cluster;
use crate::rows::{check, execute, plan};

/// A type, the expression that makes a value of the number `i`, and constants to compare with.
const TYPES: [(&str, &str, [&str; 3]); 13] = [
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
    ("\"char\"", "chr(1 + i % 127)::\"char\"", ["'A'::\"char\"", "'~'::\"char\"", "''::\"char\""]),
    ("oid", "(i::int8 * 7919 % 4000000000)::oid", ["7::oid", "3900000000::oid", "777"]),
    ("money", "((i * 37) % 4001 - 2000)::money", ["'-5'::money", "'7.30'::money", "'99999'::money"]),
    ("pg_lsn", "'0/0'::pg_lsn + (i * 7919)", ["'0/0'::pg_lsn", "'F0000000/0'::pg_lsn", "'0/50000'::pg_lsn"]),
    (
        "float4",
        "(CASE i % 97 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity'
            ELSE ((i * 7919) % 100003 - 50000) / 64.0 END)::float4",
        ["0::float4", "-12.34::float8", "'NaN'::float4"],
    ),
    (
        "float8",
        "(CASE i % 97 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity'
            ELSE ((i * 7919) % 100003 - 50000) / 97.0 END)::float8",
        ["'-0'::float8", "100.5::float4", "'NaN'::float8"],
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
            // Both zeros have one entry.
            if of.starts_with("float") {
                continue;
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

/// Types whose entries do not tell values apart: rows are looked at again, and nothing is ordered.
#[test]
fn rows_of_equal_entries_are_told_apart() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    );
    let halves = "(lpad(to_hex(i % 50), 16, '0') || lpad(to_hex(i * 7919 % 1000), 16, '0'))::uuid";
    let lines = "'a line ' || i % 700 || repeat('x', i % 900)";
    for (of, class, value, conditions) in [
        (
            "uuid",
            "",
            halves,
            &[
                "k = '00000000-0000-0007-0000-000000000379'",
                "k <= '00000000-0000-0007-0000-000000000200'",
                "k >= '00000000-0000-0030-0000-000000000200'",
                "k > '00000000-0000-0030-0000-000000000379'",
                "k BETWEEN '00000000-0000-0007-0000-000000000200' AND '00000000-0000-0008-0000-000000000200'",
                "k = ANY ('{00000000-0000-0007-0000-000000000379,00000000-0000-0009-0000-000000000047}')",
                "k IS NULL",
            ][..],
        ),
        (
            "text",
            "text_hash_ops",
            lines,
            &["k = 'a line 0'", "k = 'a line 3xxx'", "k = 'none'"],
        ),
        (
            "varchar(2000)",
            "text_hash_ops",
            lines,
            &["k = 'a line 0'", "k = 'a line 3xxx'", "k IS NULL"],
        ),
        (
            "text COLLATE ci",
            "text_hash_ops",
            "CASE WHEN i % 2 = 0 THEN 'Key ' ELSE 'kEY ' END || i % 300",
            &["k = 'KEY 7'", "k = 'KEY 700'"],
        ),
        (
            "bytea",
            "bytea_hash_ops",
            "decode(md5((i % 800)::text), 'hex')",
            &["k = decode(md5('7'), 'hex')"],
        ),
        (
            "numeric",
            "numeric_hash_ops",
            "round(i % 400 / 8.0, i % 5 + 1)",
            &["k = 7.5", "k = 7.500", "k = 'NaN'"],
        ),
    ] {
        execute(
            &mut client,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k {of}, id int8);
                 INSERT INTO t SELECT {value}, i FROM generate_series(1, 2000) i;
                 CREATE INDEX t_k ON t USING bedload (k {class});
                 INSERT INTO t SELECT {value}, i FROM generate_series(2001, 5000) i;
                 INSERT INTO t SELECT null, i FROM generate_series(1, 20) i;
                 INSERT INTO t (k, id) SELECT {value}, i FROM generate_series(7000, 7003) i;"
            ),
        );
        for condition in conditions {
            let query = format!("SELECT k::text || '/' || id FROM t WHERE {condition} ORDER BY k, id");
            let expected = read(&mut client, &query, "Seq Scan");
            for node in ["Index Scan", "Bitmap Index Scan"] {
                assert_eq!(read(&mut client, &query, node), expected, "{of}: {query}");
            }
        }
        check(&mut client, "t_k");
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off",
        );
        let plan = plan(
            &mut client,
            "SELECT k FROM t WHERE k IS NOT NULL ORDER BY k LIMIT 1",
        );
        assert!(plan.contains("Sort"), "{of} has no order:\n{plan}");
        execute(&mut client, "DELETE FROM t WHERE id % 3 = 0");
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        check(&mut client, "t_k");
    }
}

/// Numbers whose bytes an index might put in a wrong place, or return otherwise: without digits,
/// with the longest scales and weights there are, and such that begin alike.
const NUMBERS: &str = "
    '0', '0.00', round(0, 254), round(0, 255), round(0, 256), 'NaN', 'Infinity', '-Infinity',
    '1', '1.0', '1.00', '-1', '-1.000', '9999', '10000', '10001', '-9999', '-10000', '-10001',
    '99999999', '100000000', '100000001', '-99999999', '-100000000', '-100000001', '0.0001', '0.00010',
    '0.00011', '0.00009', '-0.0001', '-0.00010', '-0.00011', '-0.00009', '1.5', '1.50001', '1.49999',
    '-1.5', '-1.50001', '-1.49999', '25600', '65535', '65536', '2560000.0001', '0.0256', '-0.0256',
    '1e63', '1e255', '1e256', '1e260', '-1e255', '-1e256', '1e-255', '1e-256', '1e-260', '-1e-256', '1e131071',
    '-1e131071', '1e-16383', '-1e-16383', round('1e131068', 16383), '12345678901234567890.12345678901234567890',
    '-12345678901234567890.1234567890123456789'";

#[test]
fn numbers_are_in_order_and_returned_as_they_are() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let random = "round((i * 7919 % 10007 - 5000) * power(10::numeric, i * 31 % 61 - 30), i % 29)";
    execute(
        &mut client,
        &format!(
            "CREATE TABLE n (k numeric, id serial);
             CREATE VIEW wanted AS SELECT unnest(ARRAY[{NUMBERS}]::numeric[]) AS k;
             INSERT INTO n (k) SELECT k FROM wanted;
             INSERT INTO n (k) SELECT {random} FROM generate_series(1, 2000) i;
             CREATE INDEX n_up ON n USING bedload (k, id); CREATE INDEX n_down ON n USING bedload (k DESC, id);
             INSERT INTO n (k) SELECT k FROM wanted;
             INSERT INTO n (k) SELECT {random} FROM generate_series(2001, 3000) i;
             INSERT INTO n (k) VALUES (NULL)"
        ),
    );
    execute(&mut client, "VACUUM ANALYZE n");
    for direction in ["", "DESC"] {
        let query = format!("SELECT k::text || '/' || id FROM n ORDER BY k {direction}, id");
        let expected = read(&mut client, &query, "Seq Scan");
        assert_eq!(
            read(&mut client, &query, "Index Only Scan"),
            expected,
            "{direction}"
        );
    }
    for index in ["n_up", "n_down"] {
        check(&mut client, index);
        for operator in ["<", "=", ">="] {
            let query = format!(
                "SELECT wanted.k || ' ' || (SELECT count(*) FROM n WHERE n.k {operator} wanted.k) FROM wanted"
            );
            let expected = read(&mut client, &query, "Seq Scan");
            let found = read(&mut client, &query, "Bitmap Index Scan");
            assert_eq!(found, expected, "{index}: {operator}");
        }
        execute(&mut client, &format!("DROP INDEX {index}"));
    }
    execute(
        &mut client,
        "CREATE TABLE u (k numeric); CREATE UNIQUE INDEX u_k ON u USING bedload (k);
         INSERT INTO u VALUES ('-1.0'), ('0'), ('1'), ('NaN')",
    );
    for equal in ["-1", "0.00", "1.0", "NaN"] {
        let error = client.batch_execute(&format!("INSERT INTO u VALUES ('{equal}')"));
        let error = error.expect_err("an equal number is there");
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{error:?}");
    }
    execute(&mut client, "INSERT INTO u VALUES ('1.0000000001')");
    check(&mut client, "u_k");
}
