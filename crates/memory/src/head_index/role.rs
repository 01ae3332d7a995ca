//! What is known to whoever has the role of switching the head and uniting parts.

use super::measure::Gauge;
use crate::search::columns::Words;

/// Parts from which on two are united.
pub(super) const UNITED_FROM: usize = if cfg!(loom) { 3 } else { 4 };

/// What the role's holder keeps.
#[derive(Debug)]
pub(super) struct Role<W> {
    pub(super) gauge: Gauge,
    /// About how many entries each part has, but the head.
    pub(super) sizes: Vec<u64>,
    /// Writes until the last switch.
    pub(super) written: u64,
    pub(super) frozen: Option<Frozen<W>>,
    pub(super) thaws: u32,
    pub(super) switches: u64,
    pub(super) chunks: u64,
    pub(super) moved: u64,
}

/// A chunk that waits to be copied.
#[derive(Debug)]
pub(super) struct Frozen<W> {
    pub(super) place: usize,
    pub(super) low: W,
    pub(super) high: W,
    /// Turns of writers who were present when it was frozen.
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
