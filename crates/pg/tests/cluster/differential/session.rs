//! A session with random transactions.

use std::thread;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::Run;
use super::question::{Question, Way};
use crate::cluster::Cluster;
use crate::rows::execute;
use crate::schema::index;

/// Counts of the sessions.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Queries whose answers were compared, and cursors.
    pub(super) compared: u64,
    pub(super) cursors: u64,
    /// Plans that were looked at, and those that read `t_k` or `t_2`.
    pub(super) explained: u64,
    pub(super) by_index: u64,
    /// Those whose plans have workers read the index.
    pub(super) in_parallel: u64,
    /// Statements, and those that ended with an error that may be: of a lock, a timeout, a
    /// conflict.
    pub(super) done: u64,
    pub(super) refused: u64,
    pub(super) commits: u64,
    pub(super) prepared: u64,
}

/// Errors that have nothing to do with the index.
const TOLERATED: [SqlState; 6] = [
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::QUERY_CANCELED,
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    // A cursor of the session reads the table that a statement is about.
    SqlState::OBJECT_IN_USE,
    // A cursor that was not held is gone with its transaction.
    SqlState::INVALID_CURSOR_NAME,
];

/// Settings of the session whose scans are parallel where they can be, mostly without the leader.
const PARALLEL: &str = "
    SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;
    SET parallel_tuple_cost = 0; SET cpu_tuple_cost = 100; SET parallel_leader_participation = off";

enum State {
    Idle,
    /// With so many savepoints.
    InTransaction(usize),
    Prepared,
}

/// A cursor that is being read by index, and the rows that it must have: as they are, and in order.
#[derive(Default)]
struct Cursor {
    expected: (Vec<String>, Vec<String>),
    found: (Vec<String>, Vec<String>),
}

pub(super) struct Session {
    client: Client,
    number: usize,
    state: State,
    cursor: Option<Cursor>,
    /// Rows that it has inserted.
    inserted: u64,
}

impl Session {
    pub(super) fn new(cluster: &Cluster, number: usize) -> Self {
        let mut client = cluster.client();
        if number == 2 {
            execute(&mut client, PARALLEL);
        }
        Self {
            client,
            number,
            state: State::Idle,
            cursor: None,
            inserted: 0,
        }
    }

    fn in_transaction(&self) -> bool {
        matches!(self.state, State::InTransaction(_))
    }

    fn note(&self, statement: &str, run: &mut Run<'_>) {
        run.log.push(format!("{}: {statement};", self.number));
    }

    /// Rolls back after an error, which has to be one that may be.
    fn fail(&mut self, error: &Error, statement: &str, run: &mut Run<'_>) {
        let is_tolerated = error.code().is_some_and(|code| TOLERATED.contains(code));
        assert!(is_tolerated, "{statement}: {error:?}");
        run.log
            .push(format!("-- {}", error.code().map_or("", SqlState::code)));
        run.tally.refused += 1;
        if let State::InTransaction(savepoints) = self.state {
            let is_partial =
                savepoints > 0 && !statement.starts_with("COMMIT") && !statement.starts_with("PREPARE");
            let back = if is_partial {
                format!("ROLLBACK TO s{savepoints}; CLOSE ALL")
            } else {
                self.state = State::Idle;
                "ROLLBACK; CLOSE ALL".to_owned()
            };
            self.note(&back, run);
            for statement in back.split("; ") {
                // A late cancel may hit it once.
                let done = self
                    .client
                    .batch_execute(statement)
                    .or_else(|_| self.client.batch_execute(statement));
                done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
            }
            self.cursor = None;
        }
    }

    fn execute(&mut self, statement: &str, run: &mut Run<'_>) -> bool {
        self.note(statement, run);
        run.tally.done += 1;
        let done = self.client.batch_execute(statement);
        if let Err(error) = &done {
            self.fail(error, statement, run);
        }
        done.is_ok()
    }

    /// Executes a statement that a timeout or another session may end at any point.
    fn execute_hunted(&mut self, statement: &str, run: &mut Run<'_>) {
        match run.rng.below(12) {
            0 => {
                let timeout = format!("SET statement_timeout = {}", 1 + run.rng.below(12));
                if self.execute(&timeout, run) {
                    self.execute(statement, run);
                }
                // The rollback may have reset it; it may be too short for what resets it.
                let reset = "RESET statement_timeout";
                while self.client.batch_execute(reset).is_err() {
                    self.client.batch_execute("ROLLBACK").ok();
                    (self.state, self.cursor) = (State::Idle, None);
                }
            }
            1 => {
                let (token, delay) = (self.client.cancel_token(), run.rng.below(8000));
                let canceller = thread::spawn(move || {
                    thread::sleep(Duration::from_micros(delay));
                    token.cancel_query(NoTls).ok();
                });
                self.execute(statement, run);
                canceller.join().expect("it does not panic");
            }
            _ => {
                self.execute(statement, run);
            }
        }
    }

    pub(super) fn step(&mut self, run: &mut Run<'_>) {
        if matches!(self.state, State::Prepared) && run.rng.below(3) == 0 {
            return self.end_prepared(run);
        }
        if run.has_left_dead_rows && matches!(self.state, State::Idle) && run.rng.below(2) == 0 {
            run.has_left_dead_rows = false;
            self.execute("VACUUM (INDEX_CLEANUP ON) t", run);
            let statement = self.change(run);
            self.execute(&statement, run);
            return;
        }
        match run.rng.below(24) {
            0..=6 => {
                for _ in 0..1 + run.rng.below(4) {
                    let question = Question::random(run.table, run.client, &mut run.rng);
                    self.compare(&question, run);
                }
            }
            7..=9 => self.read_cursor(run),
            // Rows of a prepared transaction are locked.
            _ if matches!(self.state, State::Prepared) => {}
            10..=15 => {
                let statement = self.change(run);
                self.execute_hunted(&statement, run);
            }
            16 | 17 => {
                let (statement, may_be_in_transaction) = run.table.maintenance(&mut run.rng);
                if may_be_in_transaction || !self.in_transaction() {
                    self.execute_hunted(&statement, run);
                }
            }
            18 => {
                let entries = ["0", "7", "100", "DEFAULT"][index(&mut run.rng, 4)];
                self.execute(&format!("SET bedload.batch_entries = {entries}"), run);
            }
            _ => self.turn(run),
        }
    }

    /// Begins, ends or divides a transaction.
    fn turn(&mut self, run: &mut Run<'_>) {
        match self.state {
            State::Idle => {
                let level = [
                    "READ COMMITTED",
                    "READ COMMITTED",
                    "REPEATABLE READ",
                    "SERIALIZABLE",
                ][index(&mut run.rng, 4)];
                if self.execute(&format!("BEGIN ISOLATION LEVEL {level}"), run) {
                    self.state = State::InTransaction(0);
                }
            }
            State::InTransaction(savepoints) => match run.rng.below(9) {
                0..=2 => {
                    if self.execute(&format!("SAVEPOINT s{}", savepoints + 1), run) {
                        self.state = State::InTransaction(savepoints + 1);
                    }
                }
                3 if savepoints > 0 => {
                    self.execute(&format!("ROLLBACK TO s{savepoints}"), run);
                    run.has_left_dead_rows = true;
                    self.execute("CLOSE ALL", run);
                    self.cursor = None;
                }
                4 if savepoints > 0 => {
                    if self.execute(&format!("RELEASE s{savepoints}"), run) {
                        self.state = State::InTransaction(savepoints - 1);
                    }
                }
                5 => {
                    self.execute("ROLLBACK", run);
                    (self.state, self.cursor) = (State::Idle, None);
                    self.execute("CLOSE ALL", run);
                }
                // PREPARE takes no cursors that are held.
                6 if self.cursor.is_none() => {
                    let prepare = format!("PREPARE TRANSACTION 's{}'", self.number);
                    if self.execute(&prepare, run) {
                        run.tally.prepared += 1;
                        self.state = State::Prepared;
                    }
                }
                _ => {
                    if self.execute("COMMIT", run) {
                        run.tally.commits += 1;
                        self.state = State::Idle;
                    }
                }
            },
            State::Prepared => {}
        }
    }

    fn end_prepared(&mut self, run: &mut Run<'_>) {
        let way = ["COMMIT", "COMMIT", "ROLLBACK"][index(&mut run.rng, 3)];
        if self.execute(&format!("{way} PREPARED 's{}'", self.number), run) {
            self.state = State::Idle;
        }
    }

    /// A change of rows of this session.
    fn change(&mut self, run: &mut Run<'_>) -> String {
        let values = run.table.values();
        let names = values
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let of_row = |row: &str| {
            let values = values.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>();
            format!("SELECT {row}, {}", values.join(", "))
        };
        let own = format!("id % 3 = {}", self.number);
        // Upserts are of the former alone, and insert some of them.
        let (early, late) = (run.rng.below(8000), 12_000 + run.rng.below(1 + self.inserted * 3));
        let first = [early, early, late][index(&mut run.rng, 3)];
        let len = [1, 1, 30, 400][index(&mut run.rng, 4)];
        let some = format!("id BETWEEN {first} AND {first} + {len} * 3 AND {own}");
        match run.rng.below(9) {
            0..=3 => {
                let (from, to) = (self.inserted, self.inserted + len);
                self.inserted = to;
                format!(
                    "INSERT INTO t (id, {names}) {} FROM (SELECT n * 3 + {} AS i FROM generate_series({from} + 4000, {to} + 3999) n) r",
                    of_row("i"),
                    self.number
                )
            }
            4 | 5 => format!("DELETE FROM t WHERE {some}"),
            6 => {
                let column = &values[index(&mut run.rng, values.len())];
                format!(
                    "UPDATE t SET {} = (SELECT {} FROM (SELECT t.id + {} AS i) r) WHERE {some}",
                    column.0,
                    column.1,
                    1 + run.rng.below(1000)
                )
            }
            7 => format!("UPDATE t SET id = id WHERE {some}"),
            _ => {
                let changed = values.iter().map(|(name, _)| format!("{name} = excluded.{name}"));
                format!(
                    "INSERT INTO t (id, {names}) {} FROM (SELECT n * 3 + {} AS id, n AS i FROM generate_series({early} / 3, {early} / 3 + {len}) n) r
                     ON CONFLICT (id) DO UPDATE SET {}",
                    of_row("id"),
                    self.number,
                    changed.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }

    /// The rows of a query, or nothing if it ended with an error that may be.
    fn ask(&mut self, way: Way, query: &str, run: &mut Run<'_>) -> Option<Vec<Vec<Option<String>>>> {
        self.note(&format!("/* {way:?} */ {query}"), run);
        run.tally.done += 1;
        let messages = match self.client.simple_query(&format!("{}; {query}", way.settings())) {
            Ok(messages) => messages,
            Err(error) => {
                self.fail(&error, query, run);
                return None;
            }
        };
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                (0..row.len())
                    .map(|at| row.get(at).map(ToOwned::to_owned))
                    .collect(),
            ),
            _ => None,
        });
        Some(rows.collect())
    }

    /// Asserts that a question has one answer.
    pub(super) fn compare(&mut self, question: &Question, run: &mut Run<'_>) {
        let way = [Way::Index, Way::Index, Way::Bitmap][index(&mut run.rng, 3)];
        if run.rng.below(8) == 0
            && let Some(plan) = self.ask(way, &format!("EXPLAIN {}", question.digest), run)
        {
            run.tally.explained += 1;
            let names = |line: &Vec<Option<String>>| {
                line.iter()
                    .flatten()
                    .any(|line| line.contains("t_k") || line.contains("t_2"))
            };
            run.tally.by_index += u64::from(plan.iter().any(names));
            let is_parallel = |line: &Vec<Option<String>>| {
                (line.iter().flatten())
                    .any(|line| line.contains("Parallel Index") || line.contains("Parallel Bitmap"))
            };
            run.tally.in_parallel += u64::from(plan.iter().any(is_parallel));
        }
        let Some(found) = self.ask(way, &question.digest, run) else {
            return;
        };
        let Some(expected) = self.ask(Way::Table, &question.digest, run) else {
            return;
        };
        assert_eq!(found, expected, "{way:?}: {}", question.rows);
        run.tally.compared += 1;
    }

    /// Declares a cursor, or reads on.
    fn read_cursor(&mut self, run: &mut Run<'_>) {
        if let Some(mut cursor) = self.cursor.take() {
            let count = ["1", "10", "100", "ALL"][index(&mut run.rng, 4)];
            let Some(rows) = self.ask(Way::Index, &format!("FETCH {count} FROM c"), run) else {
                return;
            };
            let is_over = rows.is_empty();
            for row in rows {
                cursor.push(row);
            }
            if !is_over {
                self.cursor = Some(cursor);
                return;
            }
            cursor.found.0.sort();
            assert!(cursor.found == cursor.expected, "a cursor has other rows");
            run.tally.cursors += 1;
            run.tally.compared += 1;
            self.execute("CLOSE c", run);
            return;
        }
        // One whose last FETCH was cancelled may still be open.
        if !self.execute("CLOSE ALL", run) {
            return;
        }
        let question = Question::random(run.table, run.client, &mut run.rng);
        let Some(rows) = self.ask(Way::Table, &question.rows, run) else {
            return;
        };
        let mut expected = Cursor::default();
        rows.into_iter().for_each(|row| expected.push(row));
        expected.found.0.sort();
        // One that is not held reads the index while others change it.
        let is_held = !self.in_transaction() || run.rng.below(2) == 0;
        let held = if is_held { "WITH HOLD" } else { "" };
        let declare = format!("DECLARE c CURSOR {held} FOR {}", question.rows);
        if self.ask(Way::Index, &declare, run).is_some() {
            self.cursor = Some(Cursor {
                expected: expected.found,
                found: Default::default(),
            });
        }
    }

    /// Ends what the session has begun.
    pub(super) fn finish(&mut self, run: &mut Run<'_>) {
        while matches!(self.state, State::Prepared) {
            self.end_prepared(run);
        }
        if self.in_transaction() && self.execute("COMMIT", run) {
            run.tally.commits += 1;
        }
        self.state = State::Idle;
    }
}

impl Cursor {
    fn push(&mut self, row: Vec<Option<String>>) {
        let mut values = row.into_iter().map(Option::unwrap_or_default);
        self.found.0.push(values.next().unwrap_or_default());
        self.found.1.push(values.next().unwrap_or_default());
    }
}
