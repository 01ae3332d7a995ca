//! Degrees of order, at each of which the entrants of a scenario have their turns.
//!
//! A run of all degrees takes hours at full scale; `--degrees` (such as `0/0,scrambled`) chooses among them, as `--only` does
//! among subjects.

use bedload_memory::near_sorted::{NearSortedTree, PackedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, SaTree};
use bedload_testkit::Rng;

use super::input::{Degree, Input};
use super::turns;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::{Entrant, Trial};
use crate::subjects::SerialSubject;

/// More rounds change little here, and take long.
const ROUNDS_MAX: usize = 3;

/// The textbook's B+-tree, which ratios refer to.
pub(super) const PLAIN: &str = "plain";
/// The same once more: how far its ratio is from 1 is the noise of a run.
pub(super) const PLAIN_AGAIN: &str = "plain again";
pub(super) const NEAR_SORTED: &str = "near-sorted";

/// An entrant's turn of a round.
pub(super) type Turn = Box<dyn Fn(&Input, &mut Rng) -> Vec<Figure>>;

/// The work of a turn.
#[derive(Clone, Copy)]
pub(super) enum TurnWork {
    /// Ingest, drained within the clock.
    Ingest,
    /// Lookups, with all that is buffered left where it is.
    Lookup,
    /// Scans, likewise.
    Scan,
    /// When 80 % are there, the rest with so many lookups for ten operations; then everything is checked.
    Mixed,
    /// The same, but only some keys are looked up in the end.
    MixedSampled,
    /// Ingest; then, with the buffer as full as it is, lookups of any key.
    IngestThenLookup,
}

/// An entrant: a map, made for so many entries, and what is done with it.
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

/// Our B+-tree, each entry inserted from the root.
pub(super) fn tree(split_percent: usize) -> PackedTree {
    PackedTree::with_options(TreeOptions::new().tail_leaf(false).split_percent(split_percent))
}

/// The paper's buffer: 1 % of the data.
pub(super) fn paper(entries: usize) -> BufferOptions {
    BufferOptions::new(entries / 100)
}

/// The buffer before a tree with the paper's splits.
pub(super) fn buffered(options: BufferOptions) -> SaTree<PackedTree> {
    SaTree::new(tree(80), options)
}

pub(super) fn plain(work: TurnWork) -> Entrant<Turn> {
    entrant(PLAIN, work, |_| tree(50))
}

pub(super) fn plain_again(work: TurnWork) -> Entrant<Turn> {
    entrant(PLAIN_AGAIN, work, |_| tree(50))
}

pub(super) fn near_sorted(work: TurnWork) -> Entrant<Turn> {
    entrant(NEAR_SORTED, work, |_| NearSortedTree::new())
}

/// A scenario of so many keys by degree of order.
pub(super) struct ByDegree<'p> {
    pub(super) scenario: &'static str,
    pub(super) baseline: &'static str,
    pub(super) plan: &'p Plan,
    pub(super) entries: usize,
}

impl<'p> ByDegree<'p> {
    /// The records of one degree, if it is wanted. `set` adds parameters.
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
