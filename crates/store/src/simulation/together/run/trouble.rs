//! Disks that are full or fail, processes that end, power that is cut, and what a salvage saves
//! then.

use std::path::Path;
use std::sync::Arc;

use super::super::super::workload::{STORE, open, open_at};
use super::changes::{Change, model};
use super::{Run, check_all, open_to_read};
use crate::disk::sim::{Fault, FaultKind, SimDisk};
use crate::engine::salvage;
use crate::options::Durability;

impl Run {
    /// Ends the process as it is, and opens the store in another one; a change may be done or not.
    pub(super) fn reopen(&mut self, change: Option<&Change>) {
        self.say("opened");
        self.views.retain(|view| !view.is_ours);
        self.marks.clear();
        self.pauses = Default::default();
        self.older = Default::default();
        // Dropped while the fault that it died of is still set.
        drop(self.store.take());
        self.disk.set_fault(None);
        self.disk.set_capacity(u64::MAX);
        let left = self.disk.copy();
        self.store = Some(open(&self.disk, self.options.clone()).expect("opens"));
        for model in &mut self.models {
            model.pause(false);
        }
        if let Some(change) = change {
            let mut after = self.models.clone();
            model(change, &mut after);
            if check_all(self.store(), &self.models).is_err() {
                let found = check_all(self.store(), &after);
                assert!(
                    found.is_ok(),
                    "neither done nor not: {found:?}, {:?}",
                    check_all(self.store(), &self.models)
                );
                self.models = after;
            }
        }
        self.is_durable();
        self.check_now();
        if let Some(change @ Change::Keep(..)) = change {
            // Rows do not tell whether it was done: it is done again.
            self.do_change(change);
        } else if self.below(4) == 0 {
            self.salvage(left);
        }
    }

    /// Salvages a store of which nothing is damaged: the new one has the same rows. Of a table with
    /// a retention it may have some that have expired when the store was opened.
    fn salvage(&mut self, left: SimDisk) {
        self.say("salvages");
        let to = Path::new("/saved");
        let report = salvage(Arc::new(left.clone()), Path::new(STORE), to).expect("a sound disk");
        // A record that was never synced may be torn.
        let may_be_torn = self.options.durability == Durability::Relaxed;
        assert!(may_be_torn || report.problems.is_empty(), "{:?}", report.problems);
        let saved = open_at(&left, to, self.options.clone()).expect("opens");
        self.check_copy(&saved, "what was saved", |model| !model.expires());
    }

    /// Does some changes while there is little space.
    pub(super) fn fill(&mut self) {
        let space = self.below(4).unsigned_abs() * 40_000;
        self.say(("there is space for", space));
        self.disk.set_capacity(self.disk.used() + space);
        for _ in 0..1 + self.below(4) {
            let change = self.some_change();
            self.change(&change);
        }
        self.disk.set_capacity(u64::MAX);
        self.check_now();
    }

    /// Lets a call fail, or the process die, in the middle of some changes.
    pub(super) fn fail(&mut self) {
        let kinds = [
            FaultKind::Error,
            FaultKind::NoSpace,
            FaultKind::Partial,
            FaultKind::Death,
            FaultKind::NoDescriptors,
        ];
        let kind = kinds[self.rng.index(kinds.len())];
        let call = self.disk.calls() + 1 + self.below(80).unsigned_abs();
        self.say(("fails", kind));
        self.disk.set_fault(Some(Fault { call, kind }));
        let (failed, unknown) = (self.failed, self.unknown);
        for _ in 0..4 {
            let change = self.some_change();
            self.change(&change);
            if (failed, unknown) != (self.failed, self.unknown) {
                break;
            }
        }
        self.disk.set_fault(None);
        // A failure after a change that is done may end writing.
        self.change(&Change::Flush);
        self.check_now();
    }

    /// Closes the store, lets its process die, or cuts the power, and opens it again.
    pub(super) fn end(&mut self) {
        match self.below(4) {
            0 => {
                self.say("closes");
                self.pauses = Default::default();
                self.older = Default::default();
                self.views.retain(|view| !view.is_ours);
                let store = self.store.take().expect("it is open");
                store.close().expect("a sound disk");
                let marks = std::mem::take(&mut self.marks);
                self.reopen(None);
                self.marks = marks;
            }
            1 | 2 => {
                self.say("dies");
                self.disk.set_fault(Some(Fault {
                    call: self.disk.calls(),
                    kind: FaultKind::Death,
                }));
                self.reopen(None);
            }
            _ => self.cut(),
        }
    }

    /// Cuts the power: only what was synced is left of any process.
    fn cut(&mut self) {
        self.say("power is cut");
        let trace = self.disk.trace(self.begun.take().expect("it is recorded"));
        self.views.clear();
        self.pauses = Default::default();
        self.older = Default::default();
        self.reader = None;
        drop(self.store.take());
        let mut replay = trace.replay();
        while replay.step(&mut self.rng).is_some() {}
        self.disk = replay.image(self.rng.next_u64());
        self.begun = Some(self.disk.record());
        if !self.states.is_empty() {
            for model in self.states.iter_mut().flatten() {
                model.pause(false);
            }
            let left = open(&self.disk.copy(), self.options.clone()).expect("opens");
            let state = self
                .states
                .iter()
                .rposition(|models| check_all(&left, models).is_ok());
            let state = state.unwrap_or_else(|| {
                let found: Vec<_> = self
                    .states
                    .iter()
                    .map(|models| check_all(&left, models))
                    .collect();
                panic!("power loss left no state since the last that was durable: {found:#?}")
            });
            self.models = self.states.swap_remove(state);
            // It was in the process that wrote, and may have seen rows that are lost.
            self.followers[1] = Default::default();
        }
        self.reopen(None);
        self.reader = Some(open_to_read(&self.disk, self.options.clone()));
    }
}
