//! Verification: every page read from the disk and checked, every tree walked, the log read.

use bedload_pages::PageId;
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use super::state::Engine;
use crate::error::{Error, Misread, Result, in_words};

/// The report of [`Store::verify`](crate::Store::verify).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Pages that were read and checked.
    pub pages: u64,
    /// Blocks of sparse tables that were read and checked.
    pub blocks: u64,
    /// Rows found in pages and blocks.
    pub rows: u64,
    /// Records read from the log.
    pub log_records: u64,
    /// All that is wrong; empty for a sound store.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Where in the file.
    pub place: String,
    /// Which rule is broken there.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file.display(), self.place, self.reason)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt { file, place, reason } => Self { file, place, reason },
            Error::Io { path, action, source } => {
                let (place, reason) = match Misread::of(&source) {
                    Some(Misread { place, source }) => {
                        (place.clone(), format!("cannot {action} it: {}", in_words(source)))
                    }
                    None => (format!("cannot {action} it"), in_words(&source)),
                };
                Self {
                    file: path,
                    place,
                    reason,
                }
            }
            other => Self {
                file: PathBuf::new(),
                place: "the store".into(),
                reason: other.to_string(),
            },
        }
    }
}

impl VerifyReport {
    /// Notes damage and goes on; other errors are passed on.
    fn note(&mut self, error: Error) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        let problem = Problem::from(error);
        // A damaged page that is also read through its tree counts once.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
        Ok(())
    }
}

impl Engine {
    /// Checks the last checkpoint and the log after it. Others write meanwhile.
    pub(crate) fn verify(&self) -> Result<VerifyReport> {
        self.process.check(&self.dir)?;
        let mut report = VerifyReport::default();
        let (fixtures, records, view) = {
            // No flush may write a superblock or remove the part of the log that is being read.
            // Pages and blocks are those of a view, which keeps them where they are.
            let _flushing = self.flush.lock();
            let view = self.view();
            match self.check_reading() {
                Some((fixtures, records)) => (fixtures, Ok(records), view),
                None => {
                    let records = self.log.check(view.generations()[0].log_start);
                    (self.pages.check_fixtures(), records, view)
                }
            }
        };
        for damage in fixtures {
            report.note(damage)?;
        }
        let mut damaged: HashSet<PageId> = HashSet::new();
        for id in view.pages.ids() {
            report.pages += 1;
            if let Err(error) = view.pages.check(id) {
                damaged.insert(id);
                report.note(error)?;
            }
        }
        let data = self.pages.path().to_owned();
        let mut reachable: HashSet<PageId> = HashSet::new();
        for table in view.catalogue.iter() {
            let found = match table.verify(&view, &data, &damaged) {
                Ok(found) => found,
                Err(error) => {
                    report.note(error)?;
                    continue;
                }
            };
            report.rows = report.rows.saturating_add(found.rows);
            report.blocks += found.blocks;
            found
                .problems
                .into_iter()
                .try_for_each(|damage| report.note(damage))?;
            for page in found.pages {
                if !reachable.insert(page) {
                    let place = format!("page {page} (table {:?})", table.entry.name);
                    report.note(Error::corrupt(&data, place, "another tree has this page too"))?;
                }
            }
        }
        if report.problems.is_empty() {
            for leaked in view.pages.ids().filter(|id| !reachable.contains(id)) {
                let (place, reason) = (format!("page {leaked}"), "no tree reaches it".into());
                report.problems.push(Problem {
                    file: data.clone(),
                    place,
                    reason,
                });
            }
        }
        match records {
            Ok(records) => report.log_records = records,
            Err(error) => report.note(error)?,
        }
        Ok(report)
    }
}
