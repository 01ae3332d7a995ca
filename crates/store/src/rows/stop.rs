//! Ending a scan from elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a scan from elsewhere, such as another thread
/// ([`Scan::stop_handle`](crate::Scan::stop_handle)). Clones end the same scan.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Ends the scan: it gives no batch any more. If it is looking for a row that meets its
    /// conditions, it reads no more than the leaf or the blocks that it has begun; a scan of a
    /// sparse table passes over rows that were deleted since the last flush first.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the scan was ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
