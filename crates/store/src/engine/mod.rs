//! The engine: commits on one side, flushes and checkpoints on the other, readers beside both.
//!
//! Thread rules:
//! 1. Commits are in one order, `visible` follows it, and views replace one another in it: the
//!    rules are those of [`order`]. A commit waits for the disk without the *commit lock*. A reader
//!    keeps the view and the `visible` it began with.
//! 2. A thread that flushes, makes a checkpoint or changes the catalogue holds the *flush lock*,
//!    and takes the commit lock after it, only to seal and to publish. Sealing syncs the log, so
//!    sealed rows are always durable. Generations that a failed flush left sealed are flushed
//!    before more is sealed: until then the active generation fills, and writers get the error.
//! 3. After a failure that leaves unknown what reached the disk, `failed` is set and nothing is
//!    written any more; the published view is still right and readable.
//! 4. A store that is open for reading takes none of these locks but the view's ([`reading`]).

mod applying;
mod backup;
mod columns;
mod commit;
mod counters;
mod directory;
mod drop;
mod due;
mod flush;
mod flusher;
mod following;
mod group;
mod hold;
mod lock;
mod metrics;
mod names;
mod open;
mod order;
mod pace;
mod process;
mod reading;
mod recovery;
mod remove;
mod rename;
mod reserve;
mod retention;
mod salvage;
mod state;
mod table_name;
mod verify;
mod wake;

pub(crate) use backup::copy_store;
pub use commit::Appended;
pub(crate) use commit::Begun;
pub(crate) use directory::check_creatable;
pub(crate) use flusher::Flusher;
pub(crate) use group::Group;
#[cfg(any(test, fuzzing))]
pub(crate) use lock::decode as lock_holder;
pub use metrics::Metrics;
pub(crate) use process::Process;
pub use salvage::SalvageReport;
pub(crate) use salvage::{inspect, salvage};
pub(crate) use state::Engine;
pub use verify::{Problem, VerifyReport};
