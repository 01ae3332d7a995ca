//! The published buffer by data size (Fig. 19, Table II of the paper); the largest size is the
//! scale's.

use bedload_memory::ExclusiveMap;
use bedload_memory::near_sorted::PackedTree;
use bedload_memory::swa_buffer::{BufferOptions, SaTree};
use bedload_testkit::Rng;

use super::by_degree::{ByDegree, PLAIN, TurnWork, buffered, near_sorted, plain};
use super::input::{Degree, Input};
use super::turns;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Entrant;
use crate::subjects::names;

/// The number of sizes, each twice the previous.
const SIZES: u32 = 6;

/// A turn with a given buffer size in entries.
type Turn = Box<dyn Fn(&Input, usize, &mut Rng) -> Vec<Figure>>;

fn entrants() -> Vec<Entrant<Turn>> {
    let unbuffered =
        [plain(TurnWork::MixedSampled), near_sorted(TurnWork::MixedSampled)].map(|entrant| Entrant {
            name: entrant.name,
            is_peer: false,
            make: Box::new(move |input: &Input, _, rng: &mut Rng| (entrant.make)(input, rng)) as Turn,
        });
    let paper = Entrant {
        name: "paper",
        is_peer: false,
        make: Box::new(with_buffer) as Turn,
    };
    let mut all = Vec::from(unbuffered);
    all.push(paper);
    all
}

pub(super) fn subjects() -> Vec<&'static str> {
    names(&entrants())
}

fn with_buffer(input: &Input, buffer: usize, rng: &mut Rng) -> Vec<Figure> {
    let mut map = buffered(BufferOptions::new(buffer));
    let mut figures = turns::mixed(&mut map, input, rng);
    figures.extend(buffer_figures(&mut map, input, rng));
    turns::verify_some(&mut map, input);
    figures
}

/// Table II: the share of the data in the buffer, and the buffer's pages that a lookup scans.
fn buffer_figures(tree: &mut SaTree<PackedTree>, input: &Input, rng: &mut Rng) -> [Figure; 2] {
    let len = input.keys.len();
    if tree.wants_preparation() {
        tree.prepare_reads();
    }
    let probes = 10_000;
    let scanned: usize = (0..probes)
        .map(|_| tree.pages_scanned(input.keys[rng.index(len)]))
        .sum();
    let buffered = tree.buffered() as f64 * 100.0 / len as f64;
    let scanned = scanned as f64 / f64::from(probes);
    [
        Figure::new("entries in the buffer", "%", buffered),
        Figure::new("pages scanned for a lookup", "pages", scanned),
    ]
}

/// With K and L of 5 % and a buffer of 1 % of the data (Fig. 19a); and with K of 5 %, and L and the
/// buffer fixed at 40 and 8 % of the smallest size (Fig. 19b).
pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let largest = plan.entries_of(2_000_000, 50_000_000);
    let smallest = largest >> (SIZES - 1);
    let entrants = entrants();
    let mut records = Vec::new();
    for power in 0..SIZES {
        let entries = smallest << power;
        let fixed_l = 40.0 / f64::from(1_u32 << power);
        for (growth, l, buffer) in [
            ("L and buffer grow", 5.0, entries / 100),
            ("L and buffer fixed", fixed_l, smallest * 8 / 100),
        ] {
            let by_degree = ByDegree {
                scenario: "sware-scale",
                baseline: PLAIN,
                plan,
                entries,
            };
            records.extend(by_degree.at(
                Degree::Nearly(5.0, l),
                |trial, _| trial.param("degree", format!("{entries} keys, {growth}")),
                &entrants,
                |entrant, input, rng| (entrant.make)(input, buffer, rng),
            ));
        }
    }
    records
}
