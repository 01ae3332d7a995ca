//! The page map: where each logical page stands in the data file. Format: docs/format.md, "Page
//! map".
//!
//! A map is a value. Cloning it costs one reference a leaf, and changing one clone leaves the
//! others as they were: that is all a snapshot is. Leaves remember where they were last written, so
//! that a checkpoint writes only those that changed. The whole map is in memory: 12 bytes for each
//! page of the store, however long.

use std::sync::Arc;

use bedload_pages::PageId;

use super::extents::Extent;

/// Where a page stands in the data file: its first place (0: none), how many places it takes, and
/// its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Slot {
    pub(crate) page: u32,
    pub(crate) crc: u32,
    pub(crate) places: u32,
}

impl Slot {
    /// The places of the page.
    pub(crate) fn extent(self) -> Extent {
        Extent {
            first: self.page,
            places: self.places,
        }
    }
}

/// Bytes of a slot in a page of the map.
pub(crate) const SLOT_BYTES: usize = 12;

#[derive(Debug, Clone)]
struct Leaf {
    slots: Box<[Slot]>,
    /// Where the leaf was written; none if it changed since.
    written: Option<Slot>,
}

/// Logical to physical pages, at one version.
#[derive(Debug, Clone)]
pub(crate) struct PageMap {
    slots_per_leaf: usize,
    leaves: Vec<Arc<Leaf>>,
}

impl PageMap {
    pub(crate) fn new(slots_per_leaf: usize) -> Self {
        Self {
            slots_per_leaf,
            leaves: Vec::new(),
        }
    }

    /// Where the page stands; `None` if the map does not have it.
    pub(crate) fn get(&self, id: PageId) -> Option<Slot> {
        let (leaf, at) = self.locate(id);
        self.leaves
            .get(leaf)
            .map(|leaf| leaf.slots[at])
            .filter(|slot| slot.page != 0)
    }

    /// Sets where the page stands and returns where it stood.
    pub(crate) fn set(&mut self, id: PageId, slot: Slot) -> Slot {
        let (leaf, at) = self.locate(id);
        while self.leaves.len() <= leaf {
            let slots = vec![Slot::default(); self.slots_per_leaf].into();
            self.leaves.push(Arc::new(Leaf { slots, written: None }));
        }
        let leaf = Arc::make_mut(&mut self.leaves[leaf]);
        leaf.written = None;
        std::mem::replace(&mut leaf.slots[at], slot)
    }

    /// Removes the page and returns where it stood.
    pub(crate) fn remove(&mut self, id: PageId) -> Slot {
        if self.get(id).is_some() {
            self.set(id, Slot::default())
        } else {
            Slot::default()
        }
    }

    /// Every page of the map, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PageId, Slot)> {
        let slots = self.leaves.iter().flat_map(|leaf| leaf.slots.iter());
        slots
            .zip(1..)
            .filter(|(slot, _)| slot.page != 0)
            .filter_map(|(&slot, raw)| Some((PageId::new(raw)?, slot)))
    }

    pub(crate) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Where each leaf was written, if it was not changed since.
    pub(crate) fn written(&self) -> impl Iterator<Item = Option<Slot>> {
        self.leaves.iter().map(|leaf| leaf.written)
    }

    /// The payload of a leaf's page.
    pub(crate) fn encode_leaf(&self, leaf: usize, payload: &mut [u8]) {
        encode_slots(&self.leaves[leaf].slots, payload);
    }

    /// Remembers where a leaf was written.
    pub(crate) fn set_written(&mut self, leaf: usize, slot: Slot) {
        Arc::make_mut(&mut self.leaves[leaf]).written = Some(slot);
    }

    /// Appends the leaf whose page has `payload` and stands at `written`.
    pub(crate) fn push_decoded(&mut self, payload: &[u8], written: Slot) {
        let slots = decode_slots(payload).take(self.slots_per_leaf).collect();
        self.leaves.push(Arc::new(Leaf {
            slots,
            written: Some(written),
        }));
    }

    fn locate(&self, id: PageId) -> (usize, usize) {
        let index = id.get() as usize - 1;
        (index / self.slots_per_leaf, index % self.slots_per_leaf)
    }
}

pub(crate) fn encode_slots(slots: &[Slot], payload: &mut [u8]) {
    payload.fill(0);
    for (slot, out) in slots.iter().zip(payload.chunks_exact_mut(SLOT_BYTES)) {
        out[..4].copy_from_slice(&slot.page.to_le_bytes());
        out[4..8].copy_from_slice(&slot.crc.to_le_bytes());
        out[8..].copy_from_slice(&slot.places.to_le_bytes());
    }
}

pub(crate) fn decode_slots(payload: &[u8]) -> impl Iterator<Item = Slot> {
    payload.chunks_exact(SLOT_BYTES).map(|bytes| Slot {
        page: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        crc: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        places: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
    })
}
