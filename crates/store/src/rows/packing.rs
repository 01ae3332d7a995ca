//! Whether batches of a table are worth packing.

use parking_lot::Mutex;

/// The most batches left unpacked after a failed attempt: once rows come that would be shorter
/// packed, as many are still logged as they are.
const SKIPPED_MAX: u32 = 32;

/// How packing fared with the last long batches of a table. It takes about as long as the rest of a
/// commit, and random values become no shorter; so after a failed attempt some batches are not
/// packed, and twice as many after each further one.
#[derive(Debug, Default)]
pub(crate) struct Packing(Mutex<Skips>);

#[derive(Debug, Default)]
struct Skips {
    /// Batches until the next attempt.
    left: u32,
    /// Batches between the last two attempts, both of which failed.
    between: u32,
}

impl Packing {
    /// Whether the next batch is worth an attempt, which is [noted](Self::note).
    pub(crate) fn is_due(&self) -> bool {
        let mut skips = self.0.lock();
        match skips.left.checked_sub(1) {
            Some(left) => {
                skips.left = left;
                false
            }
            None => true,
        }
    }

    /// Takes note of an attempt, and whether it made a batch shorter.
    pub(crate) fn note(&self, helped: bool) {
        let mut skips = self.0.lock();
        let between = if helped {
            0
        } else {
            (2 * skips.between).clamp(1, SKIPPED_MAX)
        };
        *skips = Skips {
            left: between,
            between,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_in_vain_become_rare_until_one_helps() {
        let packing = Packing::default();
        let attempts = |batches: u32, helps: bool| -> Vec<u32> {
            let is_attempt = |_: &u32| {
                let is_due = packing.is_due();
                if is_due {
                    packing.note(helps);
                }
                is_due
            };
            (0..batches).filter(is_attempt).collect()
        };
        assert_eq!(attempts(100, false), [0, 2, 5, 10, 19, 36, 69]);
        assert_eq!(attempts(8, true), [2, 3, 4, 5, 6, 7]);
        assert_eq!(attempts(6, false), [0, 2, 5]);
    }
}
