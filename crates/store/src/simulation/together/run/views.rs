//! Views that are held while the store goes on, and readers that follow it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::workload::STORE;
use super::super::model::{added_columns, rows_of};
use super::{Models, Run, TABLES};
use crate::disk::sim::Access;
use crate::mark::Mark;
use crate::store::Snapshot;
use crate::sync::Mutex;

/// A snapshot, and the states of which it must have one.
pub(super) struct View {
    pub(super) snapshot: Snapshot,
    pub(super) models: Vec<Models>,
    /// Whether it is of the process that writes.
    pub(super) is_ours: bool,
}

/// A reader that goes from mark to mark in one table.
#[derive(Default)]
pub(super) struct Follower {
    mark: Option<Mark>,
    seen: BTreeSet<i64>,
}

impl Run {
    /// Every table that a view has is one of those that it may have.
    pub(super) fn check_view(&mut self, which: usize) {
        let view = &mut self.views[which];
        let mut found = Vec::new();
        for (name, _) in TABLES {
            let rows = view.snapshot.range(name, ..).and_then(rows_of);
            let columns = added_columns(view.snapshot.schema(name).expect("there").arrow());
            found.push((rows.unwrap_or_else(|error| panic!("{error}")), columns));
        }
        let check = |models: &Models| {
            models
                .iter()
                .zip(&found)
                .try_for_each(|(model, (rows, columns))| {
                    if model.columns != *columns {
                        return Err(format!("it has the added columns {columns:?}"));
                    }
                    model.check(rows)
                })
        };
        let mut problem = Ok(());
        let holds = |models: &Models| {
            let checked = check(models);
            let holds = checked.is_ok();
            problem = checked;
            holds
        };
        let models = view.models.iter().position(holds);
        let models = models.unwrap_or_else(|| panic!("a view, ours: {}: {problem:?}", view.is_ours));
        view.models = vec![view.models.swap_remove(models)];
        for (model, (rows, _)) in view.models[0].iter_mut().zip(&found) {
            model.saw(rows);
        }
    }

    pub(super) fn hold(&mut self, is_ours: bool) {
        self.say(("holds a view, ours", is_ours));
        let snapshot = if is_ours {
            self.store().snapshot()
        } else {
            let reader = self.reader.as_ref().expect("it is open");
            reader.refresh().expect("a sound disk");
            let snapshot = reader.snapshot();
            self.is_durable();
            snapshot
        };
        let models = vec![self.models.clone()];
        self.views.push(View {
            snapshot,
            models,
            is_ours,
        });
        if self.below(2) == 0 {
            self.check_view(self.views.len() - 1);
        }
    }

    /// Finds what is new since the last time, in the tables that are indexed.
    pub(super) fn follow(&mut self, is_ours: bool) {
        self.say(("follows, ours", is_ours));
        if !is_ours {
            let reader = self.reader.as_ref().expect("it is open");
            reader.refresh().expect("a sound disk");
            self.is_durable();
        }
        for (number, (name, _)) in TABLES.iter().enumerate().take(2) {
            let table = if is_ours {
                self.table(number)
            } else {
                let reader = self.reader.as_ref().expect("it is open");
                reader.table(name).expect("there")
            };
            let follower = &mut self.followers[usize::from(is_ours)][number];
            let new = follower
                .mark
                .map_or_else(|| table.range(..), |mark| table.since(mark));
            let new = new.expect("there");
            follower.mark = Some(new.mark());
            let rows = rows_of(new).unwrap_or_else(|error| panic!("{error}"));
            let found = self.models[number].check_new(&rows, &mut follower.seen);
            found.unwrap_or_else(|problem| panic!("followed, ours: {is_ours}: {problem}"));
        }
    }

    /// Appends a long batch; while it is on its way to the disk a row is appended, and views are
    /// taken.
    pub(super) fn interrupt(&mut self) {
        let (long, short) = ([0, 2][self.rng.index(2)], self.rng.index(TABLES.len()));
        let first = self.now;
        self.now += 12_000;
        // No two of them have a time in common.
        let count = self.below(30);
        let between = self.rows(short, (0..count).map(|at| first + 2 * (at * 331 % 6000) + 1));
        let count = 2000 + self.below(4000);
        let rows = self.rows(long, (0..count).map(|at| first + 2 * (count - at)));
        self.say(("interrupts", long, rows.len(), short, between.len()));
        let is_armed = Arc::new(AtomicBool::new(true));
        let taken = Arc::new(Mutex::new(None));
        let ((other, append), ours) = (self.table_and_batch(short, &between), self.store().clone());
        let reader = self.reader.clone().expect("it is open");
        let data = Path::new(STORE).join("data");
        self.disk.interrupt(Access::Write, &data, {
            let (is_armed, taken) = (is_armed.clone(), taken.clone());
            move || {
                if is_armed.load(Ordering::Relaxed) {
                    other.append(&append).expect("a sound disk");
                    reader.refresh().expect("a sound disk");
                    *taken.lock() = Some([(ours.snapshot(), true), (reader.snapshot(), false)]);
                }
            }
        });
        let (table, batch) = self.table_and_batch(long, &rows);
        table.append(&batch).expect("a sound disk");
        is_armed.store(false, Ordering::Relaxed);
        self.disk.interrupt(Access::Write, &data, || {});
        let mut views = Vec::new();
        let taken = taken.lock().take();
        if let Some(taken) = taken {
            self.models[short].append(&between);
            self.is_durable();
            views.extend(taken);
        }
        let before = self.models.clone();
        self.models[long].append(&rows);
        self.may_be_lost();
        for (snapshot, is_ours) in views {
            let models = vec![before.clone(), self.models.clone()];
            self.views.push(View {
                snapshot,
                models,
                is_ours,
            });
        }
    }
}
