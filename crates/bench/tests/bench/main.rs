//! Every scenario runs, tiny, with every subject.

use bedload_bench::runner::{Plan, Scale};
use bedload_bench::{scenarios, subjects};

/// Scenarios of variants of one index, and not of all indexes.
const OF_VARIANTS: [&str; 3] = ["factor-analysis", "blink-hash-tuning", "coherence"];

#[test]
fn every_scenario_runs_with_every_subject() {
    for scenario in scenarios::ALL {
        let records = (scenario.run)(&Plan::new(Scale::Tiny));
        for record in &records {
            assert!(record.scenario.starts_with(scenario.name), "{record}");
            assert!(
                record.min <= record.median && record.median <= record.max,
                "{record}"
            );
            assert!(record.median.is_finite(), "{record}");
        }
        let ran = |name: &str| records.iter().any(|record| record.subject == name);
        assert!(ran(subjects::BASELINE), "{}", scenario.name);
        if !OF_VARIANTS.contains(&scenario.name) {
            for entrant in subjects::INDEXES {
                assert!(
                    ran(entrant.name),
                    "{} did not run {}",
                    entrant.name,
                    scenario.name
                );
            }
        }
        assert!(scenarios::by_name(scenario.name).is_some());
    }
}

#[test]
fn records_are_json() {
    let records = (scenarios::ALL[0].run)(&Plan::new(Scale::Tiny));
    let line = serde_json::to_value(&records[0]).expect("a record is JSON");
    for field in [
        "scenario", "subject", "metric", "unit", "median", "min", "max", "rounds", "baseline", "ratio",
        "params",
    ] {
        assert!(line.get(field).is_some(), "{field} is missing");
    }
}
