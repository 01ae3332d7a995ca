//! Hash leaves, and the operations on one key in them.

#![expect(
    unsafe_code,
    reason = "declares the layout that lets a header stand for its node; allocates zeroed buckets"
)]

use crossbeam_epoch::Guard;

use super::super::columns::Words;
use super::super::node::{Header, Kind, Node, NodePtr};
use super::super::primitive::{AtomicPtr, AtomicU32, Ordering, interleave};
use super::super::version_latch::{Version, Writer};
use super::BlinkHashOptions;
use super::bucket::{Bits, Bucket, Fingerprint};

/// See the [module](super), whose rules it follows.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct HashLeaf<W: Words> {
    header: Header<W>,
    /// Low fence; none for the left-most leaf. Never changes.
    low: Option<W>,
    /// The leaf this one was split from; alive as long as a bucket here has not settled.
    left: AtomicPtr<Header<W>>,
    /// Splits this leaf has been part of. Written under the leaf's latch.
    generation: AtomicU32,
    /// Buckets that have not followed the last of these splits.
    unsettled: AtomicU32,
    /// 1 while a conversion reads the leaf: writers wait for what replaces it. Written under the leaf's latch.
    frozen: AtomicU32,
    /// 1 while somebody splits or converts the leaf.
    maintained: AtomicU32,
    /// Scans that found this leaf unsorted.
    scans: AtomicU32,
    probes: u32,
    buckets: Box<[Bucket<W>]>,
}

// SAFETY: `repr(C)`, the header comes first, and the kind is this type's alone.
unsafe impl<W: Words> Node<W> for HashLeaf<W> {
    const KIND: Kind = Kind::HashLeaf;
}

/// How an insert went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insert {
    Done,
    /// No bucket that may hold the key has room.
    Full,
}

/// Where a key may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    first: usize,
    second: usize,
    pub(super) fingerprint: Fingerprint,
}

/// The right to split or convert a leaf.
#[derive(Debug)]
#[must_use = "dropping it gives the right up"]
pub(super) struct Maintenance<'l>(&'l AtomicU32);

impl Drop for Maintenance<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<W: Words> HashLeaf<W> {
    /// The first leaf of an index: it has no left sibling, and nothing to settle.
    pub(super) fn new(options: &BlinkHashOptions) -> Box<Self> {
        let leaf = Self::with_low(options, None, std::ptr::null_mut());
        for bucket in &leaf.buckets {
            bucket.set_settled(1, Writer::UNPUBLISHED);
        }
        leaf.unsettled.store(0, Ordering::Relaxed);
        leaf
    }

    /// The right half of `left`, whose entries from `low` on follow later.
    pub(super) fn right_of(options: &BlinkHashOptions, low: W, left: NodePtr<'_, W>) -> Box<Self> {
        Self::with_low(options, Some(low), left.as_raw())
    }

    fn with_low(options: &BlinkHashOptions, low: Option<W>, left: *mut Header<W>) -> Box<Self> {
        let buckets = zeroed_buckets((options.node_bytes / size_of::<Bucket<W>>()).max(2));
        Box::new(Self {
            header: Header::new::<Self>(0),
            low,
            left: AtomicPtr::new(left),
            generation: AtomicU32::new(1),
            unsettled: AtomicU32::new(u32::try_from(buckets.len()).unwrap_or(u32::MAX)),
            frozen: AtomicU32::new(0),
            maintained: AtomicU32::new(0),
            scans: AtomicU32::new(0),
            probes: options.probes.into(),
            buckets,
        })
    }

    pub(super) fn header(&self) -> &Header<W> {
        &self.header
    }

    pub(super) fn low(&self) -> Option<W> {
        self.low
    }

    pub(super) fn buckets(&self) -> &[Bucket<W>] {
        &self.buckets
    }

    pub(super) fn left<'g>(&self, _guard: &'g Guard) -> Option<NodePtr<'g, W>> {
        NodePtr::from_raw(self.left.load(Ordering::Acquire))
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a generation, in which no bucket has settled yet.
    pub(super) fn begin_generation(&self, _writer: Writer<'_>) {
        let buckets = u32::try_from(self.buckets.len()).unwrap_or(u32::MAX);
        self.unsettled.store(buckets, Ordering::Relaxed);
        self.generation.store(self.generation() + 1, Ordering::Relaxed);
    }

    pub(super) fn is_settled(&self, bucket: usize) -> bool {
        self.buckets[bucket].settled() == self.generation()
    }

    /// Whether every bucket has followed every split.
    pub(super) fn all_settled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) == 0
    }

    /// Notes that one more bucket has followed the last split; it is latched.
    pub(super) fn note_settled(&self, bucket: usize, writer: Writer<'_>) {
        self.buckets[bucket].set_settled(self.generation(), writer);
        self.unsettled.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed) != 0
    }

    pub(super) fn freeze(&self, _writer: Writer<'_>) {
        self.frozen.store(1, Ordering::Relaxed);
    }

    /// The right to split or convert this leaf, unless somebody has it.
    pub(super) fn try_maintain(&self) -> Option<Maintenance<'_>> {
        let taken = self
            .maintained
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Maintenance(&self.maintained))
    }

    /// Counts a scan of this leaf; returns how many there were.
    pub(super) fn note_scan(&self) -> u32 {
        self.scans.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn place_of(&self, key: &W) -> Place {
        let hash = key.hash(0);
        Place {
            first: self.scale(hash >> 32),
            second: self.scale(hash >> 8 & 0xffff_ffff),
            fingerprint: Fingerprint::of_hash(hash),
        }
    }

    /// A bucket for a 32-bit hash.
    fn scale(&self, hash: u64) -> usize {
        let scaled = (hash * self.buckets.len() as u64) >> 32;
        usize::try_from(scaled).unwrap_or(0)
    }

    /// Probes for each key: bucket 0 is its home.
    fn probe_count(&self) -> usize {
        2 * self.probes as usize
    }

    /// The bucket of the `probe`-th probe: neighbours of the first hash, then of the second.
    pub(super) fn probe(&self, place: &Place, probe: usize) -> usize {
        let probes = self.probes as usize;
        let bucket = match probe.checked_sub(probes) {
            None => place.first + probe,
            Some(distance) => place.second + distance,
        };
        bucket % self.buckets.len()
    }

    /// The value of a key that this leaf covers, if `version` stands. A bucket that has yet to receive its entries is
    /// named in the error, to be settled first.
    pub(super) fn get(&self, key: &W, version: Version) -> Result<Option<u64>, Unsettled> {
        let place = self.place_of(key);
        let home = self.probe(&place, 0);
        let (mut value, strays) = self.read(home, key, &place)?;
        for probe in Bits(strays) {
            if value.is_some() {
                break;
            }
            value = self.read(self.probe(&place, probe), key, &place)?.0;
        }
        if self.header.latch.validate(version) {
            Ok(value)
        } else {
            Err(Unsettled::Leaf)
        }
    }

    /// The value of a key in one bucket, and the bucket's strays.
    fn read(&self, index: usize, key: &W, place: &Place) -> Result<(Option<u64>, u32), Unsettled> {
        let bucket = &self.buckets[index];
        loop {
            let Some(version) = bucket.latch.optimistic() else {
                return Err(Unsettled::Leaf);
            };
            let lacks_entries = bucket.settled() == 0;
            let value = bucket.find(key, place.fingerprint).map(|slot| bucket.value(slot));
            let strays = bucket.strays();
            if bucket.latch.validate(version) {
                return if lacks_entries {
                    Err(Unsettled::Bucket(index))
                } else {
                    Ok((value, strays))
                };
            }
        }
    }

    /// Puts a value in place for a key that this leaf covers, if `version` stands.
    ///
    /// The latch of the key's home bucket is held throughout, so operations on one key exclude each other wherever
    /// the key is (rule 3); the latch of another bucket is only tried.
    pub(super) fn insert(&self, key: W, value: u64, version: Version) -> Result<Insert, Unsettled> {
        let place = self.place_of(&key);
        let home_index = self.probe(&place, 0);
        let home = &self.buckets[home_index];
        let Some(home_latched) = home.latch.latch() else {
            return Err(Unsettled::Leaf);
        };
        self.expect_settled(home_index)?;
        interleave();
        if let Some(slot) = home.find(&key, place.fingerprint) {
            self.expect_version(version)?;
            home.set_value(slot, value, home_latched.writer());
            return Ok(Insert::Done);
        }
        for probe in Bits(home.strays()) {
            let index = self.probe(&place, probe);
            if index == home_index {
                continue;
            }
            let bucket = &self.buckets[index];
            let latched = bucket.latch.try_latch_now().ok_or(Unsettled::Leaf)?;
            self.expect_settled(index)?;
            if let Some(slot) = bucket.find(&key, place.fingerprint) {
                self.expect_version(version)?;
                bucket.set_value(slot, value, latched.writer());
                return Ok(Insert::Done);
            }
        }
        if let Some(slot) = home.free_slot() {
            self.expect_version(version)?;
            home.put(slot, key, place.fingerprint, value, home_latched.writer());
            return Ok(Insert::Done);
        }
        for probe in 1..self.probe_count() {
            let index = self.probe(&place, probe);
            if index == home_index {
                continue;
            }
            let bucket = &self.buckets[index];
            let latched = bucket.latch.try_latch_now().ok_or(Unsettled::Leaf)?;
            self.expect_settled(index)?;
            if let Some(slot) = bucket.free_slot() {
                self.expect_version(version)?;
                bucket.put(slot, key, place.fingerprint, value, latched.writer());
                home.add_strays(1 << probe, home_latched.writer());
                return Ok(Insert::Done);
            }
        }
        Ok(Insert::Full)
    }

    /// Removes a key that this leaf covers, if `version` stands; returns the value it had.
    pub(super) fn remove(&self, key: &W, version: Version) -> Result<Option<u64>, Unsettled> {
        let place = self.place_of(key);
        let home_index = self.probe(&place, 0);
        let home = &self.buckets[home_index];
        let Some(home_latched) = home.latch.latch() else {
            return Err(Unsettled::Leaf);
        };
        self.expect_settled(home_index)?;
        interleave();
        if let Some(slot) = home.find(key, place.fingerprint) {
            self.expect_version(version)?;
            home.clear(slot, home_latched.writer());
            return Ok(Some(home.value(slot)));
        }
        for probe in Bits(home.strays()) {
            let index = self.probe(&place, probe);
            if index == home_index {
                continue;
            }
            let bucket = &self.buckets[index];
            let latched = bucket.latch.try_latch_now().ok_or(Unsettled::Leaf)?;
            self.expect_settled(index)?;
            if let Some(slot) = bucket.find(key, place.fingerprint) {
                self.expect_version(version)?;
                bucket.clear(slot, latched.writer());
                return Ok(Some(bucket.value(slot)));
            }
        }
        self.expect_version(version)?;
        Ok(None)
    }

    fn expect_settled(&self, bucket: usize) -> Result<(), Unsettled> {
        if self.is_settled(bucket) {
            Ok(())
        } else {
            Err(Unsettled::Bucket(bucket))
        }
    }

    /// That the leaf has not been split, frozen or replaced since. A writer asks with all its latches held.
    fn expect_version(&self, version: Version) -> Result<(), Unsettled> {
        if self.header.latch.validate(version) && !self.is_frozen() {
            interleave();
            Ok(())
        } else {
            Err(Unsettled::Leaf)
        }
    }
}

/// Why an operation has to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// This bucket has yet to follow a split.
    Bucket(usize),
    /// The leaf has changed, or somebody was in the way.
    Leaf,
}

#[cfg(not(loom))]
fn zeroed_buckets<W: Words>(count: usize) -> Box<[Bucket<W>]> {
    let buckets = Box::<[Bucket<W>]>::new_zeroed_slice(count);
    // SAFETY: a bucket is made of atomic integers, for which zero is a value.
    unsafe { buckets.assume_init() }
}

#[cfg(loom)]
fn zeroed_buckets<W: Words>(count: usize) -> Box<[Bucket<W>]> {
    (0..count).map(|_| Bucket::new()).collect()
}
