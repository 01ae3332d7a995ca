//! State of the role that switches the head and unites parts.

use super::measure::Gauge;
use crate::search::columns::Words;

/// Number of parts at or above which two are united.
pub(super) const UNITED_FROM: usize = if cfg!(loom) { 3 } else { 4 };

/// State kept by the role's holder.
#[derive(Debug)]
pub(super) struct Role<W> {
    pub(super) gauge: Gauge,
    /// Approximate number of entries of each part except the head.
    pub(super) sizes: Vec<u64>,
    /// Total writes at the last switch.
    pub(super) written: u64,
    pub(super) frozen: Option<Frozen<W>>,
    pub(super) thaws: u32,
    pub(super) switches: u64,
    pub(super) chunks: u64,
    pub(super) moved: u64,
}

/// A frozen chunk that is to be copied.
#[derive(Debug)]
pub(super) struct Frozen<W> {
    pub(super) place: usize,
    pub(super) low: W,
    pub(super) high: W,
    /// Slots and turns of the writers that were present when it was frozen.
    pub(super) present: Vec<(usize, u64)>,
}

impl<W: Words> Role<W> {
    pub(super) const fn new() -> Self {
        Self {
            gauge: Gauge::new(),
            sizes: Vec::new(),
            written: 0,
            frozen: None,
            thaws: 0,
            switches: 0,
            chunks: 0,
            moved: 0,
        }
    }
}
