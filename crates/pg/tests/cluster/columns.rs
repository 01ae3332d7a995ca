//! Indexes of several columns, beside sequential scans and sorts: random columns, rows, changes and
//! queries.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{Rng, check, execute, number, pages_of, plan};
use crate::schema::Schema;
use crate::settings::setting;

/// Rows as they are, sorted, and their keys in order, equal ones alike.
type Rows = (Vec<String>, Vec<String>);

/// How rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Table,
    Index,
    IndexOnly,
    Bitmap,
}

impl Shape {
    fn settings(self) -> String {
        let on = |shapes: &[Self]| if shapes.contains(&self) { "on" } else { "off" };
        format!(
            "SET enable_seqscan = {table}; SET enable_sort = {sorts}; SET enable_indexscan = {index};
             SET enable_indexonlyscan = {only}; SET enable_bitmapscan = {bitmap}; SET enable_incremental_sort = off",
            table = on(&[Self::Table]),
            sorts = on(&[Self::Table, Self::Bitmap]),
            index = on(&[Self::Index, Self::IndexOnly]),
            only = on(&[Self::IndexOnly]),
            bitmap = on(&[Self::Bitmap]),
        )
    }

    fn node(self) -> &'static str {
        match self {
            Self::Table => "Seq Scan on t",
            Self::Index => "Index Scan",
            Self::IndexOnly => "Index Only Scan",
            Self::Bitmap => "Bitmap Index Scan on t_k",
        }
    }
}

impl Schema {
    /// Whether entries are integers that do not tell both zeros apart.
    fn is_one_float(&self) -> bool {
        self.all().count() == 1 && self.columns[0].of.name.starts_with("float")
    }

    fn read(
        &self,
        client: &mut Client,
        shape: Shape,
        condition: &str,
        order: &str,
    ) -> (Vec<String>, Vec<String>) {
        execute(client, &shape.settings());
        let exact: Vec<String> = self.all().map(|(name, _)| format!("{name}::text")).collect();
        let alike: Vec<String> = self
            .keys()
            .map(|(name, column)| column.of.alike.replace("{c}", &name))
            .collect();
        let id = if shape == Shape::IndexOnly { "0" } else { "id" };
        let id = if order.contains("INDEX ONLY") { "0" } else { id };
        let query = format!(
            "SELECT ROW({id}, {})::text, ROW({})::text FROM t WHERE {condition} ORDER BY {}",
            exact.join(", "),
            alike.join(", "),
            order.replace(" INDEX ONLY", "")
        );
        let plan = plan(client, &query);
        // All of an index is not read into a bitmap.
        let is_all = shape == Shape::Bitmap && plan.contains("Index Scan using");
        // Version 18 sees that two constants cannot both be equal to a column.
        let is_none = plan.contains("One-Time Filter: false");
        assert!(
            is_all || is_none || plan.contains(shape.node()),
            "{query}:\n{plan}"
        );
        assert!(
            is_none || shape == Shape::Table || shape == Shape::Bitmap || !plan.contains("Sort"),
            "{query}:\n{plan}"
        );
        let rows = client
            .query(&query, &[])
            .unwrap_or_else(|error| panic!("{query}: {error:?}"));
        let mut exact: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        exact.sort();
        (exact, rows.iter().map(|row| row.get(1)).collect())
    }

    /// Asserts that some queries find by index what they find by table.
    fn compare(&self, client: &mut Client, rng: &mut Rng, queries: usize) {
        for _ in 0..queries {
            let (condition, order) = self.query(client, rng);
            let described = || {
                let columns = self
                    .all()
                    .map(|(name, column)| format!("{name} {} {}", column.of.name, column.order));
                format!("{}\n{condition}\n{order}", columns.collect::<Vec<_>>().join(", "))
            };
            let index_only = format!("{order} INDEX ONLY");
            for (order, shapes) in [
                (&order, &[Shape::Index, Shape::Bitmap][..]),
                (&index_only, &[Shape::IndexOnly]),
            ] {
                let expected = self.read(client, Shape::Table, &condition, order);
                for &shape in shapes {
                    let is_offered = match shape {
                        Shape::Bitmap => condition != "true",
                        Shape::IndexOnly => !self.is_one_float(),
                        _ => true,
                    };
                    if !is_offered {
                        continue;
                    }
                    let found = self.read(client, shape, &condition, order);
                    assert_same(&found, &expected, &|| format!("{shape:?}: {}", described()));
                }
            }
        }
        execute(client, "RESET ALL");
    }
}

/// Asserts that the rows are the same, without showing all of them.
fn assert_same(found: &Rows, expected: &Rows, described: &dyn Fn() -> String) {
    let differ = |(found, expected): (&Vec<String>, &Vec<String>)| {
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        let at = at.or_else(|| (found.len() != expected.len()).then(|| found.len().min(expected.len())))?;
        Some(format!(
            "{} rows for {}, at {at} {:?} for {:?}",
            found.len(),
            expected.len(),
            found.get(at),
            expected.get(at)
        ))
    };
    for difference in [(&found.0, &expected.0), (&found.1, &expected.1)] {
        if let Some(difference) = differ(difference) {
            panic!("{difference}\n{}", described());
        }
    }
}

#[test]
fn indexes_of_several_columns_have_what_their_tables_have() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'",
    );
    for seed in 1..=setting("BEDLOAD_PG_SCHEMAS", 16) {
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let schema = Schema::random(&mut rng);
        schema.create(&mut client);
        schema.compare(&mut client, &mut rng, 3);
        // Pending entries, those in the head, and those that were pushed down.
        for first in (2001..2060).step_by(10) {
            execute(
                &mut client,
                &format!("INSERT INTO t {}", schema.rows(first, first + 9)),
            );
        }
        execute(&mut client, "DELETE FROM t WHERE id % 5 = 0");
        execute(
            &mut client,
            &format!("BEGIN; INSERT INTO t {}", schema.rows(3001, 3200)),
        );
        execute(
            &mut client,
            &format!("SAVEPOINT s; INSERT INTO t {}", schema.rows(3201, 3300)),
        );
        execute(
            &mut client,
            "ROLLBACK TO s; UPDATE t SET id = id WHERE id % 7 = 0",
        );
        schema.compare(&mut client, &mut rng, 3);
        execute(&mut client, "COMMIT");
        schema.compare(&mut client, &mut rng, 2);
        check(&mut client, "t_k");
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        schema.compare(&mut client, &mut rng, 3);
        check(&mut client, "t_k");
        assert_eq!(
            number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
            number(&mut client, "SELECT count(*) FROM t")
        );
    }
}

/// Both joins read their inputs by index, and go back to where equal keys begin.
#[test]
fn merge_joins_of_several_columns_return_to_their_marks() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE a (device text COLLATE \"C\", at int4, n int4);
         CREATE TABLE b (LIKE a);
         INSERT INTO a SELECT 'device ' || i % 7, i % 40, i FROM generate_series(1, 1500) i;
         INSERT INTO b SELECT 'device ' || i % 9, i % 50, i FROM generate_series(1, 1500) i;
         CREATE INDEX a_k ON a USING bedload (device, at DESC);
         CREATE INDEX b_k ON b USING bedload (device, at DESC);
         INSERT INTO b SELECT 'device ' || i % 9, i % 50, i FROM generate_series(1, 200) i;
         ANALYZE a, b",
    );
    let query =
        "SELECT count(*) || '/' || sum(a.n::int8 * b.n) FROM a JOIN b USING (device, at) WHERE a.at > 3";
    let answer = |client: &mut Client| client.query_one(query, &[]).expect("a row").get::<_, String>(0);
    let expected = answer(&mut client);
    execute(
        &mut client,
        "SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SET enable_seqscan = off;
         SET enable_material = off; SET enable_bitmapscan = off",
    );
    let plan = plan(&mut client, query);
    assert!(
        plan.contains("Merge Join") && plan.contains("a_k") && plan.contains("b_k"),
        "{plan}"
    );
    assert_eq!(answer(&mut client), expected);
}

/// Listed values of several columns are ranges of the index, in its order both ways; those of a
/// cursor too.
#[test]
fn listed_values_come_in_order() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, n int4);
         INSERT INTO t SELECT i % 100, i FROM generate_series(1, 5000) i;
         CREATE INDEX t_k ON t USING bedload (k);
         CREATE INDEX t_n ON t USING bedload (k, n DESC);
         SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off",
    );
    let mut ids = |query: &str| -> Vec<i64> {
        let plan = plan(&mut client, query);
        assert!(
            plan.contains("Index") && !plan.contains("Sort") && !plan.contains("Filter"),
            "{plan}"
        );
        let rows = client.query(query, &[]).expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    };
    let listed = "k = ANY ('{7, 3, 300, null, 7, -1, 50}')";
    let keys = ids(&format!("SELECT k FROM t WHERE {listed} ORDER BY k"));
    assert!(keys.is_sorted());
    assert_eq!(keys.len(), 150);
    let keys = ids(&format!(
        "SELECT k FROM t WHERE {listed} ORDER BY k DESC LIMIT 60"
    ));
    assert_eq!([keys[0], keys[49], keys[50], keys[59]], [50, 50, 7, 7]);
    let found =
        ids("SELECT n::int8 FROM t WHERE k = ANY ('{3, 7}') AND n = ANY ('{107, 103, 3, 5}') AND n > 2");
    assert_eq!(found, [103, 3, 107]);
    execute(
        &mut client,
        &format!("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT k FROM t WHERE {listed} ORDER BY k"),
    );
    let mut fetch = |step: &str| -> Vec<i64> {
        let rows = client.query(&format!("FETCH {step} FROM c"), &[]).expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(fetch("FORWARD 60")[49..51], [3, 7]);
    assert_eq!(fetch("BACKWARD 20")[8..10], [7, 3]);
    assert_eq!(fetch("FORWARD ALL").len(), 110);
    assert_eq!(fetch("BACKWARD ALL").len(), 150);
    assert_eq!(fetch("FORWARD 1"), [3]);
}

/// Filters of runs are asked for the one key that a query names by all columns.
#[test]
fn one_key_of_several_columns_is_looked_up_by_filters() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    for of in ["int4", "numeric", "text COLLATE \"en-x-icu\""] {
        execute(
            &mut client,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (device {of}, at int8);
                 CREATE INDEX t_k ON t USING bedload (device, at);
                 SET enable_seqscan = off; SET enable_bitmapscan = off"
            ),
        );
        let device = |at: &str| format!("({at} * 7919 % 20011)::{}", of.split(' ').next().unwrap_or(of));
        for first in (0..20_000).step_by(2000) {
            let rows = format!(
                "SELECT {}, i FROM generate_series({first}, {first} + 1999) i",
                device("i")
            );
            execute(&mut client, &format!("INSERT INTO t {rows}"));
        }
        let pages = |client: &mut Client, condition: &str| {
            let query = format!("SELECT * FROM t WHERE {condition}");
            client.query(&query, &[]).expect("the catalogues in memory");
            pages_of(client, &query)
        };
        let by_all = pages(&mut client, &format!("device = {} AND at = 11", device("11")));
        let by_one = pages(&mut client, &format!("device = {}", device("11")));
        assert!(by_all < by_one, "{of}: {by_all} pages, {by_one} without filters");
    }
}

/// Columns may be expressions, and the index may have some of the rows.
#[test]
fn expressions_of_some_rows_are_indexed() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (name text, n int4);
         INSERT INTO t SELECT 'Name ' || i % 50, i FROM generate_series(1, 2000) i;
         CREATE INDEX t_k ON t USING bedload (lower(name), (n % 10) DESC) INCLUDE (n) WHERE n > 500;
         INSERT INTO t SELECT 'NAME ' || i % 50, i FROM generate_series(2001, 2100) i;
         ANALYZE t",
    );
    let query = "SELECT count(*) FROM t WHERE lower(name) = 'name 7' AND n % 10 >= 7 AND n > 500";
    let expected = number(&mut client, query);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let plan = plan(&mut client, query);
    assert!(plan.contains("using t_k"), "{plan}");
    assert_eq!((number(&mut client, query), expected), (32, 32));
    execute(
        &mut client,
        "UPDATE t SET n = n - 1000 WHERE lower(name) = 'name 7'",
    );
    assert_eq!(number(&mut client, query), 12);
    check(&mut client, "t_k");
}
