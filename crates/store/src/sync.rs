//! Locks and atomics of what loom explores, from one place that loom can replace.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

#[cfg(all(test, loom))]
pub(crate) use explored::explore;
#[cfg(loom)]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(loom)]
pub(crate) use loom::sync::RwLockReadGuard;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// Loom's locks with the interface of `parking_lot`.
#[cfg(loom)]
mod explored {
    use std::ops::{Deref, DerefMut};

    const SOUND: &str = "no thread of a model panics";

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let held = Some(self.0.lock().expect(SOUND));
            MutexGuard { lock: &self.0, held }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = Some(self.0.try_lock().ok()?);
            Some(MutexGuard { lock: &self.0, held })
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    #[derive(Debug)]
    pub(crate) struct MutexGuard<'l, T> {
        lock: &'l loom::sync::Mutex<T>,
        /// None only within [`unlocked`](Self::unlocked) and a wait.
        held: Option<loom::sync::MutexGuard<'l, T>>,
    }

    impl<T> MutexGuard<'_, T> {
        pub(crate) fn unlocked<U>(guard: &mut Self, then: impl FnOnce() -> U) -> U {
            guard.held = None;
            let outcome = then();
            guard.held = Some(guard.lock.lock().expect(SOUND));
            outcome
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.held.as_ref().expect("it is locked")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect("it is locked")
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("it is locked");
            guard.held = Some(self.0.wait(held).expect(SOUND));
        }

        /// Its time may be over at once.
        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: std::time::Duration) {
            MutexGuard::unlocked(guard, loom::thread::yield_now);
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[derive(Debug)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
            self.0.read().expect(SOUND)
        }

        pub(crate) fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
            self.0.write().expect(SOUND)
        }
    }

    impl<T: Default> Default for RwLock<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    /// Runs a model in every interleaving of its threads with up to `preemptions` preemptions, or
    /// as many as `LOOM_MAX_PREEMPTIONS` says.
    #[cfg(test)]
    pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        use std::sync::atomic::{AtomicU64, Ordering};

        let runs = std::sync::Arc::new(AtomicU64::new(0));
        let counted = runs.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(preemptions);
        builder.max_branches = 100_000;
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            model();
        });
        let runs = runs.load(Ordering::Relaxed);
        println!("{runs} runs");
        assert!(runs > 1, "nothing was explored");
    }
}
