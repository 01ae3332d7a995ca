//! Each system call on the files of a store fails once, or fails from then on as on a full disk.

use std::collections::BTreeMap;

use bedload_testkit::Rng;
use nix::errno::Errno;

use super::outcome::{Cases, Findings};
use super::scenario::{Prepared, SCENARIOS, Scenario};
use super::trace::{self, Call, Fault};

/// A scenario, and the calls that it makes when nothing fails.
struct Clean {
    prepared: Prepared,
    calls: Vec<Call>,
}

impl Clean {
    fn of(scenario: &'static Scenario) -> Self {
        let mut calls = Vec::new();
        let prepared = Prepared::new(scenario, 1, |place| {
            let traced = trace::run(&mut place.command(scenario.command), &place.path(""), None);
            assert_eq!(traced.code, Some(0), "{}: {}", scenario.name, traced.stderr);
            calls = traced.calls;
        });
        Self { prepared, calls }
    }

    /// Runs the scenario with the call number `at` failing; returns whether it did its work.
    fn with(&self, at: usize, fault: Fault) -> Result<bool, String> {
        let place = self.prepared.place();
        let mut command = place.command(self.prepared.scenario.command);
        let traced = trace::run(&mut command, &place.path(""), Some((at, fault)));
        if traced.hung {
            return Err("hangs".to_owned());
        }
        self.prepared.check(&place, traced.code, &traced.stderr)
    }
}

/// The ways in which a call of a kind may fail.
fn faults_of(call: Call) -> &'static [Fault] {
    const IO: Fault = Fault::Error(Errno::EIO);
    const SPACE: Fault = Fault::Error(Errno::ENOSPC);
    const INTERRUPTED: Fault = Fault::Error(Errno::EINTR);
    const UNSUPPORTED: Fault = Fault::Error(Errno::EOPNOTSUPP);
    match call {
        Call::Read => &[IO, INTERRUPTED, Fault::Short],
        Call::Write => &[IO, SPACE, INTERRUPTED, Fault::Short, Fault::Full],
        Call::Open => &[IO, Fault::Error(Errno::EMFILE), INTERRUPTED],
        Call::Allocate => &[IO, SPACE, INTERRUPTED, UNSUPPORTED, Fault::Full],
        Call::Truncate | Call::Sync | Call::MakeDirectory | Call::Rename => &[IO, SPACE, INTERRUPTED],
        Call::Remove | Call::List => &[IO],
    }
}

/// Kinds of calls of which some must fail the run.
const MET: [Call; 4] = [Call::Write, Call::Sync, Call::Open, Call::Allocate];

#[test]
fn a_failing_system_call_is_an_error_or_does_no_harm() {
    let scenarios: Vec<Clean> = SCENARIOS.iter().map(Clean::of).collect();
    let mut random = Rng::new(0x000f_a017);
    let mut pick = |len: usize| usize::try_from(random.below(len as u64)).unwrap();
    let mut findings = Findings::default();
    // Runs that failed and runs that did their work, by the call that failed.
    let mut endings: BTreeMap<Call, [u32; 2]> = BTreeMap::new();
    for (number, ()) in Cases::new(420).enumerate() {
        let clean = &scenarios[pick(scenarios.len())];
        // Half of the cases are of kinds that must be met, some of which are rare.
        let wanted = MET.get(number % (2 * MET.len()));
        let of_kind = |&at: &usize| wanted.is_none_or(|wanted| clean.calls[at] == *wanted);
        let places: Vec<usize> = (0..clean.calls.len()).filter(of_kind).collect();
        let at = match places.len() {
            0 => pick(clean.calls.len()),
            count => places[pick(count)],
        };
        let call = clean.calls[at];
        let fault = faults_of(call)[pick(faults_of(call).len())];
        let case = format!(
            "{}: {fault:?} at call {at}, {call:?}",
            clean.prepared.scenario.name
        );
        if let Some(done) = findings.note(&case, clean.with(at, fault)) {
            endings.entry(call).or_default()[usize::from(done)] += 1;
        }
    }
    findings.assert_none();
    for call in MET {
        assert!(
            endings.get(&call).is_some_and(|[failed, _]| *failed > 0),
            "{endings:?}"
        );
    }
}
