//! Checks of the data layer and the search layer.

use super::layer::Blocks;
use crate::sb_tree::blocks::block::{Block, BlockState, Covers};
use crate::search::columns::Words;

impl<W: Words> Blocks<W> {
    /// Checks the rules; returns the last block's top. No other operation may be under way.
    pub(crate) fn check(&self) -> Result<W, String> {
        self.search.check_places(&self.growth())?;
        let known = self.search.blocks();
        let mut known = known.iter().copied().peekable();
        let mut block = *known.peek().ok_or("there is no block")?;
        let (mut led_to, mut below) = (block, None);
        loop {
            if let Some(next) = known.next_if(|next| std::ptr::eq(*next, block)) {
                led_to = next;
            }
            self.check_block(block, led_to, below)
                .map_err(|what| format!("block up to {:?}: {what}", block.top()))?;
            below = Some(block.top());
            let Some(right) = self.right_of(block) else { break };
            block = right;
        }
        match known.next() {
            None => Ok(block.top()),
            Some(_) => Err("the search layer knows blocks that are not in the data layer".into()),
        }
    }

    /// Checks a block, to which a descent leads through `led_to`.
    fn check_block(&self, block: &Block<W>, led_to: &Block<W>, below: Option<W>) -> Result<(), String> {
        let state = if below.is_some() {
            BlockState::Inner
        } else {
            BlockState::First
        };
        if block.state() != state {
            return Err(format!("it is {:?}", block.state()));
        }
        match block.latch.try_latch_now() {
            Some(latched) => block.settle(latched.writer()),
            None => return Err("it is latched".into()),
        }
        if below.is_some_and(|below| below != block.below() || below >= block.top()) {
            return Err(format!(
                "it begins above {:?}, its neighbour ends at {below:?}",
                block.below()
            ));
        }
        let keys: Vec<W> = block.entries(0..block.len()).map(|(key, _)| key).collect();
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err("keys do not ascend".into());
        }
        for (place, key) in keys.iter().enumerate() {
            if block.covers(key) != Covers::Yes {
                return Err(format!("{key:?} lies outside"));
            }
            if block.search(key) != (place, true) {
                return Err(format!("{key:?} is not found"));
            }
            if !std::ptr::eq(self.search.descend(key), led_to) {
                return Err(format!("{key:?} leads elsewhere"));
            }
        }
        Ok(())
    }
}
