//! A Bε-tree of pages in memory, with and without a buffer (Fig. 20 of the paper).

use std::sync::Arc;

use bedload_memory::ExclusiveMap;
use bedload_memory::swa_buffer::{PagedBeTree, SaTree};
use bedload_pages::HeapPages;
use bedload_trees::be_tree::BeTreeOptions;

use super::by_degree::{ByDegree, Turn, TurnWork, entrant, paper};
use super::input::Degree;
use crate::plan::Plan;
use crate::record::Record;
use crate::runner::Entrant;
use crate::subjects::{SAME_AGAIN, SerialSubject, get_sorting, names, sum_of_reads};

/// The Bε-tree alone, which ratios refer to.
const PLAIN: &str = "be-tree";
const PAGE_BYTES: usize = 4096;
/// Changes that wait in the root: as many as a page of a run takes.
const ROOT_ENTRIES: usize = 4096;
/// Bits of a filter for each key of runs above the leaves.
const FILTER_BITS: u8 = 12;

type Tree = PagedBeTree<Arc<HeapPages>>;

fn tree() -> Tree {
    let pages = Arc::new(HeapPages::new(PAGE_BYTES));
    let options = BeTreeOptions::new().filter_bits(FILTER_BITS);
    PagedBeTree::create(pages, options, ROOT_ENTRIES).expect("pages in memory do not fail")
}

fn entrants() -> [Entrant<Turn>; 3] {
    let plain = |name| entrant(name, TurnWork::Mixed, |_| tree());
    [
        plain(PLAIN),
        plain(SAME_AGAIN),
        entrant("paper", TurnWork::Mixed, |entries| {
            SaTree::new(tree(), paper(entries))
        }),
    ]
}

pub(super) fn subjects() -> Vec<&'static str> {
    names(&entrants())
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let by_degree = ByDegree {
        scenario: "sware-be-tree",
        baseline: PLAIN,
        plan,
        entries: plan.entries_of(1_000_000, 50_000_000),
    };
    let degrees = [
        Degree::Nearly(0.0, 0.0),
        Degree::Nearly(10.0, 5.0),
        Degree::Nearly(100.0, 50.0),
        Degree::Scrambled,
    ];
    by_degree.run(&degrees, &entrants())
}

impl SerialSubject for Tree {
    fn insert(&mut self, key: u64, value: u64) {
        ExclusiveMap::insert(self, key, value);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        ExclusiveMap::get(self, key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        sum_of_reads(self, lower, upper)
    }

    fn drain(&mut self) {
        self.flush();
    }
}

impl SerialSubject for SaTree<Tree> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        get_sorting(self, key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        sum_of_reads(self, lower, upper)
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn top_inserts_percent(&self) -> Option<f64> {
        let drained = self.drained();
        let all = drained.top_inserts + drained.appended;
        Some(drained.top_inserts as f64 * 100.0 / all.max(1) as f64)
    }
}
