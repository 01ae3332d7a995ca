//! The in-memory indexes under the contract suite.

use std::ops::Bound;

use bedload_testkit::contract::{ConcurrentIndex, Direction, Keys, Removed};

use super::key::Key;
use super::shared_map::SharedMap;

/// An index under test, and its keys.
///
/// ```
/// use bedload_memory::BlinkTree;
/// use bedload_memory::contract::Subject;
/// use bedload_testkit::contract::{OneThread, Plan, U64Keys, check};
///
/// let plan = Plan { seed: 1, operations: 1_000 };
/// check(|| OneThread(Subject(BlinkTree::new(), U64Keys)), plan);
/// ```
#[derive(Debug)]
pub struct Subject<M, K>(pub M, pub K);

impl<M, K> ConcurrentIndex for Subject<M, K>
where
    K: Keys<Key: Key>,
    M: SharedMap<K::Key>,
{
    type Keys = K;

    fn keys(&self) -> &K {
        &self.1
    }

    fn insert(&self, key: &K::Key, value: u64) {
        self.0.insert(*key, value);
    }

    fn get(&self, key: &K::Key) -> Option<u64> {
        self.0.get(*key)
    }

    fn remove(&self, key: &K::Key) -> Removed {
        self.0.remove(*key).into()
    }

    /// Short ranges are read in both ways that there are, and by both ends of the iterator.
    fn range(
        &self,
        bounds: (Bound<K::Key>, Bound<K::Key>),
        direction: Direction,
        limit: usize,
    ) -> Vec<(K::Key, u64)> {
        match direction {
            Direction::Backward => self.0.range(bounds).rev().take(limit).collect(),
            Direction::Forward if (1..100).contains(&limit) => {
                let mut keys = vec![self.1.key(0, 0); limit];
                let mut values = vec![0; limit];
                let filled = self.0.scan(bounds, &mut keys, &mut values);
                keys.into_iter().zip(values).take(filled).collect()
            }
            Direction::Forward if limit == usize::MAX => {
                let mut range = self.0.range(bounds);
                let (mut front, mut back) = (Vec::new(), Vec::new());
                while let Some(entry) = range.next() {
                    front.push(entry);
                    back.extend(range.next_back());
                }
                front.extend(back.into_iter().rev());
                front
            }
            Direction::Forward => self.0.range(bounds).take(limit).collect(),
        }
    }

    fn first(&self) -> Option<(K::Key, u64)> {
        self.0.range((Bound::Unbounded, Bound::Unbounded)).next()
    }

    fn last(&self) -> Option<(K::Key, u64)> {
        self.0.range((Bound::Unbounded, Bound::Unbounded)).next_back()
    }

    fn check_structure(&self) -> Result<(), String> {
        self.0.check_structure()
    }
}
