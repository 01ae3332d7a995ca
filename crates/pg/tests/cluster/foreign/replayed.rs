//! The answers of a standby by the indexes that a suite has left, beside what it answers by table.

use postgres::Client;

use crate::rows::{execute, plan};

/// Valid indexes of the extension whose files a standby has: of each its name and a query of the
/// addresses of its rows, in its order.
const QUERIES: &str = "
    SELECT c.relname, format('SELECT ctid::text FROM ONLY %I.%I %s ORDER BY %s', tn.nspname, t.relname,
            'WHERE ' || pg_get_expr(i.indpred, i.indrelid),
            (SELECT string_agg(format('(%s) %s NULLS %s', pg_get_indexdef(i.indexrelid, at, false),
                    CASE i.indoption[at - 1] & 1 WHEN 0 THEN 'ASC' ELSE 'DESC' END,
                    CASE i.indoption[at - 1] & 2 WHEN 0 THEN 'LAST' ELSE 'FIRST' END), ', ' ORDER BY at)
                FROM generate_series(1, i.indnkeyatts) at))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am ON pg_am.oid = c.relam
        JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
    WHERE amname = 'bedload' AND c.relkind = 'i' AND i.indisvalid AND c.relpersistence = 'p'
    ORDER BY c.oid";

/// Asserts that each index that can be read in its order has the rows of its table; returns how
/// many can.
pub(super) fn same_answers(standby: &mut Client) -> usize {
    let queries = standby.query(QUERIES, &[]).expect("indexes");
    let mut compared = 0;
    for row in queries {
        let (index, query): (String, String) = (row.get(0), row.get(1));
        execute(
            standby,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_indexscan = on;
             SET enable_indexonlyscan = on",
        );
        if !plan(standby, &query).contains(&format!(" {index} on ")) {
            continue;
        }
        let [by_index, by_table] = ["", "SET enable_seqscan = on; SET enable_sort = on; SET enable_indexscan = off; SET enable_indexonlyscan = off"]
            .map(|settings| {
                execute(standby, settings);
                let rows = standby.query(&query, &[]);
                let rows = rows.unwrap_or_else(|error| panic!("{query}: {error:?}"));
                let mut rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
                rows.sort_unstable();
                rows
            });
        assert_eq!(by_index, by_table, "{index}: {query}");
        compared += 1;
    }
    compared
}
