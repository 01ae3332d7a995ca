//! What an index shows to the contract suite.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::Bound;

use super::Keys;

/// The keys of an index under test.
pub type Key<I> = <<I as OrderedIndex>::Keys as Keys>::Key;

/// Which end a range starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// What `remove` said about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The index removes blindly and cannot tell.
    Blind,
    /// There was no such key.
    Absent,
    /// The key was there with this value.
    Value(u64),
}

impl From<Option<u64>> for Removed {
    fn from(removed: Option<u64>) -> Self {
        removed.map_or(Self::Absent, Self::Value)
    }
}

/// An ordered index from keys to `u64`, driven by one thread. Adapters of indexes whose rows are something else
/// encode the value in the row.
pub trait OrderedIndex {
    /// Where its keys come from.
    type Keys: Keys;
    /// Why an operation failed; any failure breaks the contract.
    type Error: Debug;

    /// Its keys.
    fn keys(&self) -> &Self::Keys;

    /// Puts `value` in place for `key`.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn insert(&mut self, key: &Key<Self>, value: u64) -> Result<(), Self::Error>;

    /// The value of `key`.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn get(&mut self, key: &Key<Self>) -> Result<Option<u64>, Self::Error>;

    /// Removes `key`.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn remove(&mut self, key: &Key<Self>) -> Result<Removed, Self::Error>;

    /// At most `limit` entries between the bounds, from the end that `direction` names.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn range(
        &mut self,
        bounds: (Bound<Key<Self>>, Bound<Key<Self>>),
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key<Self>, u64)>, Self::Error>;

    /// The least entry.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn first(&mut self) -> Result<Option<(Key<Self>, u64)>, Self::Error>;

    /// The greatest entry.
    ///
    /// # Errors
    ///
    /// Whatever the index fails with.
    fn last(&mut self) -> Result<Option<(Key<Self>, u64)>, Self::Error>;

    /// Checks the index's own invariants: fences, order, counts, reachability.
    ///
    /// # Errors
    ///
    /// The invariant that is broken, and where.
    fn check_structure(&mut self) -> Result<(), String>;
}

/// An ordered index from keys to `u64` that many threads use at once.
pub trait ConcurrentIndex: Sync {
    /// Where its keys come from.
    type Keys: Keys;

    /// Its keys.
    fn keys(&self) -> &Self::Keys;

    /// Puts `value` in place for `key`.
    fn insert(&self, key: &<Self::Keys as Keys>::Key, value: u64);

    /// The value of `key`.
    fn get(&self, key: &<Self::Keys as Keys>::Key) -> Option<u64>;

    /// Removes `key`.
    fn remove(&self, key: &<Self::Keys as Keys>::Key) -> Removed;

    /// At most `limit` entries between the bounds, from the end that `direction` names.
    #[expect(clippy::type_complexity, reason = "the entries of a range")]
    fn range(
        &self,
        bounds: (Bound<<Self::Keys as Keys>::Key>, Bound<<Self::Keys as Keys>::Key>),
        direction: Direction,
        limit: usize,
    ) -> Vec<(<Self::Keys as Keys>::Key, u64)>;

    /// The least entry.
    fn first(&self) -> Option<(<Self::Keys as Keys>::Key, u64)>;

    /// The greatest entry.
    fn last(&self) -> Option<(<Self::Keys as Keys>::Key, u64)>;

    /// Checks the index's own invariants. Called while no operation is under way.
    ///
    /// # Errors
    ///
    /// The invariant that is broken, and where.
    fn check_structure(&self) -> Result<(), String>;
}

/// A concurrent index driven by one thread.
#[derive(Debug, Clone, Default)]
pub struct OneThread<I>(pub I);

impl<I: ConcurrentIndex> OrderedIndex for OneThread<I> {
    type Keys = I::Keys;
    type Error = Infallible;

    fn keys(&self) -> &I::Keys {
        self.0.keys()
    }

    fn insert(&mut self, key: &Key<Self>, value: u64) -> Result<(), Infallible> {
        self.0.insert(key, value);
        Ok(())
    }

    fn get(&mut self, key: &Key<Self>) -> Result<Option<u64>, Infallible> {
        Ok(self.0.get(key))
    }

    fn remove(&mut self, key: &Key<Self>) -> Result<Removed, Infallible> {
        Ok(self.0.remove(key))
    }

    fn range(
        &mut self,
        bounds: (Bound<Key<Self>>, Bound<Key<Self>>),
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key<Self>, u64)>, Infallible> {
        Ok(self.0.range(bounds, direction, limit))
    }

    fn first(&mut self) -> Result<Option<(Key<Self>, u64)>, Infallible> {
        Ok(self.0.first())
    }

    fn last(&mut self) -> Result<Option<(Key<Self>, u64)>, Infallible> {
        Ok(self.0.last())
    }

    fn check_structure(&mut self) -> Result<(), String> {
        self.0.check_structure()
    }
}
