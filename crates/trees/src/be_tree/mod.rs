//! A Bε-tree made for pages: small trunk nodes over immutable sorted [`run`](super::run)s.
//!
//! Changes come in sorted batches. A batch is written as a run, which the root names; when much
//! pends, a child's slice of the root's runs is pushed down to it as one new run, and so on to the
//! leaves, where what comes down is merged with the leaf's run. So an entry is written a few times
//! in all, in long sequences, however random its key (Brodal and Fagerberg, "Lower bounds for
//! external memory dictionaries", SODA 2003; runs in the place of buffers after SplinterDB, Conway
//! et al., USENIX ATC 2020, and its use as a PostgreSQL index, Gurajada et al., "Fast Ingest and
//! Query Performance in PostgreSQL with SplinterDB Indexes"). Levels above the leaves keep several
//! runs, leaves keep one: lazy levelling (Dayan and Idreos, "Dostoevsky", SIGMOD 2018).
//!
//! | | |
//! |---|---|
//! | [`BeTree`] | create, open, get, ranges |
//! | [`SortedBatch`], [`SealedBatch`] | changes, being written, to be published |
//! | [`Cursor`] | a range, in either direction |
//! | [`Maintainer`] | pushes down, merges and splits, a bounded piece at a time |
//! | [`BulkDelete`] | vacuum |
//! | [`Level`] | how much each level has |
//! | [`FilterProbes`] | how often filters err |
//! | [`Runs`] | what a tree asks of its runs: those of entries, or of another kind |
//!
//! # Shape
//!
//! 1. A tree is named by its meta page, which names the root. Both keep their pages for life. The
//!    root is above the leaves: a tree has two levels at least. How the bytes of a node lie is told
//!    in `node.rs`.
//! 2. The nodes of one level cover all points, without gap or overlap: a child from its pivot up to
//!    the next one's, and a first child from the beginning of its parent. Pivots of first children
//!    are ignored.
//! 3. A run belongs to one node for life, and has only entries of the node's interval. If two
//!    entries have one key and tie, the newer is in the node nearer to the root; of those in one
//!    node it is in the later run.
//! 4. For each child a node knows how many of its runs, from the oldest, have been pushed down to
//!    it. Their slices of the child's interval are not looked at any more; a run of which every
//!    child has its slice is forgotten. Runs of which no child has its slice are merged with others
//!    of about their size.
//! 5. A leaf has one run, or several if one would have more pages than [`Runs::pages_max`] says;
//!    entries in order are appended as further runs. No two runs of a leaf overlap, and their order
//!    is that of their keys.
//! 6. Entries above all others of the tree go straight to the rightmost leaf, or to a new one:
//!    in-order input is written once if batches are large, and merged once more if they are small.
//! 7. A node that has too many children is drained, then split. The root moves all it has into a
//!    new child instead.
//!
//! # Changes
//!
//! 8. Each change is one batch: the root and its new run; a parent, a child, and at most one new
//!    node. New leaves are written in batches before the one that names them, as runs are.
//! 9. Runs are read and written without a latch. A thread that publishes the output of runs checks
//!    that their node still has them, in their place, and that no vacuum has cleaned them since
//!    they were read; otherwise the output is lost.
//! 10. A thread that merges, pushes down, splits or removes a run has the right to maintain each
//!     node it changes ([`PageStore::try_maintain`](bedload_pages::PageStore::try_maintain)).
//!     Others only append a run or a rightmost leaf. So a run read with the right to maintain its
//!     node can be read to its end.
//! 11. The thread that unlinks runs retires their pages.
//!
//! # Readers
//!
//! 12. A descent couples latches and copies the lists of runs that the interval of a leaf is made
//!     of. Then it holds nothing. Pages of runs say to which run they belong; where one does not,
//!     or cannot be read, the reader descends again from its last entry, and only if the run is
//!     still named is that damage.
//!
//! # Vacuum
//!
//! 13. See [`BulkDelete`]. A run's cycle says as of when it is clean: a merged run has the least
//!     cycle of its inputs, as they were when the merge began; a fresh one has the present cycle. A
//!     vacuum goes from left to right, and stays at each interval until none of the runs on the
//!     path to its leaf is older. A run that some child lacks its slice of is on the path to that
//!     child. Entries keep their order and only ever move down, with the age of their source: so
//!     nothing older gets behind the vacuum.
//!
//! # Hints
//!
//! 14. A reader may note that entries are dead ([`BeTree::hint_dead`]), and readers that ask for it
//!     pass them over. Merges do not look at hints.
//!
//! # Settings
//!
//! See [`BeTreeOptions`] for the law of parameters.

mod bytes;
mod cursor;
#[cfg(test)]
mod damaged;
mod descend;
mod due;
mod hint;
mod insert;
mod job;
mod levels;
mod lookup;
mod maintain;
mod meta;
mod node;
mod options;
mod probe;
mod reach;
mod rearrange;
mod retain;
mod runs;
mod stretch;
mod tree;
mod vacuum;
mod verify;

pub use cursor::Cursor;
pub use descend::{LeafInterval, LeafTarget};
pub use insert::{Pressure, SealedBatch, SortedBatch};
pub use levels::Level;
pub use maintain::{Maintainer, MaintenanceWork, Progress};
pub use options::BeTreeOptions;
pub use probe::FilterProbes;
pub use reach::PageVisitor;
pub use retain::{EdgeRange, RunEdit};
pub use runs::{MergeTarget, RowForm, RunMerge, RunProblem, RunSlice, Runs, TreeRun};
pub use tree::BeTree;
pub use vacuum::BulkDelete;
pub use verify::{BeTreeProblem, Report};
