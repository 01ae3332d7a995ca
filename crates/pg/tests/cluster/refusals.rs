//! What the access method refuses, and what it says then.

use crate::cluster::Cluster;
use crate::rows::execute;

#[test]
fn what_is_missing_is_refused_with_a_reason() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, note text, m numeric)",
    );
    for (statement, reason) in [
        (
            "CREATE UNIQUE INDEX ON t USING bedload (k)",
            "does not support unique indexes",
        ),
        (
            "CREATE INDEX ON t USING bedload (k, id)",
            "does not support multicolumn indexes",
        ),
        (
            "CREATE INDEX ON t USING bedload (k) INCLUDE (id)",
            "does not support included columns",
        ),
        (
            "CREATE INDEX ON t USING bedload (note)",
            "no default operator class",
        ),
        ("CREATE INDEX ON t USING bedload (m)", "no default operator class"),
        (
            "CREATE INDEX ON t USING bedload (k NULLS FIRST)",
            "keeps nulls behind all values",
        ),
        (
            "CREATE INDEX ON t USING bedload (k DESC NULLS LAST)",
            "keeps nulls behind all values",
        ),
        (
            "CREATE INDEX ON t USING bedload (k) WITH (fillfactor = 70)",
            "has no storage parameters",
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
