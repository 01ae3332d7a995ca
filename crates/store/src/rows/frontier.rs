//! Which of several sources of rows comes next.

use super::Place;

/// The next row of each of several sources, in the direction of a scan: a binary heap that also
/// tells the second row, up to which the first source may go on. O(log(sources)) a step.
#[derive(Debug)]
pub(crate) struct Frontier {
    reverse: bool,
    /// Places as numbers, the least first, with their sources. None precedes its parent, which for
    /// entry `n` is entry `(n - 1) / 2`.
    heap: Vec<(Place, usize)>,
}

impl Frontier {
    pub(crate) fn new(reverse: bool) -> Self {
        Self {
            reverse,
            heap: Vec::new(),
        }
    }

    /// Complements reverse the order of places.
    fn turned(&self, (time, sequence): Place) -> Place {
        if self.reverse {
            (!time, !sequence)
        } else {
            (time, sequence)
        }
    }

    /// The foremost row, and its source.
    pub(crate) fn first(&self) -> Option<(Place, usize)> {
        let &(place, source) = self.heap.first()?;
        Some((self.turned(place), source))
    }

    /// The row after the foremost one, of another source.
    pub(crate) fn second(&self) -> Option<Place> {
        let second = self.heap.iter().skip(1).take(2).min()?;
        Some(self.turned(second.0))
    }

    /// Adds a source whose next row stands there.
    pub(crate) fn push(&mut self, place: Place, source: usize) {
        self.heap.push((self.turned(place), source));
        let mut at = self.heap.len() - 1;
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Says where the source of the foremost row goes on; none if it has no more rows at hand.
    pub(crate) fn replace_first(&mut self, next: Option<Place>) {
        match next {
            Some(next) => {
                let turned = self.turned(next);
                let Some(first) = self.heap.first_mut() else {
                    return;
                };
                first.0 = turned;
            }
            None => {
                if self.heap.is_empty() {
                    return;
                }
                self.heap.swap_remove(0);
            }
        }
        let (mut at, len) = (0, self.heap.len());
        while 2 * at + 1 < len {
            let mut child = 2 * at + 1;
            if child + 1 < len && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if self.heap[at] <= self.heap[child] {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_the_direction_of_the_scan() {
        let ends = [(i64::MIN, 0), (i64::MAX, u64::MAX), (-1, 7), (3, 1), (3, 0)];
        let sources: Vec<Vec<Place>> = (0..9_i64)
            .map(|source| {
                let of_source = (0..source).map(|row| (row * (source - 4), source.unsigned_abs()));
                of_source
                    .chain(ends.get(usize::try_from(source).unwrap_or(9)).copied())
                    .collect()
            })
            .collect();
        for reverse in [false, true] {
            let mut left: Vec<Vec<Place>> = sources.clone();
            // Each source gives its rows from the end of its vector.
            for rows in &mut left {
                rows.sort_unstable();
                if !reverse {
                    rows.reverse();
                }
            }
            let mut expected: Vec<Place> = sources.iter().flatten().copied().collect();
            expected.sort_unstable();
            if reverse {
                expected.reverse();
            }
            let mut frontier = Frontier::new(reverse);
            for (number, rows) in left.iter().enumerate() {
                if let Some(&next) = rows.last() {
                    frontier.push(next, number);
                }
            }
            for (at, &place) in expected.iter().enumerate() {
                let (first, number) = frontier.first().expect("a row is left");
                assert_eq!(first, place);
                let others = left.iter().enumerate().filter(|(other, _)| *other != number);
                let others = others.filter_map(|(_, rows)| rows.last().copied());
                let second = if reverse { others.max() } else { others.min() };
                assert_eq!(frontier.second(), second, "after row {at}");
                left[number].pop();
                frontier.replace_first(left[number].last().copied());
            }
            assert_eq!(frontier.first(), None);
        }
    }
}
