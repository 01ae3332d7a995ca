//! The order of commits, and how much of it readers see.
//!
//! Rules:
//! 1. A commit gets its sequence numbers, its place in the log and its place in the active
//!    generation under the commit lock, so the three are in one order. Encoding, sorting, writing
//!    and merging happen without it.
//! 2. `visible` is a watermark: rows with lower sequence numbers are in the heads of the view or in
//!    its pages, except those whose numbers the view lists as being written. A commit raises it to
//!    its own end once its log record, and with it every record before, is as durable as the
//!    store's durability asks; by rule 1 all rows below that end are in a head by then.
//! 3. A seal raises `visible` past all that was committed, and then publishes the view in which a
//!    new generation is active, under the commit lock. No commit is then between taking its numbers
//!    and adding its rows to the head, so sealed rows are always visible. If the seal skips numbers
//!    for rows that are to be written straight to pages, that view lists them, and `visible` passes
//!    them only after the view is published.
//! 4. A view is published under the commit lock and the view's lock. A reader takes the view and
//!    `visible` under the view's lock: a commit to the next generation comes after the view that
//!    has it, so every row below `visible` is in the reader's view.
//! 5. If a view has columns that rows in memory lack, heads that have them take the place of the
//!    others under the commit lock, just before the view is published: no commit adds to a head
//!    that is being replaced. A reader of an earlier view reads the columns that it knows, which
//!    are the first ones.

use std::ops::Range;
use std::sync::Arc;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, RwLock};

/// The commit lock, the published view and the watermark.
#[derive(Debug)]
pub(super) struct Order<V> {
    next: Mutex<Next<V>>,
    view: RwLock<Arc<V>>,
    visible: AtomicU64,
}

/// The state that the commit lock guards.
#[derive(Debug)]
pub(super) struct Next<V> {
    sequence: u64,
    /// The published view once more, which commits find in their cache; none if there are no
    /// commits.
    view: Option<Arc<V>>,
}

impl<V> Order<V> {
    /// The order of a store with a view that takes commits.
    pub(super) fn new(next_sequence: u64, view: V) -> Self {
        let view = Arc::new(view);
        Self::of(next_sequence, view.clone(), Some(view))
    }

    /// The order of a store that is open for reading, in which nothing is committed.
    pub(super) fn to_read(next_sequence: u64, view: V) -> Self {
        Self::of(next_sequence, Arc::new(view), None)
    }

    fn of(sequence: u64, published: Arc<V>, view: Option<Arc<V>>) -> Self {
        Self {
            next: Mutex::new(Next { sequence, view }),
            view: RwLock::new(published),
            visible: AtomicU64::new(sequence),
        }
    }

    /// The published view, and the first sequence number that is not visible in it (rule 4).
    pub(super) fn snapshot(&self) -> (Arc<V>, u64) {
        let view = self.view.read();
        (view.clone(), self.visible())
    }

    pub(super) fn view(&self) -> Arc<V> {
        self.view.read().clone()
    }

    /// Reads from the published view, which is not replaced meanwhile.
    pub(super) fn with_view<T>(&self, read: impl FnOnce(&V) -> T) -> T {
        read(&self.view.read())
    }

    pub(super) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// The sequence number that the next row gets.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next.lock().sequence
    }

    /// Keeps commits, seals and new views out while it is held.
    pub(super) fn hold(&self) -> MutexGuard<'_, Next<V>> {
        self.next.lock()
    }

    /// Commits under the commit lock: `place` gets the first sequence number and the view, puts
    /// rows into the log and the active generation, and returns one above the last number that it
    /// took. If it fails, nothing was committed. In a store without commits there is no view.
    pub(super) fn commit<T, E>(
        &self,
        place: impl FnOnce(u64, Option<&V>) -> Result<(T, u64), E>,
    ) -> Result<(T, Range<u64>), E> {
        let mut next = self.next.lock();
        let first = next.sequence;
        let (placed, end) = place(first, next.view.as_deref())?;
        next.sequence = end;
        Ok((placed, first..end))
    }

    /// Makes what was committed before a sequence number visible (rule 2).
    pub(super) fn show(&self, end: u64) {
        self.visible.fetch_max(end, Ordering::AcqRel);
    }

    /// Seals under the commit lock: `seal` gets the next sequence number and the view, makes what
    /// is in the log durable, and returns the view in which another generation is active, and the
    /// first sequence number of that one; or nothing if it seals nothing. Returns the first number
    /// that was not sealed.
    pub(super) fn seal<E>(
        &self,
        seal: impl FnOnce(u64, &V) -> Result<Option<(V, u64)>, E>,
    ) -> Result<u64, E> {
        let next = self.next.lock();
        let first = next.sequence;
        let Some((view, end)) = seal(first, &self.view())? else {
            return Ok(first);
        };
        self.show(first);
        self.replace(next, view, end);
        self.show(end);
        Ok(first)
    }

    /// Publishes a view with the same active generation. `view` is called under the commit lock.
    pub(super) fn publish(&self, view: impl FnOnce() -> V) {
        let next = self.next.lock();
        let sequence = next.sequence;
        self.replace(next, view(), sequence);
    }

    /// Moves a store without commits on to what others committed.
    pub(super) fn move_on(&self, view: V, visible: u64) {
        let earlier = {
            let mut published = self.view.write();
            self.show(visible);
            std::mem::replace(&mut *published, Arc::new(view))
        };
        // Frees the memory that only the earlier view held, without a lock.
        drop(earlier);
    }

    fn replace(&self, mut next: MutexGuard<'_, Next<V>>, view: V, sequence: u64) {
        let view = Arc::new(view);
        next.sequence = sequence;
        let of_commits = next.view.replace(view.clone());
        let published = std::mem::replace(&mut *self.view.write(), view);
        drop(next);
        // Frees the memory that only the earlier view held, without a lock.
        drop((of_commits, published));
    }
}

/// Run with `make loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use std::convert::Infallible;

    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::explore;

    /// A head: the sequence numbers of rows.
    type Head = Arc<Mutex<Vec<u64>>>;

    #[derive(Clone)]
    struct View {
        sealed: Vec<u64>,
        active: Head,
        being_written: Range<u64>,
    }

    /// A store of one table, whose log is written as soon as a record is in it.
    struct Store {
        order: Order<View>,
        log: Mutex<Vec<u64>>,
        written: AtomicU64,
    }

    impl Store {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                order: Order::new(0, View::new(Vec::new(), 0..0)),
                log: Mutex::new(Vec::new()),
                written: AtomicU64::new(0),
            })
        }

        fn commit(&self) {
            let placed = self.order.commit(|first, view| {
                self.log.lock().push(first);
                let view = view.expect("there are commits");
                view.active.lock().push(first);
                Ok::<_, Infallible>(((), first + 1))
            });
            let Ok(((), numbers)) = placed;
            self.written.fetch_max(numbers.end, Ordering::AcqRel);
            self.order.show(numbers.end);
        }

        /// Seals, and leaves out `numbers` sequence numbers after that.
        fn seal(&self, numbers: u64) {
            let sealed = self.order.seal(|next, view| {
                self.written.fetch_max(next, Ordering::AcqRel);
                let mut sealed = view.sealed.clone();
                sealed.extend(view.active.lock().iter());
                let end = next + numbers;
                Ok::<_, Infallible>(Some((View::new(sealed, next..end), end)))
            });
            let Ok(_) = sealed;
        }

        /// A reader finds every row below the watermark but those that the view names as being
        /// written, and sealed rows are below it; all of them are written.
        fn check(&self) -> u64 {
            let (view, visible) = self.order.snapshot();
            let written = self.written.load(Ordering::Acquire);
            let mut found = view.sealed.clone();
            assert!(found.iter().all(|&sequence| sequence < visible));
            found.extend(view.active.lock().iter().filter(|&&sequence| sequence < visible));
            assert!(found.iter().all(|&sequence| sequence < written));
            let is_there = |number: &u64| !view.being_written.contains(number);
            assert!(
                found.into_iter().eq((0..visible).filter(is_there)),
                "up to {visible}"
            );
            visible
        }
    }

    impl View {
        fn new(sealed: Vec<u64>, being_written: Range<u64>) -> Self {
            Self {
                sealed,
                active: Arc::new(Mutex::new(Vec::new())),
                being_written,
            }
        }
    }

    #[test]
    fn loom_readers_see_a_prefix_of_the_commits() {
        explore(3, || {
            let store = Store::new();
            let writers = [(); 2].map(|()| {
                let store = store.clone();
                thread::spawn(move || store.commit())
            });
            let before = store.check();
            assert!(store.check() >= before, "time goes forward");
            for writer in writers {
                writer.join().expect("it commits");
            }
            assert_eq!(store.check(), 2);
            assert_eq!(*store.log.lock(), [0, 1]);
        });
    }

    #[test]
    fn loom_seals_wait_for_commits_and_are_visible() {
        explore(3, || {
            let store = Store::new();
            let writer = {
                let store = store.clone();
                thread::spawn(move || {
                    store.commit();
                    assert!(store.check() >= 1, "a thread sees its own commit");
                })
            };
            let sealer = {
                let store = store.clone();
                thread::spawn(move || store.seal(0))
            };
            store.commit();
            store.check();
            writer.join().expect("it commits");
            sealer.join().expect("it seals");
            assert_eq!(store.check(), 2);
        });
    }

    #[test]
    fn loom_numbers_that_a_seal_leaves_out_are_named_before_they_are_passed() {
        explore(3, || {
            let store = Store::new();
            let writer = {
                let store = store.clone();
                thread::spawn(move || store.commit())
            };
            let sealer = {
                let store = store.clone();
                thread::spawn(move || store.seal(2))
            };
            let before = store.check();
            assert!(store.check() >= before, "time goes forward");
            writer.join().expect("it commits");
            sealer.join().expect("it seals");
            assert_eq!(store.check(), 3);
        });
    }

    /// A commit beside a flush, which excludes seals and publishes a view made from the present
    /// one.
    fn publish_beside_a_commit(view: fn(&View) -> View) {
        explore(3, move || {
            let store = Store::new();
            let flusher = {
                let store = store.clone();
                thread::spawn(move || store.order.publish(|| view(&store.order.view())))
            };
            store.commit();
            store.check();
            flusher.join().expect("it publishes");
            assert_eq!(store.check(), 1);
        });
    }

    #[test]
    fn loom_a_view_without_a_seal_keeps_what_is_committed() {
        publish_beside_a_commit(View::clone);
    }

    #[test]
    fn loom_a_head_that_is_replaced_keeps_what_is_committed() {
        publish_beside_a_commit(|view| {
            let rows = view.active.lock().clone();
            *view.active.lock() = rows;
            view.clone()
        });
    }
}
