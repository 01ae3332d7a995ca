//! A window of keys that moves up: the oldest leave as new ones come.

use std::thread;

/// Inserts `keys` ascending keys with each of several threads, and removes each thread's oldest one
/// as soon as it has more than `kept`. The greatest `kept * threads` keys are left. The value of a
/// key is its number in its thread.
///
/// # Panics
///
/// A removal returns another value than was inserted.
pub fn first_in_first_out(
    (threads, keys, kept): (u64, u64, u64),
    insert: impl Fn(u64, u64) + Sync,
    remove: impl Fn(u64) -> Option<u64> + Sync,
) {
    thread::scope(|scope| {
        for thread in 0..threads {
            let (insert, remove) = (&insert, &remove);
            scope.spawn(move || {
                for n in 0..keys {
                    insert(n * threads + thread, n);
                    if let Some(oldest) = n.checked_sub(kept) {
                        assert_eq!(remove(oldest * threads + thread), Some(oldest));
                    }
                }
            });
        }
    });
}
