//! Hash leaves, and the operations on one key in them.

#![expect(
    unsafe_code,
    reason = "declares the layout that lets a header stand for its node"
)]

use crossbeam_epoch::Guard;

use super::BlinkHashOptions;
use super::bucket::{Bits, Bucket, Line, free_slot};
use super::fingerprints::{BUCKET_CAP, Fingerprint};
use super::ordered_view;
use super::ordered_view::OrderedView;
use crate::blink::node::{Header, Kind, Node, NodePtr};
use crate::map::memory_use::MemoryUse;
use crate::search::bytes::SeenSlots;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, AtomicU32, Ordering, interleave};
use crate::sync::version_latch::{Latched, Version, Writer};

/// See the [module](super), whose rules it follows.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct HashLeaf<W: Words> {
    header: Header<W>,
    /// Low fence; `None` for the left-most leaf. Never changes.
    low: Option<W>,
    /// The leaf from which this one was split; alive until all buckets here have settled.
    left: AtomicPtr<Header<W>>,
    /// Number of splits of this leaf. Written under the leaf's latch.
    generation: AtomicU32,
    /// The first generation whose stray notes are kept. Written under the leaf's latch.
    noted_since: AtomicU32,
    /// 1 if the last split moved the insert point of ascending keys to the right half. Written
    /// under the leaf's latch.
    left_behind: AtomicU32,
    /// 1 while a conversion reads the leaf: writers wait for the leaves that replace it. Written
    /// under the leaf's latch.
    frozen: AtomicU32,
    probes: u32,
    buckets: Box<[Bucket<W>]>,
    view: OrderedView<W>,
    progress: Progress,
}

/// Counters of maintenance, apart from the fields that every operation reads.
#[derive(Debug)]
#[repr(align(64))]
struct Progress {
    /// Buckets that have not followed the leaf's last split.
    unsettled: AtomicU32,
    /// 1 while a thread splits or converts the leaf.
    maintained: AtomicU32,
    /// Scans of this leaf since it stopped being the right-most.
    scans: AtomicU32,
    /// Removals of a bucket's last entry since the last split; see [`emptied`](super::emptied).
    emptied: AtomicU32,
}

// SAFETY: `repr(C)`, the header comes first, and the kind is this type's alone.
unsafe impl<W: Words> Node<W> for HashLeaf<W> {
    const KIND: Kind = Kind::HashLeaf;
}

/// Outcome of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insert {
    Done,
    /// The buckets that may hold the key are full.
    Full,
}

/// Outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// The value that the key had.
    pub(super) value: Option<u64>,
    /// Whether the entry was the last of its bucket.
    pub(super) empties_bucket: bool,
}

/// The buckets in which a key may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashPlace {
    first: usize,
    second: usize,
    pub(super) fingerprint: Fingerprint,
    line: Line,
}

/// Position of an entry.
#[derive(Debug, Clone, Copy)]
struct HashEntry {
    bucket: usize,
    slot: usize,
    value: u64,
}

/// The home bucket of a key, latched.
#[derive(Debug)]
struct Home<'l, W: Words> {
    index: usize,
    bucket: &'l Bucket<W>,
    latched: Latched<'l>,
}

/// Result of a search in one bucket.
#[derive(Debug, Clone, Copy)]
struct LookedUp {
    entry: Option<HashEntry>,
    /// The probes that may lead to keys whose home is this bucket.
    strays: u32,
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
    /// Creates the first leaf of an index: it has no left sibling, and all buckets are settled.
    pub(super) fn new(options: &BlinkHashOptions) -> Box<Self> {
        let buckets = (0..bucket_count::<W>(options)).map(|_| Bucket::new()).collect();
        let leaf = Self::with_buckets(options, buckets, None, std::ptr::null_mut());
        for bucket in &leaf.buckets {
            bucket.set_settled(1, Writer::UNPUBLISHED);
        }
        leaf.progress.unsettled.store(0, Ordering::Relaxed);
        leaf
    }

    /// Creates the right half of `left`, with new buckets, to which the entries from `low` on move
    /// later.
    pub(super) fn right_of(
        options: &BlinkHashOptions,
        buckets: Box<[Bucket<W>]>,
        low: W,
        left: NodePtr<'_, W>,
    ) -> Box<Self> {
        Self::with_buckets(options, buckets, Some(low), left.as_raw())
    }

    fn with_buckets(
        options: &BlinkHashOptions,
        buckets: Box<[Bucket<W>]>,
        low: Option<W>,
        left: *mut Header<W>,
    ) -> Box<Self> {
        Box::new(Self {
            header: Header::new::<Self>(0),
            low,
            left: AtomicPtr::new(left),
            generation: AtomicU32::new(1),
            noted_since: AtomicU32::new(1),
            left_behind: AtomicU32::new(0),
            frozen: AtomicU32::new(0),
            probes: options.probes.into(),
            progress: Progress {
                unsettled: AtomicU32::new(u32::try_from(buckets.len()).unwrap_or(u32::MAX)),
                maintained: AtomicU32::new(0),
                scans: AtomicU32::new(0),
                emptied: AtomicU32::new(0),
            },
            view: OrderedView::new(buckets.len()),
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

    pub(super) fn view(&self) -> &OrderedView<W> {
        &self.view
    }

    pub(super) fn left<'g>(&self, _guard: &'g Guard) -> Option<NodePtr<'g, W>> {
        NodePtr::from_raw(self.left.load(Ordering::Acquire))
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a generation, in which no bucket has settled; `keys_ascend` if ascending keys leave
    /// this leaf, with most of its entries, behind.
    pub(super) fn begin_generation(&self, keys_ascend: bool, _writer: Writer<'_>) {
        let buckets = u32::try_from(self.buckets.len()).unwrap_or(u32::MAX);
        self.progress.unsettled.store(buckets, Ordering::Relaxed);
        self.progress.emptied.store(0, Ordering::Relaxed);
        let generation = self.generation() + 1;
        self.generation.store(generation, Ordering::Relaxed);
        self.left_behind.store(keys_ascend.into(), Ordering::Relaxed);
        if !keys_ascend {
            self.noted_since.store(generation, Ordering::Relaxed);
        }
    }

    /// Returns the first generation whose stray notes are kept.
    fn noted_since(&self) -> u32 {
        self.noted_since.load(Ordering::Relaxed)
    }

    /// Returns whether stray notes survived the last split.
    pub(super) fn keeps_notes(&self) -> bool {
        self.noted_since() != self.generation()
    }

    pub(super) fn is_settled(&self, bucket: usize) -> bool {
        self.buckets[bucket].settled() == self.generation()
    }

    /// Returns whether every bucket has followed every split.
    pub(super) fn all_settled(&self) -> bool {
        self.progress.unsettled.load(Ordering::Acquire) == 0
    }

    /// Notes that a bucket, which is latched, has followed the last split.
    pub(super) fn note_settled(&self, bucket: usize, writer: Writer<'_>) {
        self.buckets[bucket].set_settled(self.generation(), writer);
        self.progress.unsettled.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns whether ascending keys have left this leaf behind.
    pub(super) fn is_left_behind(&self) -> bool {
        self.left_behind.load(Ordering::Relaxed) != 0
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed) != 0
    }

    pub(super) fn freeze(&self, _writer: Writer<'_>) {
        self.frozen.store(1, Ordering::Relaxed);
    }

    /// Takes the right to split or convert this leaf; `None` if another thread has it.
    pub(super) fn try_maintain(&self) -> Option<Maintenance<'_>> {
        let taken = self
            .progress
            .maintained
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Maintenance(&self.progress.maintained))
    }

    /// Counts a scan of this leaf; returns the number of scans.
    pub(super) fn note_scan(&self) -> u32 {
        self.progress.scans.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a removal of a bucket's last entry; returns the number of earlier ones since the last
    /// split. The removals of these are visible.
    pub(super) fn count_emptied(&self) -> u32 {
        self.progress.emptied.fetch_add(1, Ordering::AcqRel)
    }

    #[inline]
    pub(super) fn place_of(&self, key: &W) -> HashPlace {
        let hash = key.hash(0);
        HashPlace {
            first: self.scale(hash >> 32),
            second: self.scale(hash >> 8 & 0xffff_ffff),
            fingerprint: Fingerprint::of_hash(hash),
            line: Line::of_hash(hash),
        }
    }

    /// Maps a 32-bit hash to a bucket.
    #[inline]
    fn scale(&self, hash: u64) -> usize {
        let scaled = (hash * self.buckets.len() as u64) >> 32;
        usize::try_from(scaled).unwrap_or(0)
    }

    /// Returns the number of probes per key; probe 0 leads to its home.
    fn probe_count(&self) -> usize {
        2 * self.probes as usize
    }

    /// Returns the bucket of a probe: neighbours of the first hash, then of the second.
    #[inline]
    pub(super) fn probe(&self, place: &HashPlace, probe: usize) -> usize {
        let probes = self.probes as usize;
        let bucket = match probe.checked_sub(probes) {
            None => place.first + probe,
            Some(distance) => place.second + distance,
        };
        if bucket < self.buckets.len() {
            bucket
        } else {
            bucket % self.buckets.len()
        }
    }

    /// Returns the probes, except the 0th, that may lead to a key whose home is this bucket: all of
    /// them while entries have yet to follow a split and notes are incomplete.
    #[inline]
    fn stray_probes(&self, home: &Bucket<W>) -> u32 {
        if self.keeps_notes() || self.all_settled() {
            home.strays(self.noted_since())
        } else {
            u32::MAX >> (u32::BITS - 2 * self.probes) & !1
        }
    }

    /// Notes the bucket of an entry that stays in it or has moved to it, if that is not its home.
    pub(super) fn note_place(&self, key: &W, bucket: usize) {
        let place = self.place_of(key);
        let home = self.probe(&place, 0);
        if home == bucket {
            return;
        }
        if let Some(probe) = (1..self.probe_count()).find(|&probe| self.probe(&place, probe) == bucket) {
            self.buckets[home].add_stray(probe, self.noted_since());
        }
    }

    /// Returns the value of a key that this leaf covers, if `version` is current. The error names a
    /// bucket that must be settled first.
    pub(super) fn get(&self, key: &W, version: Version) -> Result<Option<u64>, Unsettled> {
        let place = self.place_of(key);
        let home = self.probe(&place, 0);
        self.buckets[home].prefetch(place.line);
        let LookedUp {
            entry: mut found,
            strays,
        } = self.look_up(home, key, &place)?;
        for probe in Bits(strays.into()) {
            if found.is_some() {
                break;
            }
            found = self.look_up(self.probe(&place, probe), key, &place)?.entry;
        }
        if self.header.latch.validate(version) {
            Ok(found.map(|found| found.value))
        } else {
            Err(Unsettled::Leaf)
        }
    }

    /// Searches one bucket for a key; waits for its latch.
    fn look_up(&self, index: usize, key: &W, place: &HashPlace) -> Result<LookedUp, Unsettled> {
        let bucket = &self.buckets[index];
        loop {
            let version = bucket.latch.optimistic().ok_or(Unsettled::Leaf)?;
            if let Some(looked_up) = self.look_up_at(index, version, key, place)? {
                return Ok(looked_up);
            }
        }
    }

    /// Searches one bucket for a key. `None` if the bucket has changed since `version`.
    fn look_up_at(
        &self,
        index: usize,
        version: Version,
        key: &W,
        place: &HashPlace,
    ) -> Result<Option<LookedUp>, Unsettled> {
        let bucket = &self.buckets[index];
        let lacks_entries = bucket.settled() == 0;
        let strays = self.stray_probes(bucket);
        let entry = bucket
            .find(key, bucket.look(place.fingerprint))
            .map(|slot| HashEntry {
                bucket: index,
                slot,
                value: bucket.value(slot),
            });
        match bucket.latch.validate(version) {
            false => Ok(None),
            true if lacks_entries => Err(Unsettled::Bucket(index)),
            true => Ok(Some(LookedUp { entry, strays })),
        }
    }

    /// Latches the home bucket of a key, which must have followed every split.
    #[inline]
    fn latch_home(&self, place: &HashPlace) -> Result<Home<'_, W>, Unsettled> {
        let index = self.probe(place, 0);
        let bucket = &self.buckets[index];
        bucket.prefetch(place.line);
        let latched = bucket.latch.latch().ok_or(Unsettled::Leaf)?;
        self.expect_settled(index)?;
        interleave();
        Ok(Home {
            index,
            bucket,
            latched,
        })
    }

    /// Finds a key in its home or elsewhere. The latch of the home keeps it in its bucket:
    /// operations on one key exclude each other wherever the key is (rule 3).
    #[inline]
    fn find(
        &self,
        key: &W,
        place: &HashPlace,
        home: &Home<'_, W>,
        seen: SeenSlots,
    ) -> Result<Option<HashEntry>, Unsettled> {
        if let Some(slot) = home.bucket.find(key, seen) {
            return Ok(Some(HashEntry {
                bucket: home.index,
                slot,
                value: home.bucket.value(slot),
            }));
        }
        match self.stray_probes(home.bucket) {
            0 => Ok(None),
            strays => self.find_away(key, place, home.index, strays),
        }
    }

    /// Finds a key outside its home bucket.
    fn find_away(
        &self,
        key: &W,
        place: &HashPlace,
        home: usize,
        strays: u32,
    ) -> Result<Option<HashEntry>, Unsettled> {
        for probe in Bits(strays.into()) {
            let index = self.probe(place, probe);
            if index == home {
                continue;
            }
            // The holder of that bucket's latch may be waiting for this one (rule 4).
            let version = self.buckets[index]
                .latch
                .optimistic_now()
                .ok_or(Unsettled::Leaf)?;
            let looked_up = self
                .look_up_at(index, version, key, place)?
                .ok_or(Unsettled::Leaf)?;
            if looked_up.entry.is_some() {
                return Ok(looked_up.entry);
            }
        }
        Ok(None)
    }

    /// Changes the value of an entry, or removes it, under the latches of its bucket and its home,
    /// if `version` is current.
    fn change(
        &self,
        key: &W,
        entry: &HashEntry,
        home: &Home<'_, W>,
        version: Version,
        value: Option<u64>,
    ) -> Result<(), Unsettled> {
        let bucket = &self.buckets[entry.bucket];
        let away_from_home = if entry.bucket == home.index {
            None
        } else {
            Some(bucket.latch.try_latch_now().ok_or(Unsettled::Leaf)?)
        };
        let writer = away_from_home.as_ref().unwrap_or(&home.latched).writer();
        let view = if bucket.is_viewed(entry.slot) {
            Some(self.view.try_lock().ok_or(Unsettled::Leaf)?)
        } else {
            None
        };
        self.expect_version(version)?;
        match value {
            Some(value) => bucket.set_value(entry.slot, value, writer),
            None => bucket.clear(entry.slot, writer),
        }
        if let Some(mut view) = view {
            ordered_view::change(&mut view, key, value);
        }
        Ok(())
    }

    /// Inserts or replaces the value of a key that this leaf covers, if `version` is current.
    pub(super) fn insert(&self, key: W, value: u64, version: Version) -> Result<Insert, Unsettled> {
        let place = self.place_of(&key);
        let home = self.latch_home(&place)?;
        let seen = home.bucket.look(place.fingerprint);
        if let Some(entry) = self.find(&key, &place, &home, seen)? {
            self.change(&key, &entry, &home, version, Some(value))?;
            return Ok(Insert::Done);
        }
        if let Some(slot) = free_slot(seen.occupied, place.line) {
            self.expect_version(version)?;
            let writer = home.latched.writer();
            home.bucket.put(slot, key, place.fingerprint, value, writer);
            self.view.mark(home.index, writer);
            return Ok(Insert::Done);
        }
        self.insert_away(key, value, version, &place, &home)
    }

    /// Inserts a key that is absent and whose home is full.
    fn insert_away(
        &self,
        key: W,
        value: u64,
        version: Version,
        place: &HashPlace,
        home: &Home<'_, W>,
    ) -> Result<Insert, Unsettled> {
        for probe in 1..self.probe_count() {
            let index = self.probe(place, probe);
            let bucket = &self.buckets[index];
            if index == home.index || (self.is_settled(index) && bucket.free_slot(place.line).is_none()) {
                continue;
            }
            let latched = bucket.latch.try_latch_now().ok_or(Unsettled::Leaf)?;
            self.expect_settled(index)?;
            if let Some(slot) = bucket.free_slot(place.line) {
                self.expect_version(version)?;
                bucket.put(slot, key, place.fingerprint, value, latched.writer());
                self.view.mark(index, latched.writer());
                home.bucket.add_stray(probe, self.noted_since());
                return Ok(Insert::Done);
            }
        }
        Ok(Insert::Full)
    }

    /// Removes a key that this leaf covers, if `version` is current.
    pub(super) fn remove(&self, key: &W, version: Version) -> Result<Removed, Unsettled> {
        let place = self.place_of(key);
        let home = self.latch_home(&place)?;
        let seen = home.bucket.look(place.fingerprint);
        let Some(entry) = self.find(key, &place, &home, seen)? else {
            self.expect_version(version)?;
            return Ok(Removed {
                value: None,
                empties_bucket: false,
            });
        };
        self.change(key, &entry, &home, version, None)?;
        Ok(Removed {
            value: Some(entry.value),
            empties_bucket: self.buckets[entry.bucket].is_empty(),
        })
    }

    /// Adds this leaf's memory to the totals.
    pub(super) fn add_memory_use(&self, memory: &mut MemoryUse) {
        memory.metadata += size_of::<Self>() + self.view.lock().capacity() * size_of::<(W, u64)>();
        for bucket in &self.buckets {
            let entry_bytes = size_of::<W>() + size_of::<u64>();
            let len = bucket.entries().count();
            memory.add_leaf(size_of::<Bucket<W>>(), entry_bytes, len, BUCKET_CAP);
        }
    }

    #[inline]
    fn expect_settled(&self, bucket: usize) -> Result<(), Unsettled> {
        if self.is_settled(bucket) {
            Ok(())
        } else {
            Err(Unsettled::Bucket(bucket))
        }
    }

    /// Checks that the leaf has not been split, frozen or replaced. Writers call it with all their
    /// latches held.
    #[inline]
    fn expect_version(&self, version: Version) -> Result<(), Unsettled> {
        if self.header.latch.validate(version) && !self.is_frozen() {
            interleave();
            Ok(())
        } else {
            Err(Unsettled::Leaf)
        }
    }
}

/// Returns the number of buckets of a leaf.
pub(super) fn bucket_count<W: Words>(options: &BlinkHashOptions) -> usize {
    (options.node_bytes / size_of::<Bucket<W>>()).max(2)
}

/// The reason for which an operation must be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// This bucket has yet to follow a split.
    Bucket(usize),
    /// The leaf has changed, or another thread was in the way.
    Leaf,
}
