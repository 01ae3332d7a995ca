//! The published buffer by the amount of data (Fig. 19, Table II of the paper): the largest size is the scale's.

use bedload_memory::ExclusiveMap;
use bedload_memory::near_sorted::{BPlusTree, NearSortedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, SaTree};
use bedload_testkit::Rng;

use super::near_sorted::mixed_figures;
use crate::near_sorted::input::{Degree, Input, value_of};
use crate::near_sorted::subjects::Mapping;
use crate::record::Record;
use crate::runner::{Figure, Plan, Samples, summarise};

const PLAIN: &str = "plain";
const PAPER: &str = "paper";
const NEAR_SORTED: &str = "near-sorted";
/// Sizes: each twice the one before.
const SIZES: u32 = 6;

pub(super) fn subjects() -> Vec<&'static str> {
    vec![PLAIN, PAPER, NEAR_SORTED]
}

fn tree(split_percent: usize) -> BPlusTree {
    BPlusTree::with_options(TreeOptions::new().tail_leaf(false).split_percent(split_percent))
}

fn figure(metric: &str, unit: &'static str, value: f64) -> Figure {
    Figure {
        metric: metric.to_owned(),
        unit,
        value,
    }
}

/// All keys must be there; in order not to be part of what is measured, only some are asked for.
fn checked(figures: Vec<Figure>, map: &mut impl Mapping, input: &Input) -> Vec<Figure> {
    for &key in input.keys.iter().step_by(101) {
        assert_eq!(map.get(key), Some(value_of(key)), "a key is lost");
    }
    figures
}

/// Table II: how much of the data is in the buffer, and how many of its pages a lookup scans.
fn buffer_figures(tree: &mut SaTree<BPlusTree>, input: &Input, rng: &mut Rng) -> Vec<Figure> {
    let len = input.keys.len();
    if tree.wants_preparation() {
        tree.prepare_reads();
    }
    let probes = 10_000;
    let scanned: usize = (0..probes)
        .map(|_| tree.pages_scanned(input.keys[rng.index(len)]))
        .sum();
    vec![
        figure(
            "entries in the buffer",
            "%",
            tree.buffered() as f64 * 100.0 / len as f64,
        ),
        figure(
            "pages scanned for a lookup",
            "pages",
            scanned as f64 / f64::from(probes),
        ),
    ]
}

fn round(subject: &str, input: &Input, buffer: usize, rng: &mut Rng) -> Vec<Figure> {
    match subject {
        PLAIN => {
            let mut map = tree(50);
            checked(mixed_figures(&mut map, input, rng), &mut map, input)
        }
        PAPER => {
            let mut map = SaTree::new(tree(80), BufferOptions::new(buffer));
            let mut figures = mixed_figures(&mut map, input, rng);
            figures.extend(buffer_figures(&mut map, input, rng));
            checked(figures, &mut map, input)
        }
        _ => {
            let mut map = NearSortedTree::new();
            checked(mixed_figures(&mut map, input, rng), &mut map, input)
        }
    }
}

/// With K and L of 5 % and a buffer of 1 % of the data (Fig. 19a); and with K of 5 %, and L and the buffer fixed, at 40 and 8 %
/// of the smallest size (Fig. 19b).
pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let largest = plan.entries_of(2_000_000, 50_000_000);
    let smallest = largest >> (SIZES - 1);
    let mut records = Vec::new();
    for power in 0..SIZES {
        let len = smallest << power;
        let fixed_l = 40.0 / f64::from(1_u32 << power);
        for (growth, l, buffer) in [
            ("L and buffer grow", 5.0, len / 100),
            ("L and buffer fixed", fixed_l, smallest * 8 / 100),
        ] {
            let degree = Degree::Nearly(5.0, l);
            if !plan.takes_degree(&degree.to_string()) {
                continue;
            }
            let input = Input::new(degree, len, 7);
            let mut samples = Samples::new();
            for number in 0..plan.rounds().min(3) {
                for subject in subjects()
                    .into_iter()
                    .filter(|subject| plan.takes(subject, PLAIN))
                {
                    let figures = round(subject, &input, buffer, &mut Rng::new(number as u64));
                    samples.add(subject, figures);
                }
            }
            let params = [
                ("degree", degree.to_string()),
                ("entries", len.to_string()),
                ("growth", growth.to_owned()),
            ];
            records.extend(summarise("sware-scale", PLAIN, &params, &samples));
        }
    }
    records
}
