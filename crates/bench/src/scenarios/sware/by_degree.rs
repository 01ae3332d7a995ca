//! Runs the entrants of a scenario at several degrees of order.
//!
//! A run of all degrees takes hours at full scale; `--degrees` (such as `0/0,scrambled`) selects
//! degrees, as `--only` selects subjects.

use bedload_memory::near_sorted::{NearSortedTree, PackedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, SaTree};
use bedload_testkit::Rng;

use super::input::{Degree, Input};
use super::turns;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};
use crate::subjects::{SAME_AGAIN, SerialSubject};

/// The most rounds: more change little here, and take long.
const ROUNDS_MAX: usize = 3;

/// The textbook B+-tree, which ratios refer to.
pub(super) const PLAIN: &str = "plain";
pub(super) const NEAR_SORTED: &str = "near-sorted";

/// An entrant's turn in a round.
pub(super) type Turn = Box<dyn Fn(&Input, &mut Rng) -> Vec<Figure>>;

/// The work of a turn.
#[derive(Clone, Copy)]
pub(super) enum TurnWork {
    /// Ingest, with the drain timed.
    Ingest,
    /// Lookups, without draining the buffer.
    Lookup,
    /// Scans, without draining the buffer.
    Scan,
    /// After 80 % of the keys, inserts the rest with a number of lookups per ten operations, then
    /// checks everything.
    Mixed,
    /// Like `Mixed`, but checks only a sample of keys.
    MixedSampled,
    /// Ingest; then lookups of any key, without draining the buffer.
    IngestThenLookup,
    /// `IngestThenLookup`, and `MixedSampled` of another map.
    Both,
}

/// Creates an entrant: a map for a number of entries, and its work.
pub(super) fn entrant<S: SerialSubject + 'static>(
    name: &'static str,
    work: TurnWork,
    make: fn(usize) -> S,
) -> Entrant<Turn> {
    let turn = move |input: &Input, rng: &mut Rng| match work {
        TurnWork::Ingest => turns::ingest(make, input),
        TurnWork::Lookup => turns::lookup(make, input, rng),
        TurnWork::Scan => turns::scan(make, input, rng),
        TurnWork::Mixed => {
            let mut map = make(input.keys.len());
            let figures = turns::mixed(&mut map, input, rng);
            turns::verify(&mut map, input);
            figures
        }
        TurnWork::MixedSampled => {
            let mut map = make(input.keys.len());
            let figures = turns::mixed(&mut map, input, rng);
            turns::verify_some(&mut map, input);
            with_top_inserts(figures, &map)
        }
        TurnWork::IngestThenLookup => {
            let mut map = make(input.keys.len());
            let figures = turns::ingest_then_lookup(&mut map, input, rng);
            with_top_inserts(figures, &map)
        }
        TurnWork::Both => {
            let mut map = make(input.keys.len());
            let mut figures = turns::ingest_then_lookup(&mut map, input, rng);
            let splits = map.leaf_splits();
            figures.extend(splits.map(|splits| Figure::new("leaf splits", "", splits as f64)));
            figures = with_top_inserts(figures, &map);
            let mut map = make(input.keys.len());
            figures.extend(turns::mixed(&mut map, input, rng));
            turns::verify_some(&mut map, input);
            figures
        }
    };
    Entrant {
        name,
        is_peer: false,
        make: Box::new(turn),
    }
}

fn with_top_inserts(mut figures: Vec<Figure>, map: &impl SerialSubject) -> Vec<Figure> {
    let percent = map.top_inserts_percent();
    figures.extend(percent.map(|percent| Figure::new("top inserts", "%", percent)));
    figures
}

/// Creates our B+-tree, which inserts each entry from the root.
pub(super) fn tree(split_percent: usize) -> PackedTree {
    PackedTree::with_options(TreeOptions::new().tail_leaf(false).split_percent(split_percent))
}

/// Returns the paper's buffer: 1 % of the data.
pub(super) fn paper(entries: usize) -> BufferOptions {
    BufferOptions::new(entries / 100)
}

/// Creates the buffer over a tree with the paper's splits.
pub(super) fn buffered(options: BufferOptions) -> SaTree<PackedTree> {
    SaTree::new(tree(80), options)
}

pub(super) fn plain(work: TurnWork) -> Entrant<Turn> {
    entrant(PLAIN, work, |_| tree(50))
}

pub(super) fn plain_again(work: TurnWork) -> Entrant<Turn> {
    entrant(SAME_AGAIN, work, |_| tree(50))
}

pub(super) fn near_sorted(work: TurnWork) -> Entrant<Turn> {
    entrant(NEAR_SORTED, work, |_| NearSortedTree::new())
}

/// A scenario of a number of keys by degree of order.
pub(super) struct ByDegree<'p> {
    pub(super) scenario: &'static str,
    pub(super) baseline: &'static str,
    pub(super) plan: &'p Plan,
    pub(super) entries: usize,
}

impl<'p> ByDegree<'p> {
    /// Runs the turns of entrants at several degrees, those of them that are selected.
    pub(super) fn run(&self, degrees: &[Degree], entrants: &[Entrant<Turn>]) -> Vec<Record> {
        let at = |&degree: &Degree| {
            self.at(
                degree,
                |trial, _| trial,
                entrants,
                |entrant, input, rng| (entrant.make)(input, rng),
            )
        };
        degrees.iter().flat_map(at).collect()
    }

    /// Runs one degree, if it is selected. `set` adds parameters.
    pub(super) fn at<M>(
        &self,
        degree: Degree,
        set: impl FnOnce(Trial<'p>, &Input) -> Trial<'p>,
        entrants: &[Entrant<M>],
        mut turn: impl FnMut(&Entrant<M>, &Input, &mut Rng) -> Vec<Figure>,
    ) -> Vec<Record> {
        if !self.plan.takes_degree(&degree.to_string()) {
            return Vec::new();
        }
        let input = Input::new(degree, self.entries, 7);
        let trial = Trial::new(self.scenario, self.baseline, self.plan)
            .rounds_max(ROUNDS_MAX)
            .param("degree", degree)
            .param("entries", input.keys.len());
        set(trial, &input).run_each(entrants, |entrant, number| {
            turn(entrant, &input, &mut Rng::new(number))
        })
    }
}
