//! Where a scan is, and the entries around.

use std::rc::Rc;

use crate::key::Entry;

/// Where a scan is. Cheap to copy, for marks.
#[derive(Clone)]
pub(super) struct Position {
    /// The range that it is in.
    pub(super) range: usize,
    pub(super) place: Place,
    pub(super) window: Rc<Window>,
    /// The place in the window, while it is there.
    pub(super) at: usize,
}

/// Entries that follow one another in the index.
#[derive(Default)]
pub(super) struct Window {
    pub(super) entries: Vec<Entry>,
    /// For an index-only scan: whether the row of each entry is visible to all.
    pub(super) is_visible: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At either end: the direction will tell.
    Unbegun,
    Below,
    /// At an entry of the window.
    At,
    Above,
}

impl Position {
    pub(super) fn new(place: Place) -> Self {
        Self {
            range: 0,
            place,
            window: Rc::default(),
            at: 0,
        }
    }

    /// The entry that it is at.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self.place {
            Place::At => self.window.entries.get(self.at),
            _ => None,
        }
    }

    /// Whether the row of the entry that it is at is known to be visible to all.
    pub(super) fn is_visible(&self) -> bool {
        self.window.is_visible.get(self.at) == Some(&true)
    }

    /// Goes to a place without a window. Keeps the memory of the present one unless a mark has it
    /// too.
    pub(super) fn reset(&mut self, place: Place) {
        self.place = place;
        self.at = 0;
        self.emptied_window();
    }

    /// The window, empty, with the memory that it has unless a mark has it too.
    pub(super) fn emptied_window(&mut self) -> &mut Window {
        if Rc::get_mut(&mut self.window).is_none() {
            self.window = Rc::default();
        }
        let window = Rc::get_mut(&mut self.window).expect("no mark has it");
        window.entries.clear();
        window.is_visible.clear();
        window
    }
}
