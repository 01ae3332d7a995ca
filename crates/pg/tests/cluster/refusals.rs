//! The refusals of the access method, and their messages.

use crate::cluster::Cluster;
use crate::rows::{check, execute, number};

#[test]
fn what_is_missing_is_refused_with_a_reason() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (k int8, id int8, note text COLLATE ci, spot point);
         INSERT INTO t (note) VALUES ('a'), ('b')",
    );
    for (statement, reason) in [
        (
            "CREATE UNIQUE INDEX ON t USING bedload (note text_hash_ops)",
            "does not support UNIQUE with an operator class that keeps hashes",
        ),
        (
            "CREATE INDEX ON t USING bedload (spot)",
            "no default operator class",
        ),
        (
            "CREATE INDEX ON t USING bedload (note text_pattern_ops)",
            "does not support a nondeterministic collation",
        ),
        (
            "CREATE INDEX ON t USING bedload (k) WITH (fillfactor = 70)",
            "unrecognized parameter \"fillfactor\"",
        ),
        (
            "CREATE INDEX ON t USING bedload (k) WITH (filter_bits = 33)",
            "out of bounds for option \"filter_bits\"",
        ),
        (
            "ALTER TABLE t ADD EXCLUDE USING bedload (k WITH =)",
            "does not support exclusion constraints",
        ),
        ("SELECT bedload_check('t')", "is not an index"),
        (
            "CREATE INDEX b ON t (k); SELECT bedload_check('b')",
            "is not a bedload index",
        ),
    ] {
        let error = client.batch_execute(statement).expect_err(statement);
        let message = error
            .as_db_error()
            .map(postgres::error::DbError::message)
            .unwrap_or_default();
        assert!(message.contains(reason), "{statement}: {message}");
    }
    execute(
        &mut client,
        "CREATE INDEX e ON t USING bedload ((id * 2)) WHERE note IS NULL",
    );
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; DROP EXTENSION bedload CASCADE",
    );
}

/// As a B-tree does it: with the limit, the row, and a way out.
#[test]
fn entries_that_are_too_long_are_refused() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k text, v text, n int4);
         CREATE INDEX t_k ON t USING bedload (k, n) INCLUDE (v);
         INSERT INTO t SELECT repeat('x', 650), repeat('y', 1300), i FROM generate_series(1, 500) i",
    );
    let long = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i)";
    for (row, reason) in [
        (
            format!("{long}, '', 1"),
            "index key size 3208 exceeds bedload maximum 675 for index \"t_k\"",
        ),
        (
            format!("'x', {long}, 1"),
            "index row size 3212 exceeds bedload maximum 2036 for index \"t_k\"",
        ),
    ] {
        let error = client
            .batch_execute(&format!("INSERT INTO t VALUES ({row})"))
            .expect_err(&row);
        let error = error.as_db_error().expect("of the server");
        assert!(error.message().contains(reason), "{}", error.message());
        assert_eq!(error.code().code(), "54000");
        let detail = error.detail().unwrap_or_default();
        assert!(detail.contains("in relation \"t\""), "{detail}");
        assert!(error.hint().is_some_and(|hint| hint.contains("text_hash_ops")));
    }
    check(&mut client, "t_k");
    execute(&mut client, "REINDEX INDEX t_k");
    execute(
        &mut client,
        &format!("DROP INDEX t_k; INSERT INTO t VALUES ({long})"),
    );
    let error = client
        .batch_execute("CREATE INDEX ON t USING bedload (k)")
        .expect_err("too long");
    let message = error.as_db_error().map_or("", postgres::error::DbError::message);
    assert!(message.contains("exceeds bedload maximum"), "{message}");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 501);
}
