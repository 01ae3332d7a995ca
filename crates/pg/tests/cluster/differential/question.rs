//! Random queries.

use postgres::Client;

use super::Table;
use crate::rows::Rng;
use crate::schema::{index, swapped};

/// How a query may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Table,
    Index,
    Bitmap,
}

impl Way {
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Table => {
                "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_sort = on;
                 SET enable_indexonlyscan = off"
            }
            Self::Index => {
                "SET enable_seqscan = off; SET enable_indexscan = on; SET enable_bitmapscan = off; SET enable_sort = off;
                 SET enable_indexonlyscan = on"
            }
            Self::Bitmap => {
                "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = on; SET enable_sort = on;
                 SET enable_indexonlyscan = off"
            }
        }
    }
}

pub(super) struct Question {
    /// Rows, `e` as they are and `a` with equal keys alike, in order.
    pub(super) rows: String,
    /// How many they are, a sum over `e` and a digest of `a`, in order.
    pub(super) digest: String,
}

impl Question {
    pub(super) fn random(table: &Table, client: &mut Client, rng: &mut Rng) -> Self {
        if rng.below(8) == 0 && table.keys.iter().all(|key| !key.contains('(')) {
            return Self::joined(table, rng);
        }
        let mut conditions = Vec::new();
        let columns = || table.schema.columns.iter().zip(&table.keys);
        for (column, key) in columns() {
            for _ in 0..rng.below(3) {
                conditions.push(column.condition(client, rng, key));
            }
        }
        if rng.below(6) == 0 && table.keys.len() > 1 {
            let (first, second) = (&table.schema.columns[0], &table.schema.columns[1]);
            let (a, b) = (first.constant(client, rng), second.constant(client, rng));
            let operator = ["<", "<=", ">=", ">"][index(rng, 4)];
            let keys = &table.keys;
            conditions.push(format!("({}, {}) {operator} ({a}, {b})", keys[0], keys[1]));
        }
        if rng.below(10) == 0 {
            let (a, b) = (&conditions.pop(), &conditions.pop());
            conditions.extend(a.iter().zip(b).map(|(a, b)| format!("({a} OR {b})")));
        }
        conditions.extend(table.predicate.map(ToOwned::to_owned));
        if conditions.is_empty() {
            conditions.push("true".to_owned());
        }
        let is_backward = rng.below(2) == 0;
        let order = columns().map(|(column, key)| {
            let order = if is_backward {
                swapped(&swapped(column.order, "ASC", "DESC"), "FIRST", "LAST")
            } else {
                column.order.to_owned()
            };
            format!("{key} {order}")
        });
        let order = order.collect::<Vec<_>>().join(", ");
        let limit = match rng.below(4) {
            0 => format!("LIMIT {}", 1 + rng.below(30)),
            _ => String::new(),
        };
        let alike = columns().map(|(column, key)| column.of.alike.replace("{c}", key));
        let alike = alike.collect::<Vec<_>>().join(", ");
        // A limit may leave any of the rows with equal keys, and index-only scans read keys alone.
        let exact = if !limit.is_empty() || rng.below(3) == 0 {
            alike.clone()
        } else {
            let all = table.schema.all().map(|(name, _)| name);
            format!("id, {}", all.collect::<Vec<_>>().join(", "))
        };
        Self::of(format!(
            "SELECT ROW({exact})::text AS e, ROW({alike})::text AS a FROM t WHERE {} ORDER BY {order} {limit}",
            conditions.join(" AND ")
        ))
    }

    /// Some rows, and those that have the same keys.
    fn joined(table: &Table, rng: &mut Rng) -> Self {
        let keys = &table.keys[..1 + index(rng, table.keys.len())];
        let equal = keys
            .iter()
            .map(|key| format!("b.{key} = a.{key}"))
            .collect::<Vec<_>>();
        let rows = table
            .predicate
            .map_or(String::new(), |_| "AND b.id % 4 > 0".to_owned());
        let first = rng.below(2000);
        Self::of(format!(
            "SELECT ROW(a.id, b.id)::text AS e, '' AS a FROM t a JOIN t b ON {} {rows} WHERE a.id BETWEEN {first} AND {first} + 20",
            equal.join(" AND ")
        ))
    }

    fn of(rows: String) -> Self {
        Self {
            digest: format!(
                "SELECT count(*), sum(hashtext(e)::int8), md5(string_agg(a, '|')) FROM ({rows}) q"
            ),
            rows,
        }
    }
}
