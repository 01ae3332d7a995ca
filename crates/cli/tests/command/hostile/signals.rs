//! Signals at random moments of every subcommand that writes.

use std::time::{Duration, Instant};

use bedload_testkit::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::outcome::{Cases, Findings, Limited, run_limited};
use super::scenario::{Prepared, SCENARIOS, Scenario};

/// A scenario, and the time that it takes when nothing disturbs it.
struct Timed {
    prepared: Prepared,
    time: Duration,
}

impl Timed {
    fn of(scenario: &'static Scenario) -> Self {
        let mut time = Duration::ZERO;
        let prepared = Prepared::new(scenario, 10, |place| {
            let begun = Instant::now();
            place.output(scenario.command);
            time = begun.elapsed();
        });
        Self { prepared, time }
    }

    /// Sends a signal after `delay`.
    fn with(&self, signal: Signal, delay: Duration) -> Result<bool, String> {
        let place = self.prepared.place();
        let mut command = place.command(self.prepared.scenario.command);
        let Limited { code, stderr, .. } = run_limited(&mut command, |process| {
            std::thread::sleep(delay);
            // It may have ended meanwhile; it has not been waited for, so the number is still its
            // own.
            let _ = kill(Pid::from_raw(i32::try_from(process).unwrap()), signal);
        })?;
        match code {
            None if signal == Signal::SIGKILL => self.prepared.check_killed(&place).map(|()| false),
            // It came before the command had begun.
            None => self.prepared.check_untouched(&place).map(|()| false),
            code => self.prepared.check(&place, code, &stderr),
        }
    }
}

#[test]
fn a_signal_ends_a_command_as_an_error_does() {
    let scenarios: Vec<Timed> = SCENARIOS.iter().map(Timed::of).collect();
    let mut random = Rng::new(0x0051_97a1);
    let mut findings = Findings::default();
    let mut ended_early = 0;
    for () in Cases::new(80) {
        let timed = &scenarios[usize::try_from(random.below(scenarios.len() as u64)).unwrap()];
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL];
        let signal = signals[usize::try_from(random.below(4)).unwrap()];
        let micros = u64::try_from(timed.time.as_micros()).unwrap();
        let delay = Duration::from_micros(random.below(micros + micros / 8));
        let case = format!("{}: {signal} after {delay:?}", timed.prepared.scenario.name);
        if findings.note(&case, timed.with(signal, delay)) == Some(false) {
            ended_early += 1;
        }
    }
    findings.assert_none();
    assert!(ended_early > 0, "no signal came in time");
}
