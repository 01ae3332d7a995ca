//! Three sessions do random work on a random table, and ask random queries by index, which a
//! sequential scan answers too.
//!
//! The third session's scans are parallel where they can be.
//!
//! One thread runs them in turns, so nothing happens between the two answers. A session changes
//! rows of its own alone, and waits for locks for a moment only. `BEDLOAD_PG_QUERIES` asks for more
//! queries, `BEDLOAD_PG_SEED` for another first seed: that of a failure begins with the round that
//! failed.

mod question;
mod session;

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{Rng, check, execute, number};
use crate::schema::{Schema, index};
use crate::settings::setting;
use question::Question;
use session::{Session, Tally};

/// Steps of a round, after which another table is made.
const STEPS: usize = 200;

/// A table `t` with an index `t_k`, which may have expressions, and rows that meet a condition.
struct Table {
    schema: Schema,
    /// The names of the index's columns, or their expressions.
    keys: Vec<String>,
    predicate: Option<&'static str>,
}

impl Table {
    fn random(rng: &mut Rng) -> Self {
        let schema = Schema::random(rng);
        let keys = schema.keys().map(|(name, _)| match rng.below(5) {
            0 => format!("COALESCE({name}, {name})"),
            _ => name,
        });
        Self {
            keys: keys.collect(),
            predicate: (rng.below(5) == 0).then_some("id % 4 > 0"),
            schema,
        }
    }

    fn create(&self, client: &mut Client) {
        self.schema.create(client);
        let columns = self.schema.columns.iter().zip(&self.keys);
        let columns = columns.map(|(column, key)| format!("({key}) {} {}", column.of.class, column.order));
        let included = self.schema.all().skip(self.keys.len()).map(|(name, _)| name);
        let included = included.collect::<Vec<_>>().join(", ");
        let include = if included.is_empty() {
            String::new()
        } else {
            format!("INCLUDE ({included})")
        };
        let predicate = self
            .predicate
            .map_or(String::new(), |rows| format!("WHERE {rows}"));
        execute(
            client,
            &format!(
                "DROP INDEX t_k; CREATE UNIQUE INDEX t_id ON t USING btree (id);
                 CREATE INDEX t_k ON t USING bedload ({}) {include} {predicate}; ANALYZE t;
                 ALTER TABLE t SET (parallel_workers = 2)",
                columns.collect::<Vec<_>>().join(", ")
            ),
        );
    }

    /// The expression for the values of a row, of its number `i`.
    fn values(&self) -> Vec<(String, String)> {
        let columns = self.schema.all().enumerate();
        columns
            .map(|(number, (name, column))| (name, column.value(number)))
            .collect()
    }

    /// A statement about the whole table or its indexes, and whether a transaction may have it.
    fn maintenance(&self, rng: &mut Rng) -> (String, bool) {
        let some_key = &self.keys[index(rng, self.keys.len())];
        let (statement, in_transaction) = match rng.below(18) {
            0..=2 => ("VACUUM (INDEX_CLEANUP ON) t", false),
            3 | 4 => ("SELECT bedload_drain('t_k')", true),
            5 => ("REINDEX INDEX t_k", true),
            6 => ("REINDEX TABLE t", true),
            7 if self.predicate.is_none() && !some_key.contains('(') => ("CLUSTER t USING t_k", true),
            8 => ("VACUUM FULL t", false),
            9 => ("ALTER TABLE t SET UNLOGGED", true),
            10 => ("ALTER TABLE t SET LOGGED", true),
            11 => ("ALTER INDEX t_k SET TABLESPACE other", true),
            12 => ("ALTER INDEX t_k SET TABLESPACE pg_default", true),
            13 => ("DROP INDEX IF EXISTS t_2", true),
            14 if rng.below(4) == 0 => ("TRUNCATE t", true),
            15 => ("ALTER TABLE t ADD COLUMN IF NOT EXISTS more int4 DEFAULT 7", true),
            16 => ("CHECKPOINT", true),
            _ => {
                return (
                    format!("CREATE INDEX IF NOT EXISTS t_2 ON t USING bedload (({some_key}))"),
                    true,
                );
            }
        };
        (statement.to_owned(), in_transaction)
    }
}

/// A round: a table, and what its sessions do.
struct Run<'r> {
    table: &'r Table,
    /// A session that computes constants, and has no part in the rest.
    client: &'r mut Client,
    rng: Rng,
    tally: &'r mut Tally,
    seed: u64,
    log: Vec<String>,
    /// Whether rows are dead whose transaction goes on: a `VACUUM` now has their addresses used
    /// again.
    has_left_dead_rows: bool,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nBEDLOAD_PG_SEED={}", self.log.join("\n"), self.seed);
        }
    }
}

fn round(cluster: &Cluster, seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut client = cluster.client();
    // Its checks must not fail where an autovacuum has the table.
    execute(&mut client, "SET lock_timeout = 0");
    let table = Table::random(&mut rng);
    table.create(&mut client);
    let mut run = Run {
        table: &table,
        client: &mut client,
        rng,
        tally,
        seed,
        log: Vec::new(),
        has_left_dead_rows: false,
    };
    let mut sessions = [0, 1, 2].map(|number| Session::new(cluster, number));
    for _ in 0..STEPS {
        let session = index(&mut run.rng, sessions.len());
        sessions[session].step(&mut run);
    }
    for session in &mut sessions {
        session.finish(&mut run);
    }
    for _ in 0..5 {
        let question = Question::random(run.table, run.client, &mut run.rng);
        sessions[0].compare(&question, &mut run);
    }
    let client = &mut *run.client;
    check(client, "t_k");
    execute(client, "VACUUM (INDEX_CLEANUP ON) t");
    check(client, "t_k");
    let rows = table.predicate.unwrap_or("true");
    assert_eq!(
        number(client, "SELECT entries FROM bedload_info('t_k')"),
        number(client, &format!("SELECT count(*) FROM t WHERE {rows}"))
    );
    if number(client, "SELECT count(*) FROM pg_class WHERE relname = 't_2'") == 1 {
        check(client, "t_2");
    }
}

#[test]
fn random_sessions_have_the_same_answers_by_index_and_by_table() {
    let cluster = Cluster::start_with(
        "allow_in_place_tablespaces = on\nlock_timeout = 5ms\nstatement_timeout = 60s\nbedload.max_workers = 2",
    );
    let mut client = cluster.client();
    execute(&mut client, "CREATE TABLESPACE other LOCATION ''");
    execute(
        &mut client,
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'",
    );
    let queries = setting("BEDLOAD_PG_QUERIES", 2000);
    let mut tally = Tally::default();
    let first = setting("BEDLOAD_PG_SEED", 1);
    let rounds = (first..).take_while(|&seed| {
        let goes_on = tally.compared < queries;
        if goes_on {
            round(&cluster, seed, &mut tally);
            println!("round {seed}: {} queries compared", tally.compared);
        }
        goes_on
    });
    println!("{} rounds: {tally:?}", rounds.count());
    // Most questions can be answered by index, and most statements meet no lock.
    assert!(tally.by_index * 10 >= tally.explained * 7, "{tally:?}");
    assert!(tally.in_parallel > 0, "{tally:?}");
    assert!(tally.refused * 4 <= tally.done, "{tally:?}");
}
