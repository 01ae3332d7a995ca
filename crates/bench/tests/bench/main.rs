//! Every scenario runs, tiny, with every subject.

use bedload_bench::runner::{Plan, Scale};
use bedload_bench::scenarios;

#[test]
fn every_scenario_runs_with_every_subject() {
    for scenario in scenarios::ALL {
        let records = (scenario.run)(&Plan::new(Scale::Tiny));
        for subject in (scenario.subjects)() {
            let of_entrant: Vec<_> = records
                .iter()
                .filter(|record| record.subject == subject)
                .collect();
            assert!(!of_entrant.is_empty(), "{subject} did not run {}", scenario.name);
            for record in of_entrant {
                assert!(record.scenario.starts_with(scenario.name), "{record}");
                assert!(
                    record.min <= record.median && record.median <= record.max,
                    "{record}"
                );
                assert!(record.median.is_finite(), "{record}");
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
