//! Locks and atomics of the order of commits, from one place that loom can replace.

#[cfg(not(loom))]
pub(super) use parking_lot::{Mutex, MutexGuard, RwLock};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(super) use loom::sync::MutexGuard;
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

/// Loom's lock with the interface of `parking_lot`.
#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no thread of a model panics")
    }
}

/// Loom's lock with the interface of `parking_lot`.
#[cfg(loom)]
#[derive(Debug)]
pub(super) struct RwLock<T>(loom::sync::RwLock<T>);

#[cfg(loom)]
impl<T> RwLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    pub(super) fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("no thread of a model panics")
    }

    pub(super) fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("no thread of a model panics")
    }
}
