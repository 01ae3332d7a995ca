//! How much of the time of an insert and of a lookup the buffer takes, and how much the tree below
//! it (Figures 11 and 13 of the paper).

use bedload_memory::ExclusiveMap;
use bedload_memory::swa_buffer::{BaseTree, SaTree};

use super::by_degree::{ByDegree, PLAIN, Turn, TurnWork, buffered, entrant, paper, plain};
use super::input::Degree;
use super::turns;
use crate::plan::Plan;
use crate::record::Record;
use crate::runner::Entrant;
use crate::subjects::{SerialSubject, get_sorting, names};

/// Knows the greatest key, which decides what a buffer appends, and keeps nothing: what a buffer
/// over it takes is the buffer's own part.
#[derive(Debug, Default)]
struct NoTree {
    max_key: Option<u64>,
}

impl ExclusiveMap for NoTree {
    fn insert(&mut self, key: u64, _value: u64) {
        self.max_key = self.max_key.max(Some(key));
    }

    fn get(&self, _key: u64) -> Option<u64> {
        None
    }

    fn remove(&mut self, _key: u64) -> Option<u64> {
        None
    }

    fn read_up(&self, _lower: u64, _upper: u64, _entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        None
    }

    fn read_down(&self, _lower: u64, _upper: u64, _entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        None
    }

    fn check_structure(&self) -> Result<(), String> {
        Ok(())
    }
}

impl BaseTree for NoTree {
    fn max_key(&self) -> Option<u64> {
        self.max_key
    }

    fn append(&mut self, entries: &[(u64, u64)]) {
        self.max_key = entries.last().map(|&(key, _)| key).max(self.max_key);
    }
}

impl SerialSubject for SaTree<NoTree> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        get_sorting(self, key)
    }

    fn sum(&self, _lower: u64, _upper: u64) -> (usize, u64) {
        unreachable!("scans are not measured")
    }
}

fn buffer_alone() -> Entrant<Turn> {
    Entrant {
        name: "buffer alone",
        is_peer: false,
        make: Box::new(|input, rng| {
            let len = input.keys.len();
            let mut buffer = SaTree::new(NoTree::default(), paper(len));
            turns::ingest_then_lookup_checking(&mut buffer, input, rng, |buffer| {
                let drained = buffer.drained();
                let gone = drained.appended + drained.top_inserts;
                assert_eq!(gone + buffer.buffered() as u64, len as u64, "a key is lost");
            })
        }),
    }
}

fn entrants() -> Vec<Entrant<Turn>> {
    vec![
        plain(TurnWork::IngestThenLookup),
        entrant("paper", TurnWork::IngestThenLookup, |entries| {
            buffered(paper(entries))
        }),
        buffer_alone(),
    ]
}

pub(super) fn subjects() -> Vec<&'static str> {
    names(&entrants())
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let by_degree = ByDegree {
        scenario: "sware-parts",
        baseline: PLAIN,
        plan,
        entries: plan.entries_of(1_000_000, 50_000_000),
    };
    let degrees = [
        Degree::Nearly(0.0, 0.0),
        Degree::Nearly(2.0, 5.0),
        Degree::Nearly(10.0, 5.0),
        Degree::Nearly(50.0, 5.0),
        Degree::Nearly(100.0, 5.0),
        Degree::Nearly(100.0, 50.0),
        Degree::Scrambled,
    ];
    by_degree.run(&degrees, &entrants())
}
