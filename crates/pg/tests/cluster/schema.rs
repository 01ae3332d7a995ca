//! Random tables and indexes of them: columns of any type that an index keeps, in any order, and
//! conditions on them.

use postgres::Client;

use crate::rows::{Rng, execute};

/// A type of a column; the expression that makes a value of a number `n`, of which some are equal
/// and look different; and that which makes equal values look alike.
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) value: &'static str,
    pub(crate) alike: &'static str,
}

const fn of(name: &'static str, value: &'static str) -> Type {
    Type {
        name,
        class: "",
        value,
        alike: "{c}",
    }
}

pub(crate) const TYPES: [Type; 20] = [
    of("int2", "(n * 37 % 4001 - 2000)::int2"),
    of("int4", "n * 7919 % 100003 - 50000"),
    of("int8", "(n::int8 * 7919 % 100003 - 50000) * 1000000007"),
    of("bool", "n % 2 = 0"),
    of("date", "'2000-01-01'::date + n * 37 % 4001 - 2000"),
    of(
        "timestamptz",
        "'2000-01-01 00:00+00'::timestamptz + (n * 37 - 900) * interval '1 minute'",
    ),
    of("oid", "(n::int8 * 791900 % 4000000000)::oid"),
    Type {
        alike: "{c} + 0",
        ..of(
            "float8",
            "(CASE n % 9 WHEN 0 THEN '-0' WHEN 1 THEN '0' WHEN 2 THEN 'NaN' WHEN 3 THEN '-Infinity' ELSE (n * 71 % 997 - 500) / 7.0 END)::float8",
        )
    },
    Type {
        alike: "{c} + 0",
        ..of(
            "float4",
            "(CASE n % 9 WHEN 0 THEN '-0' WHEN 1 THEN '0' ELSE (n * 71 % 997 - 500) / 7.0 END)::float4",
        )
    },
    of(
        "text COLLATE \"C\"",
        "chr(65 + n % 50) || repeat('z', n % 7) || n % 11",
    ),
    of(
        "text COLLATE \"en-x-icu\"",
        "chr(65 + n % 50) || repeat('z', n % 7) || n % 11",
    ),
    of(
        "varchar(20)",
        "CASE WHEN n % 13 = 0 THEN '' ELSE chr(97 + n % 20) || ' ' || n % 5 END",
    ),
    of(
        "bytea",
        "substr('\\x00ff0001000000ff'::bytea, 1 + n % 5, n % 4) || decode(lpad(to_hex(n % 40), 2, '0'), 'hex')",
    ),
    Type {
        alike: "trim_scale({c})",
        ..of(
            "numeric",
            "round((n % 400 - 200) / 8.0 * CASE WHEN n % 5 = 0 THEN 1e20 ELSE 1 END, 3 + n % 3)",
        )
    },
    Type {
        alike: "extract(epoch FROM {c})",
        ..of(
            "interval",
            "CASE n % 3 WHEN 0 THEN n % 60 * interval '1 day' WHEN 1 THEN n % 60 * interval '24 hours' ELSE (n - 50) * interval '1 second' END",
        )
    },
    of(
        "inet",
        "('10.' || n % 3 || '.' || n % 200 || '.0/' || (ARRAY[8, 16, 24, 32])[1 + n % 4])::inet",
    ),
    of(
        "timetz",
        "('12:00:00+' || n % 12)::timetz + n % 300 * interval '1 minute'",
    ),
    of("mood", "(ARRAY['sad', 'ok', 'happy'])[1 + n % 3]::mood"),
    of("char(6)", "chr(97 + n % 20) || n % 5"),
    Type {
        class: "uuid_ordered_ops",
        ..of(
            "uuid",
            "(lpad(to_hex(n % 7), 16, '0') || lpad(to_hex(n * 7919 % 1000), 16, '0'))::uuid",
        )
    },
];

/// A column of an index.
pub(crate) struct Column {
    pub(crate) of: &'static Type,
    pub(crate) order: &'static str,
    /// How many different values there are.
    pub(crate) distinct: u64,
}

impl Column {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let orders = [
            "ASC NULLS LAST",
            "ASC NULLS FIRST",
            "DESC NULLS FIRST",
            "DESC NULLS LAST",
        ];
        Self {
            of: &TYPES[index(rng, TYPES.len())],
            order: orders[index(rng, orders.len())],
            distinct: [4, 40, 4000][index(rng, 3)],
        }
    }

    /// The expression for its value in row `i`.
    pub(crate) fn value(&self, number: usize) -> String {
        format!(
            "(SELECT CASE WHEN h % 11 = 0 THEN NULL ELSE {} END
              FROM (SELECT h, (h / 11 % {})::int4 AS n FROM (SELECT hashint4(i * 8 + {number})::int8 & 2147483647) a(h)) b)",
            self.of.value, self.distinct
        )
    }

    pub(crate) fn constant(&self, client: &mut Client, rng: &mut Rng) -> String {
        let n = rng.below(self.distinct);
        let query = format!(
            "SELECT quote_literal(({})::text) FROM (SELECT {n} AS n) a",
            self.of.value
        );
        let literal: String = client.query_one(&query, &[]).expect(&query).get(0);
        let name = self.of.name.split(" COLLATE").next().unwrap_or_default();
        format!("{literal}::{name}")
    }

    /// A condition on the column.
    pub(crate) fn condition(&self, client: &mut Client, rng: &mut Rng, name: &str) -> String {
        let operators = ["<", "<=", "=", ">=", ">"];
        let operator = operators[index(rng, operators.len())];
        // The planner makes `k` of `k = true`, and PostgreSQL 15 knows that for an index condition
        // of its own classes alone.
        let kinds = if self.of.name == "bool" { 4 } else { 8 };
        match rng.below(kinds) {
            0 => format!("{name} IS NULL"),
            1 => format!("{name} IS NOT NULL"),
            kind @ (2 | 3) => {
                let operator = if kind == 2 { "=" } else { operator };
                let len = 1 + rng.below(6);
                let mut values: Vec<String> = (0..len).map(|_| self.constant(client, rng)).collect();
                if rng.below(4) == 0 {
                    values.push("NULL".to_owned());
                }
                format!("{name} {operator} ANY (ARRAY[{}])", values.join(", "))
            }
            4 => {
                let (a, b) = (self.constant(client, rng), self.constant(client, rng));
                format!("{name} BETWEEN LEAST({a}, {b}) AND GREATEST({a}, {b})")
            }
            5 | 6 => format!("{name} = {}", self.constant(client, rng)),
            _ => format!("{name} {operator} {}", self.constant(client, rng)),
        }
    }
}

pub(crate) fn index(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("it is less")
}

/// The text with the one word in the place of the other.
pub(crate) fn swapped(text: &str, a: &str, b: &str) -> String {
    if text.contains(a) {
        text.replace(a, b)
    } else {
        text.replace(b, a)
    }
}

/// A table `t`, and an index `t_k` of its columns `k0`, `k1`, … with others included.
pub(crate) struct Schema {
    pub(crate) columns: Vec<Column>,
    pub(crate) included: Vec<Column>,
}

impl Schema {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let mut columns = |len: u64| (0..len).map(|_| Column::random(rng)).collect::<Vec<_>>();
        let columns = (columns(1), columns(3), columns(2));
        let more = index(rng, 4);
        Self {
            columns: columns
                .0
                .into_iter()
                .chain(columns.1.into_iter().take(more))
                .collect(),
            included: columns.2.into_iter().take(index(rng, 3)).collect(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (String, &Column)> {
        let numbered = |name: &'static str| move |(number, column)| (format!("{name}{number}"), column);
        let keys = self.columns.iter().enumerate().map(numbered("k"));
        keys.chain(self.included.iter().enumerate().map(numbered("v")))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (String, &Column)> {
        self.all().take(self.columns.len())
    }

    pub(crate) fn create(&self, client: &mut Client) {
        let columns: Vec<String> = self
            .all()
            .map(|(name, column)| format!("{name} {}", column.of.name))
            .collect();
        let keys = |with: fn(&Column) -> String| {
            let keys = self
                .keys()
                .map(|(name, column)| format!("{name} {}", with(column)));
            keys.collect::<Vec<_>>().join(", ")
        };
        let included: Vec<String> = self
            .all()
            .skip(self.columns.len())
            .map(|(name, _)| name)
            .collect();
        let include = if included.is_empty() {
            String::new()
        } else {
            format!("INCLUDE ({})", included.join(", "))
        };
        execute(
            client,
            &format!(
                "RESET ALL; DROP TABLE IF EXISTS t; CREATE TABLE t (id int4, {});
                 INSERT INTO t {};
                 CREATE INDEX t_k ON t USING bedload ({}) {include}",
                columns.join(", "),
                self.rows(1, 1500),
                keys(|column| format!("{} {}", column.of.class, column.order)),
            ),
        );
    }

    pub(crate) fn rows(&self, first: usize, last: usize) -> String {
        let values: Vec<String> = self
            .all()
            .enumerate()
            .map(|(number, (_, column))| column.value(number))
            .collect();
        format!(
            "SELECT i, {} FROM generate_series({first}, {last}) i",
            values.join(", ")
        )
    }

    /// Conditions on some of the columns, and an order in which the index has the rows, or the
    /// other way round.
    pub(crate) fn query(&self, client: &mut Client, rng: &mut Rng) -> (String, String) {
        let mut conditions = Vec::new();
        for (name, column) in self.keys() {
            for _ in 0..rng.below(3) {
                conditions.push(column.condition(client, rng, &name));
            }
        }
        let is_backward = rng.below(2) == 0;
        let order = self.keys().map(|(name, column)| {
            let order = if is_backward {
                swapped(&swapped(column.order, "ASC", "DESC"), "FIRST", "LAST")
            } else {
                column.order.to_owned()
            };
            format!("t.{name} {order}")
        });
        let order = order.collect::<Vec<_>>().join(", ");
        if conditions.is_empty() {
            conditions.push("true".to_owned());
        }
        (conditions.join(" AND "), order)
    }
}
