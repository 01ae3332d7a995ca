//! The interface of an index to the contract suite.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::Bound;

use super::Keys;

/// The keys of an index under test.
pub type Key<I> = <<I as OrderedIndex>::Keys as Keys>::Key;

/// The direction of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// The answer of `remove`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The index removes blindly and does not know.
    Blind,
    /// The key was absent.
    Absent,
    /// The key was present with this value.
    Value(u64),
}

impl From<Option<u64>> for Removed {
    fn from(removed: Option<u64>) -> Self {
        removed.map_or(Self::Absent, Self::Value)
    }
}

/// An ordered index from keys to `u64`, driven by one thread. An adapter of an index with other
/// rows encodes the value in the row.
pub trait OrderedIndex {
    /// The source of its keys.
    type Keys: Keys;
    /// The error of an operation; any error breaks the contract.
    type Error: Debug;

    /// Returns the source of its keys.
    fn keys(&self) -> &Self::Keys;

    /// Sets the value of `key`.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn insert(&mut self, key: &Key<Self>, value: u64) -> Result<(), Self::Error>;

    /// Returns the value of `key`.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn get(&mut self, key: &Key<Self>) -> Result<Option<u64>, Self::Error>;

    /// Removes `key`.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn remove(&mut self, key: &Key<Self>) -> Result<Removed, Self::Error>;

    /// Returns at most `limit` entries between the bounds, in `direction`.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn range(
        &mut self,
        bounds: (Bound<Key<Self>>, Bound<Key<Self>>),
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key<Self>, u64)>, Self::Error>;

    /// Returns the least entry.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn first(&mut self) -> Result<Option<(Key<Self>, u64)>, Self::Error>;

    /// Returns the greatest entry.
    ///
    /// # Errors
    ///
    /// Any error of the index.
    fn last(&mut self) -> Result<Option<(Key<Self>, u64)>, Self::Error>;

    /// Checks the index's own invariants: fences, order, counts, reachability.
    ///
    /// # Errors
    ///
    /// Describes the broken invariant and its location.
    fn check_structure(&mut self) -> Result<(), String>;
}

/// An ordered index from keys to `u64` for concurrent use.
pub trait ConcurrentIndex: Sync {
    /// The source of its keys.
    type Keys: Keys;

    /// Returns the source of its keys.
    fn keys(&self) -> &Self::Keys;

    /// Sets the value of `key`.
    fn insert(&self, key: &<Self::Keys as Keys>::Key, value: u64);

    /// Returns the value of `key`.
    fn get(&self, key: &<Self::Keys as Keys>::Key) -> Option<u64>;

    /// Removes `key`.
    fn remove(&self, key: &<Self::Keys as Keys>::Key) -> Removed;

    /// Returns at most `limit` entries between the bounds, in `direction`.
    #[expect(clippy::type_complexity, reason = "the entries of a range")]
    fn range(
        &self,
        bounds: (Bound<<Self::Keys as Keys>::Key>, Bound<<Self::Keys as Keys>::Key>),
        direction: Direction,
        limit: usize,
    ) -> Vec<(<Self::Keys as Keys>::Key, u64)>;

    /// Returns the least entry.
    fn first(&self) -> Option<(<Self::Keys as Keys>::Key, u64)>;

    /// Returns the greatest entry.
    fn last(&self) -> Option<(<Self::Keys as Keys>::Key, u64)>;

    /// Checks the index's own invariants. Called while no operation is in progress.
    ///
    /// # Errors
    ///
    /// Describes the broken invariant and its location.
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
