//! Runs against an oracle: built, read in every way, merged with tombstones, damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bedload_pages::{
    Error, Fault, FaultyPages, HeapPages, MimicPages, PageId, PageRead, PageStore, VacuumStore,
};
use bedload_testkit::{Rng, stride};
use bedload_trees::bplus_tree::{OwnedEntry, OwnedRow};
use bedload_trees::contract::CarelessOrder;
use bedload_trees::run::{Merge, Run, RunBuilder, RunCursor, RunEntry, RunOptions, RunReader, merge};
use bedload_trees::{
    ByteOrder, Columns, Entry, I64Order, KeyOrder, NoRow, Position, Row, RowLayout, U64Order,
};
use proptest::prelude::*;

use crate::model::{Supply, borrowed, row};

/// By canonical key and tie: the key as it was spelled, and the row; none for a tombstone.
type Oracle = BTreeMap<(Vec<u8>, u64), (Vec<u8>, Option<OwnedRow>)>;

/// An entry as it is read: its place, and its row, if it is no tombstone.
type Seen = ((Vec<u8>, u64), Option<OwnedRow>);

/// Entries and tombstones that follow from a seed.
fn oracle<O: Supply, L: RowLayout>(order: &O, layout: &L, seed: u64, count: u64, numbers: u64) -> Oracle {
    let mut rng = Rng::new(seed);
    (0..count)
        .map(|_| {
            let (number, spelling, tie) = (rng.below(numbers), rng.next_u64(), rng.below(3));
            let key = order.key(number, spelling);
            let kept = (rng.below(5) > 0).then(|| row(layout, spelling));
            ((order.canonical(&key), tie), (key, kept))
        })
        .collect()
}

fn build<O: Supply, L: RowLayout, S: PageStore>(
    pages: &S,
    order: &O,
    layout: &L,
    config: RunOptions,
    oracle: &Oracle,
) -> Option<Run> {
    let mut builder = RunBuilder::new(pages, order.clone(), layout.clone(), config).expect("begun");
    for ((_, tie), (key, kept)) in oracle {
        match kept {
            Some(row) => {
                let entry = OwnedEntry {
                    key: key.clone(),
                    tie: *tie,
                    row: row.clone(),
                };
                borrowed(&[entry], |mut entries| {
                    (&mut entries).try_for_each(|entry| builder.push(entry))
                })
                .expect("pushed");
            }
            None => builder.push_tombstone(key, *tie).expect("pushed"),
        }
    }
    builder.finish().expect("finished")
}

/// An entry of a run in the oracle's terms.
fn seen<O: Supply, L: RowLayout>(order: &O, layout: &L, entry: &RunEntry<'_, O, L>) -> Seen {
    let mut scratch = Vec::new();
    let place = (order.canonical(entry.key(&mut scratch)), entry.tie());
    let mut fixed = Vec::new();
    entry.fixed_into(&mut fixed);
    let variable = (0..layout.variable_columns())
        .map(|column| entry.variable(column).to_vec())
        .collect();
    (
        place,
        (!entry.is_tombstone()).then_some(OwnedRow { fixed, variable }),
    )
}

fn position(is_included: bool, key: &[u8], tie: u64) -> Bound<Position<'_>> {
    if is_included {
        Bound::Included(Position { key, tie })
    } else {
        Bound::Excluded(Position { key, tie })
    }
}

fn drain<O: Supply, L: RowLayout, S: PageRead>(
    order: &O,
    layout: &L,
    mut cursor: RunCursor<O, L, S>,
) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("sound pages") {
        all.push(seen(order, layout, &entry));
    }
    all
}

fn check<O: Supply, L: RowLayout, S: PageRead + Clone>(
    reader: &RunReader<O, L, S>,
    order: &O,
    layout: &L,
    oracle: &Oracle,
    numbers: u64,
) {
    let expected: Vec<_> = oracle
        .iter()
        .map(|(place, (_, row))| (place.clone(), row.clone()))
        .collect();
    assert_eq!(reader.run().entries, expected.len() as u64);
    let tombstones = expected.iter().filter(|(_, row)| row.is_none()).count();
    assert_eq!(reader.run().tombstones, tombstones as u64);
    let all = |is_back: bool, from: Bound<Position<'_>>, to: Bound<Position<'_>>| {
        let cursor = if is_back {
            reader.range_back(from, to)
        } else {
            reader.range(from, to)
        };
        let mut found = drain(order, layout, cursor.expect("keys of the order"));
        if is_back {
            found.reverse();
        }
        found
    };
    assert_eq!(all(false, Bound::Unbounded, Bound::Unbounded), expected);
    assert_eq!(all(true, Bound::Unbounded, Bound::Unbounded), expected);
    let mut rng = Rng::new(numbers);
    for _ in 0..40 {
        let key = order.key(rng.below(numbers + 2), rng.next_u64());
        let tie = rng.below(4);
        let place = (order.canonical(&key), tie);
        let got = reader
            .get_with(&key, tie, |entry| seen(order, layout, &entry))
            .expect("sound pages");
        let known = oracle.get(&place).map(|(_, row)| (place.clone(), row.clone()));
        assert_eq!(got, known);

        let other = order.key(rng.below(numbers + 2), rng.next_u64());
        let (low, high) = if order.canonical(&key) <= order.canonical(&other) {
            (&key, &other)
        } else {
            (&other, &key)
        };
        let bounds = |is_included: bool, key: &[u8], tie: u64| {
            let place = (order.canonical(key), tie);
            if is_included {
                Bound::Included(place)
            } else {
                Bound::Excluded(place)
            }
        };
        let (first, last) = (rng.below(2) == 0, rng.below(2) == 0);
        let in_range = |place: &(Vec<u8>, u64)| {
            let above = match bounds(first, low, 0) {
                Bound::Included(from) => *place >= from,
                Bound::Excluded(from) => *place > from,
                Bound::Unbounded => true,
            };
            let below = match bounds(last, high, 1) {
                Bound::Included(to) => *place <= to,
                Bound::Excluded(to) => *place < to,
                Bound::Unbounded => true,
            };
            above && below
        };
        let expected: Vec<_> = expected
            .iter()
            .filter(|(place, _)| in_range(place))
            .cloned()
            .collect();
        for is_back in [false, true] {
            assert_eq!(
                all(is_back, position(first, low, 0), position(last, high, 1)),
                expected
            );
        }
    }
}

/// The filter denies no key of the run, and few that the run has not got; without filter or hash,
/// none at all.
fn check_filter<O: Supply, L: RowLayout, S: PageRead>(
    reader: &RunReader<O, L, S>,
    order: &O,
    oracle: &Oracle,
    numbers: u64,
) {
    let keys: BTreeSet<&[u8]> = oracle.keys().map(|(key, _)| key.as_slice()).collect();
    let (mut absent, mut admitted) = (0, 0);
    for number in 0..numbers {
        let key = order.key(number, number);
        let Some(hash) = order.hash(&key) else {
            assert_eq!(reader.run().filter, None, "a filter without hashes");
            continue;
        };
        let may_contain = reader.may_contain(hash).expect("sound pages");
        if keys.contains(order.canonical(&key).as_slice()) {
            assert!(may_contain, "the filter denies key {number}");
        } else {
            absent += 1;
            admitted += u64::from(may_contain);
        }
    }
    if reader.run().filter.is_some() {
        assert!(
            admitted <= 4 + absent / 40,
            "{admitted} of {absent} absent keys admitted"
        );
    }
}

/// Builds runs, reads each, and merges them, the first being the newest.
fn exercise<O: Supply, L: RowLayout, S: PageStore>(
    pages: &S,
    order: &O,
    layout: &L,
    config: RunOptions,
    seed: u64,
    sizes: &[u64],
    numbers: u64,
) {
    let mut runs = Vec::new();
    let mut merged = Oracle::new();
    for (index, &size) in sizes.iter().enumerate() {
        let oracle = oracle(order, layout, seed + index as u64, size, numbers);
        let run = build(pages, order, layout, config, &oracle);
        assert_eq!(run.is_none(), oracle.is_empty());
        let Some(run) = run else { continue };
        let reader = RunReader::new(pages, order.clone(), layout.clone(), config, run);
        check(&reader, order, layout, &oracle, numbers);
        check_filter(&reader, order, &oracle, numbers);
        runs.push(reader);
        for (place, entry) in oracle {
            merged.entry(place).or_insert(entry);
        }
    }
    for is_last in [false, true] {
        if is_last {
            merged.retain(|_, (_, row)| row.is_some());
        }
        let run = merge(pages, &runs, order.clone(), layout.clone(), config, is_last).expect("sound pages");
        assert_eq!(run.is_none(), merged.is_empty());
        if let Some(run) = run {
            let reader = RunReader::new(pages, order.clone(), layout.clone(), config, run);
            check(&reader, order, layout, &merged, numbers);
            check_filter(&reader, order, &merged, numbers);
        }
    }
}

fn exercise_all(seed: u64, sizes: &[u64], numbers: u64, max_entries: u16, payload_len: usize) {
    let filter_bits = if seed.is_multiple_of(4) { 0 } else { 12 };
    let config = RunOptions::new()
        .max_entries(max_entries)
        .filter_bits(filter_bits);
    let heap = HeapPages::new(payload_len);
    exercise(&heap, &U64Order, &NoRow, config, seed, sizes, numbers);
    exercise(
        &heap,
        &I64Order,
        &Columns::new(&[1, 8, 3, 12], 1),
        config,
        seed,
        sizes,
        numbers,
    );
    exercise(
        &heap,
        &ByteOrder,
        &Columns::new(&[9], 2),
        config,
        seed,
        sizes,
        numbers,
    );
    let mimic = MimicPages::new(payload_len, seed);
    exercise(&mimic, &ByteOrder, &NoRow, config, seed, sizes, numbers);
    exercise(
        &mimic,
        &CarelessOrder,
        &Columns::new(&[2], 1),
        config,
        seed,
        sizes,
        numbers,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if stride() == 1 { 40 } else { 8 }))]

    #[test]
    fn runs_answer_like_a_map(
        seed: u64,
        sizes in proptest::collection::vec(0_u64..300, 1..5),
        numbers in 1_u64..400,
        max_entries in 2_u16..9,
    ) {
        exercise_all(seed >> 1, &sizes, numbers, max_entries, 1024);
    }
}

#[test]
fn full_pages_answer_like_a_map() {
    exercise_all(
        7,
        &[3000, 500, 4000].map(|entries| entries / stride() as u64),
        5000,
        4096,
        1024,
    );
    exercise_all(8, &[20_000 / stride() as u64], 100_000, 4096, 8192);
}

#[test]
fn a_merge_may_stop_after_any_entry() {
    let pages = HeapPages::new(512);
    let config = RunOptions::new();
    let oracles = [1, 2, 3].map(|seed| oracle(&U64Order, &NoRow, seed, 300, 500));
    let readers: Vec<_> = oracles
        .iter()
        .map(|oracle| build(&pages, &U64Order, &NoRow, config, oracle).expect("entries"))
        .map(|run| RunReader::new(&pages, U64Order, NoRow, config, run))
        .collect();
    let whole = merge(&pages, &readers, U64Order, NoRow, config, false)
        .expect("sound")
        .expect("entries");
    let mut merge = Merge::new(&pages, &readers, U64Order, NoRow, config, false).expect("begun");
    let mut steps = 0;
    while merge.advance(7).expect("sound") {
        steps += 1;
    }
    assert!(steps > 50, "{steps}");
    let run = merge.finish().expect("sound").expect("entries");
    assert_eq!(
        (run.entries, run.tombstones, run.pages),
        (whole.entries, whole.tombstones, whole.pages)
    );
    let read = |run: Run| {
        let reader = RunReader::new(&pages, U64Order, NoRow, config, run);
        drain(
            &U64Order,
            &NoRow,
            reader
                .range(Bound::Unbounded, Bound::Unbounded)
                .expect("unbounded"),
        )
    };
    assert_eq!(read(run), read(whole));
}

#[test]
fn keys_with_row_addresses_take_less_than_ten_bytes() {
    let pages = HeapPages::new(8192 - 24);
    let mut rng = Rng::new(3);
    let mut keys: Vec<(u64, u64)> = (0..200_000)
        .map(|row| (rng.next_u64(), (row / 200) << 16 | (row % 200)))
        .collect();
    keys.sort_unstable();
    let mut builder = RunBuilder::new(&pages, U64Order, NoRow, RunOptions::new()).expect("begun");
    for (key, tie) in keys {
        let entry = Entry {
            key: &U64Order::key(key),
            tie,
            row: Row::default(),
        };
        builder.push(entry).expect("ascending");
    }
    let run = builder.finish().expect("finished").expect("entries");
    let bytes = f64::from(run.pages) * 8192.0 / run.entries as f64;
    assert!(bytes < 10.0, "{bytes} bytes an entry");
}

/// A filter of thousands of pages, under two levels of page ids, each of which a question meets.
#[test]
fn a_filter_of_many_pages_denies_no_key() {
    let pages = HeapPages::new(256);
    let config = RunOptions::new().filter_bits(12);
    let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config).expect("begun");
    for key in 0..400_000_u64 {
        for tie in 0..1 + key % 2 {
            let entry = Entry {
                key: &U64Order::key(3 * key),
                tie,
                row: Row::default(),
            };
            builder.push(entry).expect("ascending");
        }
    }
    let run = builder.finish().expect("finished").expect("entries");
    let filter = run.filter.expect("it was asked for");
    assert_eq!(
        u64::from(filter.pages),
        (400_000 * 12_u64).div_ceil(512).div_ceil(3)
    );
    let reader = RunReader::new(&pages, U64Order, NoRow, config, run);
    let may_contain = |key| {
        let hash = U64Order.hash(&U64Order::key(key)).expect("numbers have one");
        reader.may_contain(hash).expect("sound pages")
    };
    assert!((0..400_000).all(|key| may_contain(3 * key)));
    let admitted = (0..400_000).filter(|key| may_contain(3 * key + 1)).count();
    assert!(
        admitted < 400_000 / 150,
        "{admitted} of 400,000 absent keys admitted"
    );
}

/// Pages are allocated, and what is known of each; entries are not.
#[test]
fn no_entry_costs_an_allocation() {
    const ENTRIES: u64 = 100_000;
    let pages = HeapPages::new(8168);
    let config = RunOptions::new();
    let write = |first: u64| {
        let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config).expect("begun");
        for number in 0..ENTRIES {
            let entry = Entry {
                key: &U64Order::key(first + 2 * number),
                tie: number,
                row: Row::default(),
            };
            builder.push(entry).expect("ascending");
        }
        let run = builder.finish().expect("finished").expect("entries");
        RunReader::new(&pages, U64Order, NoRow, config, run)
    };
    let mut runs = Vec::new();
    let written = allocation_counter::measure(|| runs.extend([write(0), write(1)]));
    let merged = allocation_counter::measure(|| {
        let run = merge(&pages, &runs, U64Order, NoRow, config, false).expect("sound pages");
        assert_eq!(run.expect("entries").entries, 2 * ENTRIES);
    });
    let read = allocation_counter::measure(|| {
        let mut cursor = runs[0]
            .range(Bound::Unbounded, Bound::Unbounded)
            .expect("unbounded");
        while cursor.next_entry().expect("sound pages").is_some() {}
    });
    for (counted, entries) in [(written, 2 * ENTRIES), (merged, 2 * ENTRIES), (read, ENTRIES)] {
        assert!(counted.count_total * 10 < entries, "{counted:?} for {entries}");
    }
}

#[test]
fn what_does_not_ascend_or_fit_is_refused() {
    let pages = HeapPages::new(512);
    let mut builder =
        RunBuilder::new(&pages, ByteOrder, NoRow, RunOptions::new().ties(false)).expect("begun");
    builder.push_tombstone(b"b", 0).expect("the first");
    assert!(matches!(
        builder.push_tombstone(b"b", 0),
        Err(Error::NotAscending { position: 1 })
    ));
    assert!(matches!(
        builder.push_tombstone(b"a", 0),
        Err(Error::NotAscending { .. })
    ));
    assert!(matches!(
        builder.push_tombstone(b"c", 1),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(
        builder.push_tombstone(&[b'd'; 129], 0),
        Err(Error::EntryTooLarge { .. })
    ));
    let run = builder.finish().expect("finished").expect("an entry");
    assert_eq!(run.entries, 1);
}

#[test]
fn a_row_that_fits_no_page_with_its_columns_is_refused() {
    let pages = HeapPages::new(8168);
    let layout = Columns::new(&[], 240);
    let mut builder = RunBuilder::new(&pages, ByteOrder, layout, RunOptions::new()).expect("begun");
    let text = "x".repeat(2000);
    let mut strings = vec![b"".as_slice(); 240];
    strings[0] = text.as_bytes();
    let entry = Entry {
        key: b"key",
        tie: 0,
        row: Row {
            fixed: &[],
            variable: &strings,
        },
    };
    let pushed = builder.push(entry).and_then(|()| builder.finish());
    assert!(matches!(pushed, Err(Error::EntryTooLarge { .. })), "{pushed:?}");
}

#[test]
fn flipped_bits_do_no_more_than_harm() {
    for seed in 0..300 {
        let pages = FaultyPages::new(MimicPages::new(512, seed), []);
        let (order, layout) = (ByteOrder, Columns::new(&[3, 9], 2));
        let config = RunOptions::new().filter_bits(12);
        let oracle = oracle(&order, &layout, seed, 300, 500);
        let run = build(&pages, &order, &layout, config, &oracle).expect("entries");
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.index(4) {
            let page =
                run.first_page.get() + u32::try_from(rng.index(run.pages as usize)).expect("few pages");
            let offset = if rng.below(2) == 0 {
                rng.index(120)
            } else {
                rng.index(512)
            };
            if let Some(page) = PageId::new(page) {
                let _ = pages.damage(page, offset, 1 << rng.index(8));
            }
        }
        let reader = RunReader::new(&pages, order, layout.clone(), config, run);
        for cursor in [
            reader.range(Bound::Unbounded, Bound::Unbounded),
            reader.range_back(Bound::Unbounded, Bound::Unbounded),
        ] {
            let mut cursor = cursor.expect("unbounded");
            let mut entries = 0;
            while let Ok(Some(entry)) = cursor.next_entry() {
                seen(&order, &layout, &entry);
                entries += 1;
                assert!(entries < 1_000_000, "a cursor does not end");
            }
        }
        for number in 0..50 {
            let key = order.key(number, 0);
            let _ = reader.may_contain(order.hash(&key).expect("bytes have one"));
            let _ = reader.get_with(&key, 1, |entry| seen(&order, &layout, &entry));
        }
        let runs = [RunReader::new(&pages, order, layout.clone(), config, run)];
        let _ = merge(
            &&pages,
            &[] as &[RunReader<_, _, &&FaultyPages<MimicPages>>],
            order,
            layout.clone(),
            config,
            true,
        );
        let _ = merge(&pages, &runs, order, layout, config, true);
    }
}

#[test]
fn hints_pass_over_pages_of_others_and_not_over_damage() {
    let pages = HeapPages::new(512);
    let config = RunOptions::new();
    let write = || {
        let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config).expect("begun");
        for number in 0..2000 {
            let key = U64Order::key(number * number);
            builder.push(borrowed_key(&key, 1)).expect("it ascends");
        }
        builder.finish().expect("finished").expect("entries")
    };
    let gone = write();
    let reader = RunReader::new(&pages, U64Order, NoRow, config, gone);
    assert!(gone.height > 1, "there are nodes above the leaves");
    let keys: Vec<_> = (0..2000_u64)
        .map(|number| U64Order::key(number * number))
        .collect();
    let all: Vec<Position<'_>> = keys.iter().map(|key| Position { key, tie: 1 }).collect();
    pages.retire(&reader.pages().expect("its pages").iter().collect::<Vec<_>>());
    pages.reclaim().expect("free pages");
    // Another run has taken some of its pages over.
    let other = RunReader::new(&pages, U64Order, NoRow, config, write());
    reader.hint_dead(&all).expect("nothing to be marked");
    let count = || {
        let mut cursor = other
            .range(Bound::Unbounded, Bound::Unbounded)
            .expect("unbounded");
        cursor.skip_dead();
        let mut entries = 0;
        while cursor.next_entry().expect("sound pages").is_some() {
            entries += 1;
        }
        entries
    };
    assert_eq!(count(), 2000);
    other.hint_dead(&all[..500]).expect("sound pages");
    assert_eq!(count(), 1500);
    // The number of entries of its first leaf, beyond what a page holds.
    let mut damage = |page: &mut [u8]| {
        page[5] ^= 0x40;
        Ok(true)
    };
    pages
        .delete_in_run(other.run().first_page, &mut damage)
        .expect("it is there");
    let error = other.hint_dead(&all[..1]).expect_err("a damaged page");
    assert!(matches!(error, Error::Corrupt { page, .. } if page == other.run().first_page));
}

/// Leaves whose entries are dead are not read again, once what was deleted in them is durable.
#[test]
fn leaves_are_passed_over_once_their_deletions_are_durable() {
    let pages_read = |faults: Vec<Fault>| {
        let pages = FaultyPages::new(HeapPages::new(512), faults);
        let config = RunOptions::new();
        let keys: Vec<_> = (0..2000_u64)
            .map(|number| U64Order::key(number * number))
            .collect();
        let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config).expect("begun");
        for key in &keys {
            builder.push(borrowed_key(key, 1)).expect("it ascends");
        }
        let run = builder.finish().expect("finished").expect("entries");
        let reader = RunReader::new(&pages, U64Order, NoRow, config, run);
        let dead: Vec<Position<'_>> = keys.iter().map(|key| Position { key, tie: 1 }).collect();
        reader.hint_dead(&dead[..1500]).expect("sound pages");
        let before = pages.calls().reads;
        let mut cursor = reader
            .range(Bound::Unbounded, Bound::Unbounded)
            .expect("unbounded");
        cursor.skip_dead();
        let first = cursor.next_entry().expect("sound pages").expect("entries");
        assert_eq!(first.key(&mut Vec::new()), keys[1500]);
        pages.calls().reads - before
    };
    let few = pages_read(vec![]);
    let many = pages_read(vec![Fault::DeletionsNotDurable]);
    assert!(few < 10 && many > 10, "{few} and {many} pages");
}

fn borrowed_key(key: &[u8], tie: u64) -> Entry<'_> {
    let row = Row::default();
    Entry { key, tie, row }
}
