//! `bedload_advise` and `bedload_order`: who would gain, and how far rows are from an index's
//! order.

use postgres::error::SqlState;
use postgres::{Client, Row};

use crate::cluster::Cluster;
use crate::installation::major_version;
use crate::rows::{execute, number, plan};

/// A B-tree of 40,000 rows has some 110 pages of 8 KiB. Shared buffers have room for 16 of them.
const SETTINGS: &str =
    "shared_buffers = 128kB\neffective_cache_size = '1GB'\nmax_connections = 5\nmax_wal_senders = 0";
const ROWS: i64 = 40_000;

fn load(client: &mut Client, name: &str, key: &str) {
    execute(
        client,
        &format!(
            "CREATE TABLE {name} (k int8, note text); CREATE INDEX {name}_k ON {name} (k);
             INSERT INTO {name} SELECT {key}, 'note' FROM generate_series(1, {ROWS}) i"
        ),
    );
}

fn advice(client: &mut Client, index: &str) -> Row {
    let query = format!("SELECT * FROM bedload_advise('{index}')");
    client
        .query_one(&query, &[])
        .unwrap_or_else(|error| panic!("{index}: {error:?}"))
}

fn gain(client: &mut Client, index: &str) -> String {
    advice(client, index).get("gain")
}

#[test]
fn the_order_of_arrival_and_the_memory_decide() {
    let cluster = Cluster::start_with(SETTINGS);
    let mut client = cluster.client();
    load(&mut client, "ascending", "i");
    load(&mut client, "near", "i + 500 * (i % 3)");
    load(&mut client, "random", "i * 7919 % 100003");
    execute(
        &mut client,
        "SET stats_fetch_consistency = none; SELECT pg_stat_force_next_flush()",
    );
    assert_eq!(gain(&mut client, "ascending_k"), "none");
    assert_eq!(gain(&mut client, "near_k"), "none");
    let row = advice(&mut client, "random_k");
    // So little memory has most blocks read from the system, as the server's statistics tell.
    assert_eq!(row.get::<_, String>("gain"), "large");
    let reads: f64 = row.get("blocks_read_per_entry");
    assert!(reads > 0.5, "{reads} blocks an entry");
    let (buffers, cache): (f64, f64) = (row.get("beyond_shared_buffers"), row.get("beyond_cache"));
    assert!(buffers > 0.5 && cache == 0.0, "{buffers} {cache}");
    assert_eq!(
        row.get::<_, String>("statement"),
        "CREATE INDEX CONCURRENTLY random_k_bedload ON public.random USING bedload (k)"
    );
    // Without the server's statistics it is the size that tells.
    execute(&mut client, "SELECT pg_stat_reset()");
    assert_eq!(gain(&mut client, "random_k"), "some");
    execute(&mut client, "SET effective_cache_size = '64kB'");
    assert_eq!(gain(&mut client, "random_k"), "large");
    assert_eq!(gain(&mut client, "near_k"), "none");
    // Its advice can be followed.
    let statement: String = advice(&mut client, "random_k").get("statement");
    execute(&mut client, &statement);
    assert_eq!(
        number(
            &mut client,
            "SELECT entries FROM bedload_stats('random_k_bedload')"
        ),
        ROWS
    );
}

/// With memory for all of it, an index stays where it is.
#[test]
fn what_fits_into_memory_gains_nothing() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    load(&mut client, "random", "i * 7919 % 100003");
    let row = advice(&mut client, "random_k");
    assert_eq!(row.get::<_, String>("gain"), "none");
    assert_eq!(
        row.get::<_, String>("reason"),
        "100 % of the rows belong into leaves that are in shared_buffers"
    );
    assert_eq!(row.get::<_, Option<String>>("statement"), None);
    execute(&mut client, "TRUNCATE random; INSERT INTO random VALUES (1, '')");
    let reason: String = advice(&mut client, "random_k").get("reason");
    assert_eq!(reason, "fewer than 1000 rows were sampled");
}

#[test]
fn indexes_that_have_to_be_b_trees_are_told() {
    let cluster = Cluster::start_with(SETTINGS);
    let mut client = cluster.client();
    execute(
        &mut client,
        &format!(
            "CREATE TABLE t (id int8 PRIMARY KEY, k int8, tags int4[], code text COLLATE \"C\", who uuid);
             INSERT INTO t SELECT i * 7919 % 100003, i * 7919 % 100003, ARRAY[i], md5(i::text), md5(i::text)::uuid
                 FROM generate_series(1, {ROWS}) i;
             CREATE UNIQUE INDEX t_unique ON t (k); CREATE TABLE u (k int8 REFERENCES t (k));
             CREATE UNIQUE INDEX t_both ON t (k, id);
             CREATE INDEX t_tags ON t (tags);
             CREATE INDEX t_code ON t (code text_pattern_ops DESC, (k % 7) NULLS FIRST) INCLUDE (id)
                 WITH (fillfactor = 70) WHERE k > 10;
             CREATE INDEX t_like ON t (code varchar_pattern_ops, code varchar_ops DESC);
             CREATE INDEX t_who ON t (who); CREATE INDEX t_hash ON t USING hash (k);
             CREATE TABLE p (k int8) PARTITION BY HASH (k); CREATE INDEX p_k ON p (k)"
        ),
    );
    for (index, reason) in [
        (
            "t_pkey",
            "it belongs to constraint \"t_pkey\", and constraints need B-trees",
        ),
        (
            "t_unique",
            "foreign key \"u_k_fkey\" points to it, and keeps it from being dropped",
        ),
        ("t_tags", "bedload has no operator class like array_ops of tags"),
    ] {
        let row = advice(&mut client, index);
        assert_eq!(row.get::<_, String>("gain"), "none", "{index}");
        assert_eq!(row.get::<_, String>("reason"), reason);
    }
    let both: String = advice(&mut client, "t_both").get("reason");
    let is_warned = both.contains("INSERT ON CONFLICT is refused");
    assert_eq!(is_warned, major_version() < 18, "{both}");
    for index in ["t_both", "t_code", "t_who"] {
        let row = advice(&mut client, index);
        assert_ne!(row.get::<_, String>("gain"), "none", "{index}");
        let statement: String = row.get("statement");
        execute(&mut client, &statement);
        let same = "SELECT (pg_get_indexdef(a.oid) = regexp_replace(replace(replace(pg_get_indexdef(b.oid),
                 'USING bedload', 'USING btree'), ' uuid_ordered_ops', ''), '_bedload', ''))::int::int8
             FROM pg_class a, pg_class b WHERE a.relname = $1 AND b.relname = $1 || '_bedload'";
        let same: i64 = client.query_one(same, &[&index]).expect("both").get(0);
        // There is no fillfactor.
        assert_eq!(same == 1, index != "t_code", "{statement}");
    }
    // Other names of classes of text.
    let statement: String = advice(&mut client, "t_like").get("statement");
    assert!(
        statement.ends_with("USING bedload (code public.text_pattern_ops, code public.text_ops DESC)"),
        "{statement}"
    );
    execute(&mut client, &statement);
    for (index, message) in [
        ("t", "is not an index"),
        ("t_hash", "\"t_hash\" is not a B-tree"),
        ("t_who_bedload", "\"t_who_bedload\" is not a B-tree"),
        ("p_k", "\"p_k\" is partitioned"),
    ] {
        let refused = client.query(&format!("SELECT bedload_advise('{index}')"), &[]);
        let refused = refused.expect_err(index);
        let found = refused
            .as_db_error()
            .map_or("", postgres::error::DbError::message);
        assert!(found.contains(message), "{index}: {found}");
    }
}

/// Indexes on `"t ON u USING btree (k)"`: their names, their definitions behind `ON` and the table,
/// and an order that they have. Names, expressions and predicates look like parts of a statement,
/// and bedload has some of the operator classes under other names.
const ADVISED: [(&str, &str, &str); 13] = [
    ("x ON victim (k); DROP TABLE victim; --", "(k)", "k"),
    ("x\" ON victim (k) WHERE (\"k", "(k DESC)", "k DESC"),
    (
        "ééééééééééééééééééééééééééééééé",
        "(k DESC NULLS LAST)",
        "k DESC NULLS LAST",
    ),
    (
        "t_text",
        "((\"c WITH (d)\" || ' USING btree ('), k) WITH (fillfactor = 70)",
        "\"c WITH (d)\" || ' USING btree (', k",
    ),
    (
        "t_part",
        "(k) INCLUDE (\"c WITH (d)\") WITH (fillfactor = 70, deduplicate_items = off)
             WHERE \"c WITH (d)\" <> ') WITH (x = 1) WHERE varchar_ops'",
        "k",
    ),
    ("t_who", "(who)", "who"),
    ("t_who_k", "(who DESC, k NULLS FIRST)", "who DESC, k NULLS FIRST"),
    ("t_host", "(host cidr_ops)", "host"),
    ("t_net", "(net DESC)", "net DESC"),
    ("t_code", "(code, k)", "code, k"),
    (
        "t_pattern",
        "(code varchar_pattern_ops, \"c WITH (d)\" COLLATE \"C\")",
        "code USING ~<~, \"c WITH (d)\" COLLATE \"C\"",
    ),
    ("t_padded", "(code bpchar_ops)", "code::bpchar"),
    (
        "t_lower",
        "(lower(code), upper(code) COLLATE \"POSIX\" DESC)",
        "lower(code), upper(code) COLLATE \"POSIX\" DESC",
    ),
];

/// The plan of an ordered query, without the name of its index, and the keys of its rows.
fn read_in_order(client: &mut Client, query: &str, index: &str) -> (String, Vec<i64>) {
    let plan = plan(client, &format!("(COSTS OFF) {query}"));
    let using = format!(" using {index} on ");
    assert!(
        plan.contains(&using) && !plan.contains("Sort"),
        "{query} is not ordered by {index}:\n{plan}"
    );
    let keys = client.query_one(&format!("SELECT array_agg(k) FROM ({query}) s"), &[]);
    (plan.replace(&using, " "), keys.expect("rows").get(0))
}

/// Each statement that is advised can be executed, and builds an index with the B-tree's order.
#[test]
fn advised_indexes_have_the_order_of_the_b_tree() {
    let cluster = Cluster::start_with(SETTINGS);
    let mut client = cluster.client();
    let table = "\"t ON u USING btree (k)\"";
    execute(
        &mut client,
        &format!(
            "CREATE TABLE victim (k int8);
             CREATE TABLE {table} (k int8, \"c WITH (d)\" text, who uuid, host inet, net cidr, code varchar(40));
             INSERT INTO {table} SELECT k, md5(k::text), md5(k::text)::uuid, host, host, md5(k::text)
                 FROM generate_series(1, {ROWS}) i, LATERAL (SELECT i * 7919 % 100003 AS k) a,
                     LATERAL (SELECT '10.0.0.0'::inet + k AS host) b;
             SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0"
        ),
    );
    execute(&mut client, &format!("ANALYZE {table}"));
    for unique in ["", "UNIQUE"] {
        for (name, definition, order) in ADVISED {
            let quoted = client.query_one("SELECT quote_ident($1)", &[&name]);
            let quoted: String = quoted.expect("a name").get(0);
            execute(
                &mut client,
                &format!("CREATE {unique} INDEX {quoted} ON {table} {definition}"),
            );
            let statement: Option<String> = advice(&mut client, &quoted).get("statement");
            let statement = statement.unwrap_or_else(|| panic!("{name} has no advice"));
            let condition = definition
                .split_once(" WHERE ")
                .map_or("true", |(_, condition)| condition);
            let query = format!("SELECT * FROM {table} WHERE {condition} ORDER BY {order} LIMIT 10");
            let by_tree = read_in_order(&mut client, &query, &quoted);
            execute(&mut client, &statement);
            execute(&mut client, &format!("DROP INDEX {quoted}"));
            let others = "SELECT quote_ident(relname) FROM pg_class JOIN pg_am ON pg_am.oid = relam
                 WHERE amname = 'bedload'";
            let other: String = client.query_one(others, &[]).expect("one").get(0);
            assert_eq!(read_in_order(&mut client, &query, &other), by_tree, "{statement}");
            execute(&mut client, &format!("DROP INDEX {other}"));
        }
    }
    assert_eq!(number(&mut client, "SELECT count(*) FROM victim"), 0);
}

/// K and L of sequences whose K and L are known.
#[test]
fn k_and_l_are_measured() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let mut order = |index: &str, definition: &str| -> (Option<i64>, Option<f64>, Option<f64>) {
        execute(
            &mut client,
            &format!("DROP INDEX IF EXISTS {index}; CREATE INDEX {index} ON {definition}"),
        );
        let query = format!("SELECT rows, k_share, l_share FROM bedload_order('{index}')");
        let row = client.query_one(&query, &[]).expect("a measure");
        (row.get(0), row.get(1), row.get(2))
    };
    let mut other = cluster.client();
    // Each tenth row comes 50 rows late; of them each third has a name.
    execute(
        &mut other,
        "CREATE TABLE t (k int8, name text, at date);
         INSERT INTO t SELECT CASE WHEN i % 10 = 0 THEN i * 2 - 101 ELSE i * 2 END, 'x' || i, date '2020-01-01' + i
             FROM generate_series(1, 20000) i",
    );
    let (rows, k, l) = order("t_k", "t USING bedload (k)");
    assert_eq!(rows, Some(20_000));
    let (k, l) = (k.expect("a share"), l.expect("a share"));
    assert!((0.099..=0.101).contains(&k), "K is {k}");
    assert!((0.0022..=0.0028).contains(&l), "L is {l}");
    assert_eq!(
        order("t_k", "t (k)"),
        (rows, Some(k), Some(l)),
        "a B-tree has the same order"
    );
    assert_eq!(
        order("t_at", "t USING bedload (at)"),
        (rows, Some(0.0), Some(0.0))
    );
    // Backwards, and a part of the rows.
    let (rows, k, l) = order("t_at", "t USING bedload (at DESC) WHERE k % 3 = 0");
    let rows = rows.expect("a number");
    assert!((6000..7000).contains(&rows), "{rows} rows");
    assert_eq!(k, Some((rows - 1) as f64 / rows as f64));
    assert_eq!(l, Some((rows - 1) as f64 / rows as f64));
    let (_, k, _) = order("t_md5", "t USING bedload ((md5(name) COLLATE \"C\"))");
    assert!(k.is_some_and(|k| k > 0.9), "an expression: {k:?}");
    for method in [
        "bedload (name text_hash_ops)",
        "hash (k)",
        "brin (k)",
        "gin (to_tsvector('simple', name))",
    ] {
        let found = order("t_name", &format!("t USING {method}"));
        assert_eq!(found, (None, None, None), "{method}");
    }
    execute(&mut other, "CREATE TABLE empty (k int8)");
    assert_eq!(
        order("e_k", "empty USING bedload (k)"),
        (Some(0), Some(0.0), Some(0.0))
    );
    // A sample of a larger table.
    execute(
        &mut other,
        "INSERT INTO empty SELECT i FROM generate_series(1, 400000) i",
    );
    let (rows, k, _) = order("e_k", "empty USING bedload (k)");
    assert!(
        rows.is_some_and(|rows| (20_000..200_000).contains(&rows)),
        "{rows:?} rows"
    );
    assert_eq!(k, Some(0.0));
}

/// Expressions of an index belong to its owner, who must not get the rights of the superuser that
/// looks at the index.
#[test]
fn expressions_run_as_the_owner_of_the_table() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE ROLE owner; CREATE SCHEMA own AUTHORIZATION owner; SET ROLE owner;
         CREATE TABLE own.seen (who text);
         CREATE FUNCTION own.spy(k int8) RETURNS int8 IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
             IF current_user <> 'owner' THEN RAISE EXCEPTION 'run by %', current_user; END IF;
             PERFORM set_config('work_mem', '64kB', false);
             RETURN k;
         END $$;
         CREATE TABLE own.t (k int8); INSERT INTO own.t SELECT generate_series(1, 2000);
         CREATE INDEX t_spy ON own.t USING bedload (own.spy(k)); CREATE INDEX t_tree ON own.t (own.spy(k));
         CREATE INDEX t_fixed ON own.t USING bedload ((k + own.spy(7))) WHERE k > own.spy(0);
         CREATE INDEX t_fixed_tree ON own.t ((k + own.spy(7))) WHERE k > own.spy(0);
         RESET ROLE",
    );
    // A session remembers what the server has made of an index's expressions, so each question gets
    // a new one: functions of constants are called as they are simplified.
    for query in [
        "SELECT bedload_check('own.t_spy')",
        "SELECT bedload_order('own.t_spy')",
        "SELECT bedload_advise('own.t_tree')",
        "SELECT bedload_check('own.t_fixed')",
        "SELECT bedload_check('own.t_fixed', false)",
        "SELECT bedload_info('own.t_fixed')",
        "SELECT bedload_stats('own.t_fixed')",
        "SELECT bedload_work('own.t_fixed')",
        "SELECT bedload_order('own.t_fixed')",
        "SELECT bedload_order('own.t_fixed_tree')",
        "SELECT bedload_advise('own.t_fixed_tree')",
        "SELECT bedload_drain('own.t_fixed')",
        "SELECT bedload_sweep('own.t_fixed')",
    ] {
        let mut client = cluster.client();
        execute(&mut client, "SET work_mem = '5MB'");
        client
            .query(query, &[])
            .unwrap_or_else(|error| panic!("{query}: {error:?}"));
        let after = client.query_one("SELECT current_user::text, current_setting('work_mem')", &[]);
        let after = after.expect("a row");
        assert_eq!((after.get(0), after.get(1)), ("postgres", "5MB"), "{query}");
    }
    execute(&mut client, "GRANT pg_monitor TO owner; SET ROLE owner");
    assert_eq!(gain(&mut client, "own.t_tree"), "none");
    let refused = client.query("SELECT bedload_check('own.t_spy', false)", &[]);
    assert_eq!(
        refused
            .expect_err("refused")
            .code()
            .map(|code| code.code().to_owned()),
        Some("42501".to_owned())
    );
}

/// Functions of the server that the queries of `bedload_order` and `bedload_advise` call, each with
/// one parameter type list that they are called with.
const CALLED: [(&str, &str, &str, &str); 5] = [
    ("pg_indexam_has_property", "oid, text", "bool", "true"),
    ("pg_get_indexdef", "oid, int4, bool", "text", "'ctid'"),
    ("pg_get_expr", "pg_node_tree, oid", "text", "'true'"),
    ("quote_ident", "name", "text", "'k'"),
    ("pg_relation_size", "oid", "int8", "1"),
];

/// A user who may ask for advice must not choose what runs with the rights of a table's owner, nor
/// one who can create functions in a superuser's search path what that superuser runs.
#[test]
fn queries_call_the_servers_functions() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE ROLE m IN ROLE pg_monitor; CREATE SCHEMA evil AUTHORIZATION m;
         CREATE TABLE t (k int4[]); CREATE INDEX t_k ON t (k); SET ROLE m",
    );
    for (name, parameters, result, value) in CALLED {
        execute(
            &mut client,
            &format!(
                "CREATE FUNCTION evil.{name}({parameters}) RETURNS {result} LANGUAGE plpgsql AS $$ BEGIN
                     BEGIN EXECUTE 'ALTER ROLE m SUPERUSER'; EXCEPTION WHEN insufficient_privilege THEN END;
                     RETURN {value};
                 END $$"
            ),
        );
    }
    execute(
        &mut client,
        "CREATE FUNCTION evil.minus(a int8, b int4) RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN
             BEGIN EXECUTE 'ALTER ROLE m SUPERUSER'; EXCEPTION WHEN insufficient_privilege THEN END;
             RETURN a;
         END $$;
         CREATE OPERATOR evil.- (FUNCTION = evil.minus, LEFTARG = int8, RIGHTARG = int4)",
    );
    let ask = |client: &mut Client, role: &str| {
        let path = "evil, pg_temp, pg_catalog, public";
        execute(client, &format!("{role}; SET search_path = {path}"));
        for query in [
            "SELECT bedload_order('pg_class_oid_index')",
            "SELECT bedload_order('public.t_k')",
            "SELECT bedload_advise('pg_class_oid_index')",
            "SELECT bedload_advise('public.t_k')",
        ] {
            client
                .query(query, &[])
                .unwrap_or_else(|error| panic!("{query}: {error:?}"));
        }
        let after = client.query_one("SELECT pg_catalog.current_setting('search_path')", &[]);
        assert_eq!(after.expect("a row").get::<_, &str>(0), path);
        let powers = "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = 'm' AND rolsuper";
        assert_eq!(number(client, powers), 0, "{role}: m has become a superuser");
    };
    ask(&mut client, "SET ROLE m");
    ask(&mut client, "RESET ROLE");
    // Temporary tables come last, too.
    execute(&mut client, "CREATE TEMP TABLE pg_index (indexrelid oid)");
    ask(&mut client, "SET ROLE m");
}

/// A function of an index whose own calls depend on the search path of whoever asks: they are not
/// answered by functions of another user. The index is built before there are rows, because since
/// version 17 builds, too, have a search path without the function.
#[test]
fn expressions_call_no_functions_of_the_asking_user() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE ROLE owner; CREATE ROLE m IN ROLE pg_monitor;
         CREATE SCHEMA own AUTHORIZATION owner; CREATE SCHEMA evil AUTHORIZATION m;
         GRANT USAGE ON SCHEMA own, evil TO PUBLIC;
         SET ROLE owner; SET search_path = own, public;
         CREATE FUNCTION own.inner_of(k int8) RETURNS int8 IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN k; END';
         CREATE FUNCTION own.outer_of(k int8) RETURNS int8 IMMUTABLE LANGUAGE plpgsql AS
             'BEGIN RETURN inner_of(k); END';
         CREATE TABLE t (k int8); CREATE INDEX t_outer ON t USING bedload (outer_of(k));
         INSERT INTO t SELECT generate_series(1, 2000);
         SET ROLE m;
         CREATE FUNCTION evil.inner_of(k int8) RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN
             IF current_user = 'owner' THEN RAISE EXCEPTION USING ERRCODE = 'ZZ001'; END IF;
             RETURN k;
         END $$;
         SET search_path = evil, public",
    );
    let refused = client
        .query("SELECT bedload_order('own.t_outer')", &[])
        .expect_err("a function without its schema");
    assert_eq!(refused.code(), Some(&SqlState::UNDEFINED_FUNCTION), "{refused:?}");
}
