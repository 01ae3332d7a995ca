//! Comparing what an index says with what its table has.

use std::thread;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, Error};

/// A row of the tables of these tests: `(k int8, id int8)`.
pub(crate) type KeyAndId = (Option<i64>, i64);

/// How the planner may read a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Table,
    Index,
    Bitmap,
}

impl By {
    pub(crate) fn settings(self) -> &'static str {
        match self {
            Self::Table => "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off",
            Self::Index => "SET enable_seqscan = off; SET enable_indexscan = on; SET enable_bitmapscan = off",
            Self::Bitmap => {
                "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = on"
            }
        }
    }

    fn node(self) -> &'static str {
        match self {
            Self::Table => "Seq Scan",
            Self::Index => "Index Scan",
            Self::Bitmap => "Bitmap Index Scan",
        }
    }
}

/// A generator of pseudo-random numbers (Marsaglia's xorshift).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Creates `t`, and its index `t_k` on `k`.
pub(crate) fn create_table(client: &mut Client) {
    execute(
        client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k)",
    );
}

/// Runs statements that have to succeed. Those that come together are one transaction, unless they
/// say otherwise.
pub(crate) fn execute(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{statements}: {error:?}");
    }
}

/// Whether an error is what sessions do to each other, or replay to a query of a standby, with any
/// index; a connection that ended has no code.
pub(crate) fn is_conflict(error: &Error) -> bool {
    const CONFLICTS: [SqlState; 4] = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
    ];
    error.code().is_none_or(|code| CONFLICTS.contains(code))
}

/// Runs statements one by one.
pub(crate) fn execute_each(client: &mut Client, statements: &[&str]) {
    for statement in statements {
        execute(client, statement);
    }
}

/// A number that a query answers.
pub(crate) fn number(client: &mut Client, query: &str) -> i64 {
    match client.query_one(query, &[]) {
        Ok(row) => row.get(0),
        Err(error) => panic!("{query}: {error:?}"),
    }
}

/// Waits until a session waits for a lock, as one that pauses does. `is_under_way` says that what
/// that session executes has not ended.
pub(crate) fn until_one_waits(client: &mut Client, is_under_way: impl Fn() -> bool) {
    while number(client, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
        assert!(is_under_way(), "it pauses");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a query answers with a number.
pub(crate) fn until(client: &mut Client, query: &str, expected: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while number(client, query) != expected {
        assert!(Instant::now() < deadline, "{query} is {expected}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The plan of a query.
pub(crate) fn plan(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("EXPLAIN {query}"), &[]).expect("a plan");
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Pages that a query has looked at.
pub(crate) fn pages_of(client: &mut Client, query: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) {query}");
    let lines = client.query(&explain, &[]).expect("a plan");
    let lines = lines.iter().map(|row| row.get::<_, String>(0));
    // That of the topmost node, which includes those below.
    let buffers = lines.into_iter().find(|line| line.contains("Buffers: shared"));
    let buffers = buffers.expect("some pages");
    let numbers = buffers.split_whitespace().filter_map(|word| {
        let (name, number) = word.split_once('=')?;
        ["hit", "read"]
            .contains(&name)
            .then(|| number.parse::<i64>().ok())?
    });
    numbers.sum()
}

/// The rows `(k, id)` of a query, read in a certain way.
pub(crate) fn rows_by(client: &mut Client, query: &str, by: By) -> Vec<KeyAndId> {
    execute(client, by.settings());
    let plan = plan(client, query);
    assert!(plan.contains(by.node()), "{query} is not read by {by:?}:\n{plan}");
    let rows = client
        .query(query, &[])
        .unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Nulls behind all values.
fn place(row: &KeyAndId) -> (bool, Option<i64>) {
    (row.0.is_none(), row.0)
}

/// Asserts that a condition selects the same rows by table, by bitmap, and by index in both orders;
/// returns how many.
pub(crate) fn same_rows(client: &mut Client, table: &str, condition: &str) -> usize {
    let query = format!("SELECT k, id FROM {table} WHERE {condition}");
    let mut expected = rows_by(client, &query, By::Table);
    expected.sort_by_key(|row| (place(row), row.1));
    if condition != "true" {
        let mut found = rows_by(client, &query, By::Bitmap);
        found.sort_by_key(|row| (place(row), row.1));
        assert_eq!(found, expected, "{condition} by bitmap");
    }
    for (order, is_up) in [("ORDER BY k", true), ("ORDER BY k DESC", false)] {
        let mut found = rows_by(client, &format!("{query} {order}"), By::Index);
        if !is_up {
            found.reverse();
        }
        assert!(
            found.is_sorted_by_key(place),
            "{condition} {order} comes in order"
        );
        found.sort_by_key(|row| (place(row), row.1));
        assert_eq!(found, expected, "{condition} {order}");
    }
    execute(
        client,
        "RESET enable_seqscan; RESET enable_indexscan; RESET enable_bitmapscan",
    );
    expected.len()
}

/// Asserts that the check of an index finds nothing.
pub(crate) fn check(client: &mut Client, index: &str) {
    let problems = client.query("SELECT bedload_check($1::text::regclass)", &[&index]);
    let problems = problems.unwrap_or_else(|error| panic!("the check of {index}: {error:?}"));
    let problems: Vec<String> = problems.iter().map(|row| row.get(0)).collect();
    assert_eq!(problems, Vec::<String>::new());
}

/// How many entries of an index wait in the session.
pub(crate) fn pending(client: &mut Client, index: &str) -> i64 {
    number(client, &format!("SELECT pending FROM bedload_info('{index}')"))
}
