//! Which places of blocks are in use, which wait for a view to be dropped, and which are kept for
//! the next writing. Nothing of this is on disk: what the newest map and the log name is in use,
//! and everything else is free.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::block::Owner;
use crate::rows::BlockRef;

/// Layers that are given out outside of flushes: what is written there takes space until the next
/// flush, which needs a layer, too.
const DIRECT_LAYERS: u8 = 8;

/// The most space that free places may keep, all together: writing over a place costs less than
/// freeing its space and taking new space.
const KEPT_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    4 << 10
} else {
    64 << 20
};

/// The answer to a request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocated {
    Layer(u8),
    /// There is a newer map: ask again.
    Stale,
    /// The block was written too often since the last flush.
    Full,
}

/// Table and number.
pub(super) type BlockName = (u32, i64);

/// The places of all blocks of a store.
#[derive(Debug)]
pub(super) struct Places {
    /// Places in use, beside those that the newest map names (rule 1).
    busy: BTreeMap<BlockName, LayerSet>,
    waiting: Vec<Waiting>,
    /// The changes of the flush under way.
    pending: Pending,
    /// The checkpoint whose map tells which places are in use.
    settled: u64,
    kept: Kept,
}

#[derive(Debug, Default)]
struct Pending {
    /// Places that the map will name.
    allocated: HashSet<(BlockName, u8)>,
    /// Places that are in use no more if the flush fails.
    discarded: Vec<(BlockName, u8)>,
    /// Places of blocks that are written already, which the map will name.
    adopted: HashSet<(BlockName, u8)>,
    replaced: Vec<Waiting>,
}

/// Something to be removed once no view in `born..dead` is held.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    what: Replaced,
    born: u64,
    dead: u64,
}

impl Waiting {
    /// The table and number of a file that is to go.
    fn file(&self) -> Option<(u32, i64)> {
        match self.what {
            Replaced::File { table, file, .. } => Some((table, file)),
            Replaced::Place(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Replaced {
    Place(Place),
    /// A file that had no block left; the first and last block that it may have.
    File {
        table: u32,
        file: i64,
        first: i64,
        last: i64,
    },
}

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) table: u32,
    pub(super) file: i64,
    pub(super) block: i64,
    pub(super) layer: u8,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Whether the block still exists, elsewhere, and always has the same length.
    is_kept: bool,
}

impl Place {
    /// The place of a block that a map names; whether the block `goes_on` elsewhere.
    pub(super) fn of(owner: Owner<'_>, block: i64, named: &BlockRef, goes_on: bool) -> Self {
        let shape = owner.shape;
        Self {
            table: owner.table,
            file: shape.file_of(block).0,
            block,
            layer: named.layer,
            offset: shape.offset(block, named.layer),
            bytes: u64::from(named.units) * shape.unit_bytes as u64,
            is_kept: goes_on && !shape.has_text(),
        }
    }

    fn name(&self) -> BlockName {
        (self.table, self.block)
    }
}

/// Places that are free and have their space still.
#[derive(Debug, Default)]
struct Kept {
    /// Each with a number that ascends in the order in which they were kept.
    places: BTreeMap<(BlockName, u8), (u64, Place)>,
    bytes: u64,
    next: u64,
}

impl Kept {
    fn keep(&mut self, place: Place) {
        self.next += 1;
        self.bytes += place.bytes;
        self.places
            .insert((place.name(), place.layer), (self.next, place));
    }

    /// Takes a place of a block.
    fn take(&mut self, name: BlockName) -> Option<u8> {
        let (&key, _) = self.places.range((name, 0)..=(name, u8::MAX)).next()?;
        let (_, place) = self.places.remove(&key)?;
        self.bytes -= place.bytes;
        Some(place.layer)
    }

    /// Takes the oldest places if all together have more than `limit` bytes, until they have half
    /// as many: many at once, so that neighbours are among them.
    fn take_excess(&mut self, limit: u64) -> Vec<Place> {
        let mut excess: Vec<(u64, Place)> = Vec::new();
        if self.bytes > limit {
            excess.extend(self.places.values());
            excess.sort_unstable_by_key(|(number, _)| *number);
        }
        let mut left = self.bytes;
        let goes = |(_, place): &(u64, Place)| {
            let goes = left > limit / 2;
            left -= place.bytes;
            goes
        };
        let taken: Vec<Place> = excess
            .into_iter()
            .take_while(goes)
            .map(|(_, place)| place)
            .collect();
        for place in &taken {
            self.places.remove(&(place.name(), place.layer));
            self.bytes -= place.bytes;
        }
        taken
    }

    fn forget(&mut self, is_gone: impl Fn(&Place) -> bool) {
        self.places.retain(|_, (_, place)| !is_gone(place));
        self.bytes = self.places.values().map(|(_, place)| place.bytes).sum();
    }
}

/// A set of layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LayerSet([u64; 4]);

impl LayerSet {
    /// Whether the layer was not in it.
    fn insert(&mut self, layer: u8) -> bool {
        let (word, bit) = (&mut self.0[usize::from(layer / 64)], 1 << (layer % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn remove(&mut self, layer: u8) {
        self.0[usize::from(layer / 64)] &= !(1 << (layer % 64));
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The lowest layer that is not in it.
    fn first_free(self) -> Option<u8> {
        let word = self.0.iter().position(|&word| word != u64::MAX)?;
        u8::try_from(64 * word + self.0[word].trailing_ones() as usize).ok()
    }
}

impl Places {
    /// As of a checkpoint: what its map names is in use, and nothing else.
    pub(super) fn new(checkpoint: u64) -> Self {
        Self {
            busy: BTreeMap::new(),
            waiting: Vec::new(),
            pending: Pending::default(),
            settled: checkpoint,
            kept: Kept::default(),
        }
    }

    /// A layer for a block, of which the newest map names `current`, within the flush under way;
    /// none if all are in use.
    pub(super) fn allocate(&mut self, name: BlockName, current: Option<u8>) -> Option<u8> {
        let layer = self.take_free(name, current)?;
        self.pending.allocated.insert((name, layer));
        Some(layer)
    }

    /// Leaves a place that was [allocated](Self::allocate) alone: it stays in use as long as the store is open.
    pub(super) fn shun(&mut self, name: BlockName, layer: u8) {
        self.pending.allocated.remove(&(name, layer));
    }

    fn take_free(&mut self, name: BlockName, current: Option<u8>) -> Option<u8> {
        let busy = self.busy.entry(name).or_default();
        let mut taken = *busy;
        if let Some(layer) = current {
            taken.insert(layer);
        }
        let layer = self.kept.take(name).or_else(|| taken.first_free())?;
        debug_assert!(taken.insert(layer), "what is kept is not in use");
        busy.insert(layer);
        Some(layer)
    }

    /// As [`allocate`](Self::allocate), outside of any flush; `current` is what the map of
    /// checkpoint `number` names.
    pub(super) fn allocate_now(&mut self, name: BlockName, current: Option<u8>, number: u64) -> Allocated {
        if number < self.settled {
            return Allocated::Stale;
        }
        let busy = self.busy.get(&name).copied().unwrap_or_default();
        if busy.first_free().is_none_or(|layer| layer >= DIRECT_LAYERS) {
            return Allocated::Full;
        }
        self.take_free(name, current)
            .map_or(Allocated::Full, Allocated::Layer)
    }

    /// Takes the place of a block that the log names.
    pub(super) fn take(&mut self, name: BlockName, layer: u8) {
        self.busy.entry(name).or_default().insert(layer);
    }

    /// Gives up a place.
    pub(super) fn free(&mut self, name: BlockName, layer: u8) {
        if let Some(set) = self.busy.get_mut(&name) {
            set.remove(layer);
            if set.is_empty() {
                self.busy.remove(&name);
            }
        }
    }

    /// Gives up a block that the map named from checkpoint `born` on, within the flush under way.
    pub(super) fn replace(&mut self, place: Place, born: u64) {
        let name = (place.name(), place.layer);
        // Until the flush is published the last checkpoint needs it; after that, perhaps a
        // snapshot.
        let is_new = self.busy.entry(place.name()).or_default().insert(place.layer);
        // No map named a block that this flush has adopted: after a failure the log still names it.
        self.pending.adopted.remove(&name);
        if self.pending.allocated.remove(&name) || is_new {
            self.pending.discarded.push(name);
        }
        self.wait(Replaced::Place(place), born);
    }

    /// Gives up a file all of whose blocks were replaced.
    pub(super) fn replace_file(&mut self, owner: Owner<'_>, file: i64) {
        let (first, last) = owner.shape.blocks_of(file);
        let what = Replaced::File {
            table: owner.table,
            file,
            first,
            last,
        };
        self.wait(what, 0);
    }

    fn wait(&mut self, what: Replaced, born: u64) {
        self.pending.replaced.push(Waiting { what, born, dead: 0 });
    }

    /// Lets the map name a block that is written already, within the flush under way.
    pub(super) fn adopt(&mut self, name: BlockName, layer: u8) {
        self.pending.adopted.insert((name, layer));
    }

    /// The flush failed, and no checkpoint names what it has written.
    pub(super) fn roll_back(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for (name, layer) in pending.allocated.into_iter().chain(pending.discarded) {
            self.free(name, layer);
        }
    }

    /// The flush is part of this checkpoint, whose view is about to be published.
    pub(super) fn before_publishing(&mut self, checkpoint: u64) {
        let mut replaced = std::mem::take(&mut self.pending.replaced);
        for waiting in &mut replaced {
            waiting.dead = checkpoint;
        }
        // A file that was written to while it waited to go waits again: views may need what was
        // written there.
        let goes: HashSet<(u32, i64)> = replaced.iter().filter_map(Waiting::file).collect();
        if !goes.is_empty() {
            let is_other = |waiting: &Waiting| waiting.file().is_none_or(|file| !goes.contains(&file));
            self.waiting.retain(is_other);
        }
        self.waiting.append(&mut replaced);
    }

    /// The checkpoint's view has been published: its map tells which places are in use.
    pub(super) fn after_publishing(&mut self, checkpoint: u64) {
        let pending = std::mem::take(&mut self.pending);
        for (name, layer) in pending.allocated.into_iter().chain(pending.adopted) {
            self.free(name, layer);
        }
        self.settled = checkpoint;
    }

    /// Takes what no view needs out of waiting: the places, which stay in use until they are
    /// [freed](Self::free). Files that no view needs, and in which nobody is writing, are given to
    /// `remove`, which says whether it could remove them; the places in those are free.
    pub(super) fn take_released(
        &mut self,
        is_held: impl Fn(u64, u64) -> bool,
        is_live: impl Fn(u32, i64) -> bool,
        mut remove: impl FnMut(u32, i64) -> bool,
    ) -> Vec<Place> {
        let waiting = std::mem::take(&mut self.waiting);
        let (held, free): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|waiting| is_held(waiting.born, waiting.dead));
        self.waiting = held;
        let mut places: Vec<Place> = Vec::new();
        let mut freed: HashMap<BlockName, LayerSet> = HashMap::new();
        for waiting in &free {
            if let Replaced::Place(place) = waiting.what {
                freed.entry(place.name()).or_default().insert(place.layer);
                places.push(place);
            }
        }
        let mut removed = HashSet::new();
        for waiting in free {
            let Replaced::File {
                table,
                file,
                first,
                last,
            } = waiting.what
            else {
                continue;
            };
            if is_live(table, file) {
                continue;
            }
            let mut busy = self.busy.range((table, first)..=(table, last));
            // Another thread may be writing a block of the file at this moment (rule 1); the
            // removal then waits.
            let is_unused = busy.all(|(name, &set)| freed.get(name).is_some_and(|free| *free == set));
            if is_unused && remove(table, file) {
                removed.insert((table, file));
            } else {
                self.waiting.push(waiting);
            }
        }
        let is_gone = |place: &Place| removed.contains(&(place.table, place.file));
        if !removed.is_empty() {
            self.kept.forget(is_gone);
        }
        let (gone, left): (Vec<Place>, Vec<Place>) = places.into_iter().partition(is_gone);
        for place in gone {
            self.free(place.name(), place.layer);
        }
        left
    }

    /// Frees released places and keeps their space, as far as there is room; returns those whose
    /// space is to be given back, which stay in use until they are freed.
    pub(super) fn keep(&mut self, released: Vec<Place>) -> Vec<Place> {
        let mut given_back = Vec::new();
        for place in released {
            if place.is_kept {
                self.free(place.name(), place.layer);
                self.kept.keep(place);
            } else {
                given_back.push(place);
            }
        }
        given_back.extend(self.take_kept(KEPT_BYTES));
        given_back
    }

    /// If the places that are kept have more than `limit` bytes together, takes the oldest ones
    /// into use.
    pub(super) fn take_kept(&mut self, limit: u64) -> Vec<Place> {
        let taken = self.kept.take_excess(limit);
        for place in &taken {
            self.take(place.name(), place.layer);
        }
        taken
    }

    /// The checkpoint whose map tells which places are in use.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Forgets the places of a dropped table: nothing is written there any more.
    pub(super) fn forget(&mut self, table: u32) {
        self.busy.retain(|name, _| name.0 != table);
        self.kept.forget(|place| place.table == table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(block: i64, layer: u8, is_kept: bool) -> Place {
        Place {
            table: 1,
            file: 0,
            block,
            layer,
            offset: 0,
            bytes: 1 << 10,
            is_kept,
        }
    }

    fn checkpoint(places: &mut Places, number: u64) -> Vec<Place> {
        places.before_publishing(number);
        places.after_publishing(number);
        let released = places.take_released(|_, _| false, |_, _| true, |_, _| false);
        places.keep(released)
    }

    #[test]
    fn a_block_that_is_written_again_goes_back_and_forth() {
        let mut places = Places::new(1);
        let mut current = None;
        let mut seen = Vec::new();
        for number in 2..8 {
            let layer = places.allocate((1, 7), current).expect("one is free");
            if let Some(old) = current {
                places.replace(place(7, old, true), number - 1);
            }
            current = Some(layer);
            seen.push(layer);
            assert_eq!(checkpoint(&mut places, number), [], "nothing is given back");
        }
        assert_eq!(seen, [0, 1, 0, 1, 0, 1]);
        assert!(places.busy.is_empty());
    }

    #[test]
    fn a_file_that_is_written_to_while_it_waits_to_go_outlives_a_drop_of_its_table() {
        let mut places = Places::new(1);
        let (first, last) = (0, 9);
        let what = Replaced::File {
            table: 1,
            file: 0,
            first,
            last,
        };
        places.wait(what, 0);
        places.before_publishing(2);
        places.after_publishing(2);
        // Rows that the log alone names, and a view of them, before the table is dropped.
        assert_eq!(places.allocate_now((1, 7), None, 2), Allocated::Layer(0));
        places.adopt((1, 7), 0);
        places.wait(what, 0);
        places.before_publishing(3);
        places.after_publishing(3);
        let mut released = |held: u64| {
            let mut removed = 0;
            places.take_released(
                |born, dead| (born..dead).contains(&held),
                |_, _| false,
                |_, _| {
                    removed += 1;
                    true
                },
            );
            removed
        };
        assert_eq!(released(2), 0, "the view has rows in it");
        assert_eq!(released(3), 1);
    }

    #[test]
    fn a_block_that_is_adopted_and_replaced_at_once_keeps_its_place() {
        let mut places = Places::new(1);
        let layer = places.allocate_now((1, 7), None, 1);
        assert_eq!(layer, Allocated::Layer(0));
        let mut flush = |is_published: bool| {
            // Two generations of one checkpoint.
            places.adopt((1, 7), 0);
            assert_eq!(places.allocate((1, 7), Some(0)), Some(1));
            places.replace(place(7, 0, true), 1);
            if is_published {
                places.before_publishing(2);
                places.after_publishing(2);
            } else {
                places.roll_back();
            }
            let is_held = |born, dead| (born..dead).contains(&1);
            assert_eq!(places.take_released(is_held, |_, _| true, |_, _| false), []);
            let next = places.allocate_now((1, 7), is_published.then_some(1), 2);
            let Allocated::Layer(layer) = next else {
                panic!("{next:?}");
            };
            places.free((1, 7), layer);
            layer
        };
        // The log names the block still.
        assert_eq!(flush(false), 1);
        // A view does.
        assert_eq!(flush(true), 2);
        let released = places.take_released(|_, _| false, |_, _| true, |_, _| false);
        assert_eq!(released, [place(7, 0, true)]);
        assert_eq!(places.keep(released), []);
        assert!(places.busy.is_empty());
    }

    #[test]
    fn what_is_kept_beyond_the_limit_is_given_back_oldest_first() {
        let mut places = Places::new(1);
        for block in 0..4 {
            places.replace(place(block, 3, true), 1);
        }
        assert_eq!(checkpoint(&mut places, 2), []);
        places.replace(place(4, 3, true), 1);
        places.replace(place(5, 3, false), 1);
        let given_back = checkpoint(&mut places, 3);
        let blocks: Vec<i64> = given_back.iter().map(|place| place.block).collect();
        assert_eq!(
            blocks,
            [5, 0, 1, 2],
            "one that is not written again, and the oldest of the others"
        );
        // No request gets a place whose space is being given back.
        assert_eq!(places.allocate((1, 0), Some(0)), Some(1));
        assert_eq!(places.allocate((1, 3), Some(0)), Some(3), "this one is kept");
        given_back
            .iter()
            .for_each(|place| places.free(place.name(), place.layer));
        places.roll_back();
        assert!(places.busy.is_empty());
        assert_eq!(places.take_kept(0).len(), 1, "block 4 is left");
    }
}
