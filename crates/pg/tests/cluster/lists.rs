//! Scans that are asked for lists of values, and for values longer than any key.

use crate::cluster::Cluster;
use crate::rows::{execute, number, plan};

/// Has scans go by the index, whatever they cost.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
                        SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
                        SET enable_memoize = off";

#[test]
fn a_list_may_have_any_number_of_values() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, u uuid, n int4);
         INSERT INTO t SELECT i, md5(i::text)::uuid, i % 7 FROM generate_series(1, 20000) i",
    );
    execute(&mut client, "VACUUM ANALYZE t");
    execute(&mut client, BY_INDEX);
    let keys = "k = ANY (ARRAY(SELECT generate_series(-5, 19990, 2)::int8))";
    let uuids = "u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(-5, 19990, 2) i))";
    let with_n = format!("{keys} AND n = 3");
    let with_ns = format!("{keys} AND n = ANY ('{{2, 3}}')");
    for (columns, condition, expected) in [
        ("k", keys, 9995),
        ("k DESC", keys, 9995),
        ("u", uuids, 9995),
        ("k, n", keys, 9995),
        ("k, n", &with_n, 1428),
        ("n, k", &with_n, 1428),
        ("k, n", &with_ns, 2856),
        ("n DESC, k", &with_ns, 2856),
    ] {
        execute(
            &mut client,
            &format!("CREATE INDEX t_i ON t USING bedload ({columns})"),
        );
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        let described = plan(&mut client, &query);
        assert!(described.contains("t_i"), "{described}");
        assert_eq!(number(&mut client, &query), expected, "{condition} by {columns}");
        execute(&mut client, "DROP INDEX t_i");
    }
}

#[test]
fn scans_that_begin_anew_keep_no_memory() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (a int4, b int4);
         INSERT INTO t SELECT i, i % 50 FROM generate_series(1, 20000) i;
         CREATE INDEX t_ab ON t USING bedload (a, b)",
    );
    execute(&mut client, "VACUUM ANALYZE t");
    execute(&mut client, BY_INDEX);
    let list: Vec<String> = (0..200).map(|value| value.to_string()).collect();
    let query = format!(
        "SELECT 1 FROM generate_series(1, 20000) g JOIN t ON t.a = g AND t.b = ANY ('{{{}}}')",
        list.join(",")
    );
    let described = plan(&mut client, &query);
    assert!(
        described.contains("Nested Loop") && described.contains("t_ab"),
        "{described}"
    );
    execute(&mut client, &format!("BEGIN; DECLARE c CURSOR FOR {query}"));
    let mut bytes_after = |rows: usize| {
        execute(&mut client, &format!("MOVE {rows} FROM c"));
        number(
            &mut client,
            "SELECT sum(total_bytes)::int8 FROM pg_backend_memory_contexts",
        )
    };
    let (before, after) = (bytes_after(100), bytes_after(10_000));
    assert!(after < before + (1 << 20), "from {before} to {after} bytes");
}

#[test]
fn values_longer_than_any_key_are_compared() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (a int4, k text COLLATE \"en-x-icu\");
         INSERT INTO t VALUES (1, 'b'), (2, 'm');
         CREATE INDEX t_k ON t USING bedload (k);
         CREATE INDEX t_ak ON t USING bedload (a, k)",
    );
    execute(&mut client, BY_INDEX);
    let long = |letter: char| format!("repeat('{letter}', 70000)");
    for (condition, expected) in [
        (format!("k > 'a' AND k < {}", long('z')), 2),
        (format!("k > 'a' AND k < {}", long('c')), 1),
        (format!("k = ANY ('{{b,m}}') AND k < {}", long('z')), 2),
        (format!("k > {} AND k < {}", long('c'), long('z')), 1),
        (format!("k > {} AND k < {}", long('z'), long('c')), 0),
        (format!("k = {}", long('b')), 0),
        (format!("a >= 1 AND k > {}", long('z')), 0),
        (format!("a >= 1 AND k < {}", long('z')), 2),
        (format!("a = 2 AND k < {}", long('z')), 1),
        (format!("a = 2 AND k > {}", long('c')), 1),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut client, &query), expected, "{condition}");
    }
}

/// The length of such a value does not fit into the two bytes that a stored one has for it.
#[test]
fn numbers_of_more_than_65535_bytes_are_compared() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE n (k numeric, b int4, c numeric);
         INSERT INTO n SELECT (sign || '1' || repeat('0', 131071))::numeric, b,
                 (sign || '1' || repeat('0', 131071))::numeric
             FROM (VALUES ('', 1), ('-', 2)) AS v (sign, b)",
    );
    execute(&mut client, BY_INDEX);
    let long = |sign: &str, last: char| format!("('{sign}1' || repeat('0', 131070) || '{last}')::numeric");
    for columns in ["k", "k, b", "k DESC, b DESC", "b, k", "k, c"] {
        execute(
            &mut client,
            &format!("CREATE INDEX n_i ON n USING bedload ({columns})"),
        );
        for (condition, expected) in [
            (format!("k < {}", long("-", '1')), 0),
            (format!("k >= {}", long("-", '1')), 2),
            (format!("k > {}", long("", '1')), 0),
            (format!("k <= {}", long("", '1')), 2),
            (format!("k > 0 AND k < {}", long("", '1')), 1),
            (format!("k < 0 AND k > {}", long("-", '1')), 1),
            (format!("k > {} AND k < {}", long("-", '1'), long("", '1')), 2),
            (format!("k > {} AND k < {}", long("", '1'), long("", '2')), 0),
            (format!("k = {}", long("", '1')), 0),
            (format!("k = {} AND b = 1", long("", '1')), 0),
            (format!("k = {} AND b > 0", long("", '0')), 1),
            (format!("k = {} AND c < {}", long("", '0'), long("", '1')), 1),
            (format!("k = {} AND c > {}", long("", '0'), long("", '1')), 0),
            (format!("b = 1 AND k < {}", long("", '1')), 1),
            (format!("b = 2 AND k < {}", long("-", '1')), 0),
            (
                format!(
                    "k = ANY (ARRAY[{}, {}, {}])",
                    long("", '1'),
                    long("", '0'),
                    long("-", '2')
                ),
                1,
            ),
            (
                format!("k < ANY (ARRAY[{}, {}])", long("", '1'), long("-", '1')),
                2,
            ),
        ] {
            let query = format!("SELECT count(*) FROM n WHERE {condition}");
            assert_eq!(number(&mut client, &query), expected, "{condition} by {columns}");
        }
        execute(&mut client, "DROP INDEX n_i");
    }
}

#[test]
fn enums_of_several_types_are_told_apart() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    // A label that was added between others is compared by its place, and not by its number.
    for (number, [first, between, last]) in [["a", "b", "c"], ["x", "y", "z"]].into_iter().enumerate() {
        execute(
            &mut client,
            &format!(
                "CREATE TYPE e{number} AS ENUM ('{first}', '{last}');
                 ALTER TYPE e{number} ADD VALUE '{between}' BEFORE '{last}'"
            ),
        );
        execute(
            &mut client,
            &format!(
                "CREATE TABLE t{number} (k e{number});
                 CREATE INDEX t{number}_k ON t{number} USING bedload (k)"
            ),
        );
    }
    execute(&mut client, BY_INDEX);
    execute(&mut client, "INSERT INTO t0 VALUES ('b'), ('a'), ('c'), ('b')");
    execute(&mut client, "INSERT INTO t1 VALUES ('y'), ('x'), ('z'), ('y')");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t0 WHERE k >= 'b'"), 3);
    assert_eq!(number(&mut client, "SELECT count(*) FROM t1 WHERE k < 'z'"), 3);
    execute(&mut client, "DROP TABLE t0; DROP TYPE e0");
    execute(&mut client, "INSERT INTO t1 VALUES ('y'), ('x')");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t1 WHERE k = 'y'"), 3);
}
