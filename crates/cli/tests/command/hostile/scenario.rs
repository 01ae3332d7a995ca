//! The commands that the suite disturbs, and the stores that they may leave.

use std::path::Path;

use super::outcome::{orderly, says_done, says_not_put_back, whole};
use crate::harness::{Place, near_sorted_csv};

/// A command, and what it works on.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Commands that prepare the place.
    before: &'static [&'static str],
    pub(super) command: &'static str,
    /// The store that the command changes or makes.
    store: &'static str,
    /// The file that it writes.
    file: Option<&'static str>,
}

const INGEST: &str = "ingest s t rows.csv --time t --schema t:timestamp(s),n:int64 --batch-rows 300";
const OTHER: &str = "ingest s u more.csv --time t --schema t:timestamp(s),n:int64 --batch-rows 300";
const SPARSE: &str =
    "ingest s t grid.csv --time t --schema t:timestamp(s),n:int64 --layout sparse --interval 1s";

pub(super) const SCENARIOS: [Scenario; 11] = [
    Scenario {
        name: "ingest into a new store",
        before: &[],
        command: INGEST,
        store: "s",
        file: None,
    },
    Scenario {
        name: "ingest into a table",
        before: &[INGEST],
        command: "ingest s t more.csv --time-unit s --batch-rows 300",
        store: "s",
        file: None,
    },
    Scenario {
        name: "ingest into a new table",
        before: &[INGEST],
        command: OTHER,
        store: "s",
        file: None,
    },
    Scenario {
        name: "ingest into a sparse table",
        before: &[SPARSE],
        command: "ingest s t grid2.csv --time-unit s --batch-rows 500",
        store: "s",
        file: None,
    },
    Scenario {
        name: "delete",
        before: &[INGEST],
        command: "delete s t --from 1970-01-12T14:00:00 --to 1970-01-12T14:03:00",
        store: "s",
        file: None,
    },
    Scenario {
        name: "delete from a sparse table",
        before: &[SPARSE],
        command: "delete s t --from 1970-01-01T00:10:00 --to 1970-01-01T00:20:00",
        store: "s",
        file: None,
    },
    Scenario {
        name: "convert",
        before: &[SPARSE],
        command: "convert s t u --layout indexed",
        store: "s",
        file: None,
    },
    Scenario {
        name: "backup",
        before: &[SPARSE, OTHER],
        command: "backup s copy",
        store: "copy",
        file: None,
    },
    Scenario {
        name: "restore",
        before: &[INGEST, "backup s kept"],
        command: "restore kept copy",
        store: "copy",
        file: None,
    },
    Scenario {
        name: "salvage",
        before: &[SPARSE, OTHER],
        command: "salvage s copy",
        store: "copy",
        file: None,
    },
    Scenario {
        name: "query into a file",
        before: &[INGEST],
        command: "query s t --format parquet --output rows.parquet",
        store: "s",
        file: Some("rows.parquet"),
    },
];

/// Writes the input files of all scenarios: 700 to 3,000 rows each, `scale` times.
fn write_input(place: &Place, scale: u32) {
    place.write("rows.csv", near_sorted_csv(1000 * u64::from(scale)));
    place.write("more.csv", near_sorted_csv(700 * u64::from(scale)));
    let grid = |range: std::ops::Range<u32>, n: u32| {
        range.fold("t,n\n".to_owned(), |csv, t| csv + &format!("{t},{n}\n"))
    };
    place.write("grid.csv", grid(0..3000 * scale, 1));
    place.write("grid2.csv", grid(1500 * scale..4000 * scale, 2));
}

/// Copies files and directories below `from` to `to`.
pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A scenario that has been run undisturbed.
pub(super) struct Prepared {
    pub(super) scenario: &'static Scenario,
    /// Where the scenario begins; copied for each run.
    origin: Place,
    before: Option<String>,
    after: Option<String>,
    file: Option<Vec<u8>>,
}

impl Prepared {
    /// Prepares a scenario, and runs it once with `run`, which must succeed.
    pub(super) fn new(scenario: &'static Scenario, scale: u32, run: impl FnOnce(&Place)) -> Self {
        let origin = Place::new();
        write_input(&origin, scale);
        for command in scenario.before {
            origin.output(command);
        }
        let done = Place::new();
        copy(&origin.path(""), &done.path(""));
        run(&done);
        Self {
            scenario,
            before: origin.contents(scenario.store),
            after: done.contents(scenario.store),
            file: scenario.file.map(|file| std::fs::read(done.path(file)).unwrap()),
            origin,
        }
    }

    /// A place in which the scenario can be run.
    pub(super) fn place(&self) -> Place {
        self.filled(Place::new())
    }

    /// The same within a directory, which may be on a disk of its own.
    pub(super) fn place_within(&self, dir: &Path) -> Place {
        self.filled(Place::within(dir))
    }

    fn filled(&self, place: Place) -> Place {
        copy(&self.origin.path(""), &place.path(""));
        place
    }

    /// Checks what a disturbed run left; returns whether it did its work.
    pub(super) fn check(&self, place: &Place, code: Option<i32>, message: &str) -> Result<bool, String> {
        let scenario = self.scenario;
        let done = orderly(code, message)?;
        let state = state_of(place, scenario.store)?;
        let file = scenario.file.map(|file| std::fs::read(place.path(file)).ok());
        // A salvage that meets a failing disk copies what it can read.
        let is_partial = scenario.command.starts_with("salvage") && code == Some(3);
        if done || says_done(message) {
            if state != self.after {
                return Err("succeeds, and the rows are not there".to_owned());
            }
            if file.is_some_and(|file| file != self.file) {
                return Err("succeeds, and the file is not whole".to_owned());
            }
        } else {
            if state != self.before && !is_partial && !says_not_put_back(message) {
                return Err(format!("the store is not as it was, and it says: {message}"));
            }
            if file.flatten().is_some() {
                return Err(format!("a file is left, and it says: {message}"));
            }
        }
        self.check_whole(place, state.is_some())?;
        Ok(done)
    }

    /// Checks that a run has changed nothing.
    pub(super) fn check_untouched(&self, place: &Place) -> Result<(), String> {
        if state_of(place, self.scenario.store)? != self.before {
            return Err("a signal ended it while it worked".to_owned());
        }
        self.check_killed(place)
    }

    /// Checks what a run left that was killed.
    pub(super) fn check_killed(&self, place: &Place) -> Result<(), String> {
        let is_there = state_of(place, self.scenario.store)?.is_some();
        self.check_whole(place, is_there)?;
        if let Some(name) = names_in(&place.path("")).find(|name| !self.may_be_left(name)) {
            return Err(format!("{name} is left"));
        }
        match self
            .scenario
            .file
            .map(|file| std::fs::read(place.path(file)).ok())
        {
            Some(Some(bytes)) if Some(&bytes) != self.file.as_ref() => Err("half a file is left".to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether a run that was killed may leave this name beside what it made: docs/cli.md says
    /// which.
    fn may_be_left(&self, name: &str) -> bool {
        let made = [Some(self.scenario.store), self.scenario.file];
        made.into_iter()
            .flatten()
            .any(|made| match name.strip_prefix(made) {
                Some(rest) => rest
                    .strip_prefix(".unfinished-")
                    .map_or(rest.is_empty(), |letters| letters.len() == 6),
                None => false,
            })
            || self.origin.path(name).exists()
    }

    /// Checks the store of the scenario, if it is there, and those that it only reads.
    fn check_whole(&self, place: &Place, is_there: bool) -> Result<(), String> {
        for store in ["s", "kept", "copy"] {
            let is_read = store != self.scenario.store && self.origin.path(store).exists();
            if is_read || store == self.scenario.store && is_there {
                whole(place, store)?;
            }
        }
        Ok(())
    }
}

/// The names of what is in a directory.
fn names_in(dir: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// The contents of a store; `None` where there is none, or only the beginning of one.
fn state_of(place: &Place, store: &str) -> Result<Option<String>, String> {
    let info = place.run(&format!("info {store}"));
    match info.code {
        Some(0) => Ok(place.contents(store)),
        Some(6) => Ok(None),
        code => Err(format!("afterwards, info ends with {code:?}: {}", info.stderr)),
    }
}
