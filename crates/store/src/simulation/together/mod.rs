//! Everything together: random operations of every kind on a table of each layout, beside views,
//! readers, a full disk, calls that fail, processes that die and power that is cut. Tests of one
//! feature alone miss the defects that two of them have together.

mod model;
mod run;

use super::power::cuts;
use super::say;
use run::Run;

const STEPS: usize = 80;

#[test]
fn what_is_done_together_keeps_all_rows() {
    let runs = cuts() / 40;
    let seed = std::env::var("BEDLOAD_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let (mut failed, mut unknown) = (0, 0);
    for seed in seed.map_or(0..runs, |seed| seed..seed + 1) {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        failed += run.failed;
        unknown += run.unknown;
        run.finish();
    }
    assert!(
        seed.is_some() || failed > 0 && unknown > 0,
        "{failed} and {unknown} changes failed"
    );
    say(&format!(
        "together: {runs} runs of {STEPS} operations; {failed} changes found no space, after {unknown} more the store was opened again"
    ));
}
