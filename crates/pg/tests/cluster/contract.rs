//! The contracts of page stores and of trees, kept by the pages of an index.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{check, create_table, execute, number};

/// Declares the functions that the module has for tests.
pub(crate) fn declare(client: &mut Client) {
    for function in [
        "harness_announced() RETURNS int8[]",
        "harness_first_generation(regclass) RETURNS int8",
        "harness_first_row_for_the_planner(regclass, regclass) RETURNS int8",
        "harness_store_contract(oid[]) RETURNS int8",
        "harness_tree_contract(oid[], int8, int8) RETURNS int8",
        "harness_fail(regclass, text, bool) RETURNS void",
        "harness_can_maintain(regclass) RETURNS bool",
        "harness_held_interrupts() RETURNS int8",
        "harness_interrupts() RETURNS int8[]",
        "harness_lost(regclass) RETURNS int8",
        "harness_memory_of_scans(regclass, regclass, int8) RETURNS int8",
        "harness_raise_at(int4) RETURNS int4",
        "harness_reservation_is_kept(regclass) RETURNS bool",
        "harness_rows_of_a_dirty_scan(regclass, regclass) RETURNS int8",
        "harness_work() RETURNS int8[]",
    ] {
        let name = function.split('(').next().unwrap_or_default();
        execute(
            client,
            &format!(
                "CREATE FUNCTION {function} AS '$libdir/bedload_pg', '{name}_wrapper' LANGUAGE C STRICT"
            ),
        );
    }
}

/// Whether a statement met the point at which it was to; it must not have met another error.
pub(crate) fn is_raised(result: Result<(), postgres::Error>) -> bool {
    let Err(error) = result else { return false };
    let message = error.as_db_error().map_or("", postgres::error::DbError::message);
    assert!(message.contains("raised by the tests"), "{error:?}");
    true
}

#[test]
fn pages_of_an_index_keep_the_contract() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        "CREATE TABLE t (k int8);
         CREATE UNLOGGED TABLE u (k int8);
         DO $$ BEGIN
             FOR i IN 1..100 LOOP
                 EXECUTE format('CREATE INDEX t_%s ON t USING bedload (k)', i);
                 EXECUTE format('CREATE INDEX u_%s ON u USING bedload (k)', i);
             END LOOP;
         END $$",
    );
    for table in ["t", "u"] {
        let indexes = format!("ARRAY(SELECT indexrelid FROM pg_index WHERE indrelid = '{table}'::regclass)");
        assert_eq!(
            number(&mut client, &format!("SELECT harness_store_contract({indexes})")),
            8
        );
    }
    execute(&mut client, "REINDEX TABLE t");
    let indexes = "ARRAY(SELECT indexrelid FROM pg_index WHERE indrelid = 't'::regclass)";
    let used = number(
        &mut client,
        &format!("SELECT harness_tree_contract({indexes}, 4000, 7)"),
    );
    assert!(used >= 8, "{used} trees");
}

/// Pages that a transaction has reserved and not written, as it failed, come back.
#[test]
fn reserved_pages_of_failed_transactions_are_used_again() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let blocks = "SELECT pg_relation_size('t_k') / 8192";
    for _ in 0..40 {
        client
            .batch_execute("SELECT harness_fail('t_k', 'batch', false)")
            .expect_err("it was asked to");
        execute(&mut client, "INSERT INTO t VALUES (1, 1)");
        execute(&mut client, "DELETE FROM t");
        execute(&mut client, "VACUUM t");
    }
    let used = number(&mut client, blocks);
    assert!(used < 30, "{used} blocks");
    check(&mut client, "t_k");
}

/// `VACUUM` has no transaction id that would keep others off the pages that it has reserved.
#[test]
fn a_reserved_page_is_not_handed_out_again() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    assert_eq!(
        number(
            &mut client,
            "SELECT harness_reservation_is_kept('t_k')::int::int8"
        ),
        1
    );
    check(&mut client, "t_k");
}

/// Sessions keep copies of runs by file, page and generation, and the number of a dropped file may
/// be given to another one.
#[test]
fn no_page_of_another_file_has_the_same_generation() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let generation = "SELECT harness_first_generation('t_k')";
    let before = number(&mut client, generation);
    execute(&mut client, "REINDEX INDEX t_k");
    assert!(number(&mut client, generation) > before);
}
