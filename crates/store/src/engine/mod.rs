//! The engine: commits on one side, flushes and checkpoints on the other, readers beside both.
//!
//! Thread rules:
//! 1. A commit takes the *commit lock* while it gives its rows sequence numbers, appends them to
//!    the log and adds them to the active generation; so the three are in one order. It waits for
//!    the disk without the lock.
//! 2. Rows become visible when `visible` passes their sequence numbers, which happens once they are
//!    as durable as the store's durability asks. A reader keeps the `visible` it began with.
//! 3. Whoever flushes, makes a checkpoint or changes the catalogue holds the *flush lock*, and
//!    takes the commit lock after it, only to seal. Sealing syncs the log, so sealed rows are
//!    always durable and visible.
//! 4. The published view changes by replacement: on sealing, under the commit lock, and when a
//!    flush is published. A reader takes the view and `visible` under the view's lock, so that
//!    every visible row is in its view.
//! 5. After a failure that leaves unknown what reached the disk, `failed` is set and nothing is
//!    written any more; the published view is still right and readable.
//! 6. A store that is open for reading takes none of these locks but the view's ([`reading`]).

mod applying;
mod backup;
mod commit;
mod counters;
mod directory;
mod drop;
mod flush;
mod flusher;
mod following;
mod group;
mod hold;
mod lock;
mod metrics;
mod names;
mod open;
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
mod verify;
mod wake;

pub use commit::Appended;
pub(crate) use commit::Begun;
pub(crate) use flusher::Flusher;
pub(crate) use group::Group;
#[cfg(any(test, fuzzing))]
pub(crate) use lock::decode as lock_holder;
pub use metrics::Metrics;
pub use salvage::SalvageReport;
pub(crate) use salvage::{inspect, salvage};
pub(crate) use state::Engine;
pub use verify::{Problem, VerifyReport};
