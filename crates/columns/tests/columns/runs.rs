//! Compares runs of columns in a Bε-tree with a sorted list.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampSecondArray, UInt64Array};
use bedload_columns::{
    ColumnRunWriter, ColumnRuns, EncodeOptions, LeafEntry, LeafFate, Place, RunIndex, RunLeaf, encode,
};
use bedload_pages::{Error, HeapPages, PageId, PageRead, PageStore, RunWriter};
use bedload_trees::I64Order;
use bedload_trees::be_tree::{BeTree, BeTreeOptions, LeafTarget, MaintenanceWork, Progress, RunEdit};

use crate::generate::Random;

const OWNER: u32 = 3;

type Tree<'p> = BeTree<I64Order, ColumnRuns, &'p HeapPages>;

fn kind() -> ColumnRuns {
    ColumnRuns::new(OWNER, 3, 1).leaf_rows(16)
}

fn options() -> BeTreeOptions {
    BeTreeOptions::new()
        .fan_out(4)
        .runs(3)
        .pending_entries(512)
        .leaf_entries(128)
        .stage_entries(64)
        .stage_runs(3)
}

/// Returns a value, the time, a text, and the sequence number of each row.
fn columns(places: &[Place]) -> Vec<ArrayRef> {
    let value = |place: &Place| (!place.sequence.is_multiple_of(7)).then(|| place.time * 3);
    let text = |place: &Place| format!("row {}", place.sequence);
    vec![
        Arc::new(places.iter().map(value).collect::<Int64Array>()),
        Arc::new(TimestampSecondArray::from_iter_values(
            places.iter().map(|place| place.time),
        )),
        Arc::new(StringArray::from_iter_values(places.iter().map(text))),
        Arc::new(UInt64Array::from_iter_values(
            places.iter().map(|place| place.sequence),
        )),
    ]
}

fn publish(tree: &Tree<'_>, kind: ColumnRuns, places: &[Place]) {
    let mut runs = Vec::new();
    for part in places.chunks(100) {
        let mut writer = ColumnRunWriter::new(*tree.store(), kind).expect("begun");
        // In pieces unrelated to leaves.
        for piece in part.chunks(11) {
            writer.push(columns(piece)).expect("in order");
        }
        runs.extend(writer.finish().expect("finished"));
    }
    tree.sealed(runs).publish().expect("published");
}

/// Reads all rows by position, interval by interval, as a reader does.
fn read_all(tree: &Tree<'_>) -> BTreeMap<(i64, u64), Option<i64>> {
    let mut rows = BTreeMap::new();
    let mut target = LeafTarget::First;
    loop {
        let interval = tree.leaf_interval(target).expect("read");
        let is_within = |place: Place| {
            interval.low.is_none_or(|low| Place::of_edge(low) <= place)
                && interval.high.is_none_or(|high| place < Place::of_edge(high))
        };
        for run in &interval.runs {
            let index = RunIndex::read(tree.store(), run, OWNER).expect("an index");
            for number in 0..index.leaves().len() {
                let leaf = index.open(tree.store(), number).expect("a leaf");
                let all = 0..leaf.rows();
                let places = (
                    leaf.times(1, all.clone()).unwrap(),
                    leaf.sequences(all.clone()).unwrap(),
                );
                let values = leaf.decode(0, all.clone()).expect("values");
                let values = values.as_primitive::<Int64Type>();
                let texts = leaf.decode(2, all).expect("texts");
                for (row, value) in values.iter().enumerate() {
                    let (time, sequence) = (places.0[row], places.1[row]);
                    if is_within(Place { time, sequence }) {
                        assert_eq!(texts.as_string::<i32>().value(row), format!("row {sequence}"));
                        assert!(
                            rows.insert((time, sequence), value).is_none(),
                            "a row is there once"
                        );
                    }
                }
            }
        }
        match interval.high {
            Some(high) => target = LeafTarget::At(high),
            None => return rows,
        }
    }
}

fn check(tree: &Tree<'_>, expected: &BTreeMap<(i64, u64), Option<i64>>) {
    let report = tree.verify().expect("verified");
    assert_eq!(report.problems, []);
    assert!(read_all(tree) == *expected);
}

/// Removes a range of times, except rows with a sequence number of at least `before`; returns the
/// number removed.
fn remove(tree: &Tree<'_>, kind: ColumnRuns, times: std::ops::RangeInclusive<i64>, before: u64) -> u64 {
    let mut removed = 0;
    let is_gone = |place: Place| times.contains(&place.time) && place.sequence < before;
    let judge = |leaf: &LeafEntry| {
        if leaf.last.time < *times.start() || leaf.first.time > *times.end() || leaf.min_sequence >= before {
            LeafFate::Kept
        } else if times.contains(&leaf.first.time)
            && times.contains(&leaf.last.time)
            && leaf.max_sequence < before
        {
            LeafFate::Dropped
        } else {
            LeafFate::Sifted
        }
    };
    tree.edit_runs(&mut |run, visible| {
        let retained = kind.retain(*tree.store(), (run, visible), judge, is_gone)?;
        Ok(retained.map_or(RunEdit::Keep, |retained| {
            removed += retained.removed;
            RunEdit::Replace {
                with: retained.run,
                retired: retained.retired,
            }
        }))
    })
    .expect("edited");
    removed
}

fn schedule(seed: u64, rounds: u64, late: usize, kind: ColumnRuns) -> MaintenanceWork {
    let pages = HeapPages::new(4096);
    let tree = BeTree::create(&pages, I64Order, kind, options()).expect("an empty tree");
    let mut random = Random(seed);
    let mut expected = BTreeMap::new();
    let mut work = MaintenanceWork::default();
    let mut next = 0;
    for round in 0..rounds {
        let rows = 1 + random.below(300);
        let mut places: Vec<Place> = (0..rows)
            .map(|_| {
                next += 1;
                let now = i64::try_from(round).unwrap() * 100;
                let time = now + i64::try_from(random.below(100)).unwrap()
                    - i64::try_from(random.below(late)).unwrap();
                let sequence = next;
                Place { time, sequence }
            })
            .collect();
        places.sort_unstable();
        publish(&tree, kind, &places);
        for place in places {
            let value = (!place.sequence.is_multiple_of(7)).then_some(place.time * 3);
            expected.insert((place.time, place.sequence), value);
        }
        let mut maintainer = tree.maintainer();
        while random.below(4) > 0 && maintainer.finish_one().expect("maintained") == Progress::Paused {}
        work += maintainer.done();
        if random.below(6) == 0 {
            let begin = i64::try_from(random.below(usize::try_from(round * 100 + 1).unwrap())).unwrap();
            let end = begin + i64::try_from(random.below(2000)).unwrap();
            let before = if random.below(2) == 0 { next + 1 } else { next / 2 };
            let rows = expected.len();
            expected.retain(|&(time, sequence), _| !((begin..=end).contains(&time) && sequence < before));
            assert_eq!(
                remove(&tree, kind, begin..=end, before),
                (rows - expected.len()) as u64
            );
        }
        if round % 16 == 0 {
            check(&tree, &expected);
        }
    }
    let mut maintainer = tree.maintainer();
    while maintainer.drain(1 << 20).expect("maintained") == Progress::Paused {}
    check(&tree, &expected);
    // No page is left that the tree does not name.
    pages.reclaim().expect("reclaimed");
    let owned = tree.verify().expect("verified").pages.len();
    assert_eq!(pages.live_pages(), owned);
    assert_eq!(
        remove(&tree, kind, i64::MIN..=i64::MAX, u64::MAX),
        expected.len() as u64
    );
    check(&tree, &BTreeMap::new());
    pages.reclaim().expect("reclaimed");
    assert!(
        pages.live_pages() < 20,
        "{} pages of an empty tree",
        pages.live_pages()
    );
    work
}

#[test]
fn rows_in_order_are_written_once() {
    let work = schedule(1, 200, 1, kind());
    assert_eq!(work.push_downs, 0, "nothing reaches the root's runs");
}

#[test]
fn late_rows_are_pushed_down() {
    let work = schedule(2, 200, 500, kind());
    assert!(work.push_downs > 50 && work.lost == 0, "{work:?}");
    let work = schedule(3, 300, 20_000, kind());
    assert!(work.push_downs > 100 && work.splits > 3, "{work:?}");
}

/// Runs of 8 or 48 rows, which is less than merges and leaves of the tree have.
#[test]
fn a_merge_that_one_index_cannot_name_gives_several_runs() {
    for (seed, leaf_rows, run_leaves) in [(4, 8, 1), (5, 16, 3)] {
        let kind = ColumnRuns::new(OWNER, 3, 1)
            .leaf_rows(leaf_rows)
            .run_leaves(run_leaves);
        schedule(seed, 50, 1, kind);
        for late in [500, 10_000] {
            let work = schedule(seed, 80, late, kind);
            assert!(work.push_downs > 50 && work.lost == 0, "{work:?}");
        }
    }
}

#[test]
fn a_writer_ends_a_run_when_its_index_is_full() {
    let pages = HeapPages::new(4096);
    let kind = kind().run_leaves(3);
    let mut writer = ColumnRunWriter::new(&pages, kind).expect("begun");
    let places: Vec<Place> = (0..100).map(|time| Place { time, sequence: 0 }).collect();
    for part in places.chunks(30) {
        writer.push(columns(part)).expect("in order");
    }
    let runs = writer.finish().expect("finished");
    let entries: Vec<u64> = runs.iter().map(|run| run.entries).collect();
    assert_eq!(entries, [48, 48, 4]);
    let mut times: Vec<i64> = Vec::new();
    for run in &runs {
        let index = RunIndex::read(&pages, run, OWNER).expect("an index of its own");
        for number in 0..index.leaves().len() {
            let leaf = index.open(&pages, number).expect("a leaf of its run");
            times.extend(&leaf.times(1, 0..leaf.rows()).expect("times"));
        }
    }
    assert!(times.into_iter().eq(0..100));
}

/// Leaves that lose a row each may be packed into more leaves than before, and the index of the run
/// has no room for more.
#[test]
fn a_full_run_that_loses_rows_stays_one_run() {
    let pages = HeapPages::new(16_384);
    let kind = ColumnRuns::new(OWNER, 2, 0).leaf_bytes(8_000).run_leaves(4);
    let rows_of = |places: &[(i64, usize)]| -> Vec<ArrayRef> {
        let texts = places.iter().map(|&(_, bytes)| "x".repeat(bytes));
        vec![
            Arc::new(TimestampSecondArray::from_iter_values(
                places.iter().map(|&(time, _)| time),
            )),
            Arc::new(StringArray::from_iter_values(texts)),
            Arc::new(UInt64Array::from_iter_values(places.iter().map(|_| 0))),
        ]
    };
    let mut writer = ColumnRunWriter::new(&pages, kind).expect("begun");
    // Every second leaf has four narrow rows, which are then deleted, and four wide ones.
    for first in [0, 16] {
        let bytes = |row| if row % 16 < 12 { 1 } else { 3_900 };
        let places: Vec<_> = (first..first + 16).map(|row| (row, bytes(row))).collect();
        writer.push(rows_of(&places)).expect("written");
    }
    let run = writer.finish().expect("finished").pop().expect("it has rows");
    let rows_of_leaves = |run: &_| -> Vec<u32> {
        let index = RunIndex::read(&pages, run, OWNER).expect("an index");
        index.leaves().iter().map(|leaf| leaf.rows).collect()
    };
    assert_eq!(rows_of_leaves(&run), [8, 8, 8, 8]);
    let is_gone = |place: Place| (8..12).contains(&(place.time % 16));
    let judge = |_: &LeafEntry| LeafFate::Sifted;
    let retained = kind.retain(&pages, (&run, &[(None, None)]), judge, is_gone);
    let retained = retained.expect("retained").expect("rows are gone");
    assert_eq!(retained.removed, 8);
    assert_eq!(
        rows_of_leaves(&retained.run.expect("rows are left")),
        [8, 4, 8, 4]
    );
}

#[test]
fn rows_out_of_order_are_refused() {
    let pages = HeapPages::new(4096);
    let place = |time, sequence| Place { time, sequence };
    let mut writer = ColumnRunWriter::new(&pages, kind()).expect("begun");
    let unsorted = writer.push(columns(&[place(2, 0), place(1, 1)]));
    assert!(matches!(unsorted, Err(Error::NotAscending { .. })));
    writer
        .push(columns(&[place(1, 0), place(1, 1)]))
        .expect("in order");
    let again = writer.push(columns(&[place(1, 1)]));
    assert!(matches!(again, Err(Error::NotAscending { .. })));
    let foreign = writer.push(columns(&[place(2, 2)])[..3].to_vec());
    assert!(matches!(foreign, Err(Error::Shape { .. })));
}

#[test]
fn wide_rows_make_short_leaves() {
    let pages = HeapPages::new(4096);
    let kind = ColumnRuns::new(OWNER, 2, 0).leaf_bytes(10_000);
    let mut writer = ColumnRunWriter::new(&pages, kind).expect("begun");
    let texts = |rows: i64| {
        let time = TimestampSecondArray::from_iter_values(0..rows);
        let text = StringArray::from_iter_values((0..rows).map(|_| "x".repeat(3_000)));
        let sequence = UInt64Array::from_iter_values(0..rows.cast_unsigned());
        vec![Arc::new(time) as ArrayRef, Arc::new(text), Arc::new(sequence)]
    };
    writer.push(texts(10)).expect("written");
    let run = writer.finish().expect("finished").pop().expect("it has rows");
    let index = RunIndex::read(&pages, &run, OWNER).expect("an index");
    let rows: Vec<u32> = index.leaves().iter().map(|leaf| leaf.rows).collect();
    assert_eq!(rows, [3, 3, 3, 1]);
}

#[test]
fn damage_is_told() {
    let pages = HeapPages::new(4096);
    let tree = BeTree::create(&pages, I64Order, kind(), options()).expect("an empty tree");
    let places: Vec<Place> = (0..60)
        .map(|n| Place {
            time: n,
            sequence: 100 - n.cast_unsigned(),
        })
        .collect();
    publish(&tree, kind(), &places);
    let run = tree.leaf_interval(LeafTarget::Last).expect("read").runs[0];
    let index = RunIndex::read(&pages, &run, OWNER).expect("an index");
    assert!(
        RunIndex::read(&pages, &run, OWNER + 1).is_err(),
        "of another table"
    );

    let leaf: PageId = index.leaves()[1].page;
    let bytes = pages.read(leaf).expect("a page").to_vec();
    // The leaf of this length follows a header of 80 bytes.
    let end = 80 + u32::from_le_bytes([bytes[72], bytes[73], bytes[74], bytes[75]]) as usize;
    let mut of_no_bytes = bytes[..80].to_vec();
    of_no_bytes[72..].fill(0);
    for page in [&bytes[..end], &of_no_bytes] {
        for cut in 0..page.len() {
            assert!(RunLeaf::open(leaf, &page[..cut]).is_err(), "cut to {cut} bytes");
        }
    }
    for at in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        if changed[at..].iter().all(|&byte| byte == 0) {
            continue;
        }
        let mut writer = pages.run_writer().expect("begun");
        let reserved = writer.reserve().expect("a page");
        let id = reserved.id;
        writer.write(reserved, &changed).expect("written");
        // A read returns an error or rows, and does not panic.
        if let Ok(leaf) = RunLeaf::open(id, pages.read(id).expect("a page")) {
            for column in 0..leaf.columns() {
                let _ = leaf.decode(column, 0..leaf.rows());
            }
        }
    }
}

/// A leaf's page whose header tells these ends and as many rows as it has.
fn page_of(places: &[Place], first: Place, last: Place) -> Vec<u8> {
    let leaf = encode(&columns(places), &EncodeOptions::default()).expect("encoded");
    let rows = u32::try_from(places.len()).expect("few");
    let mut page = b"BCR\x01".to_vec();
    for number in [OWNER, 1, rows] {
        page.extend_from_slice(&number.to_le_bytes());
    }
    page.extend_from_slice(&1_u64.to_le_bytes());
    for place in [first, last] {
        page.extend_from_slice(&place.time.to_le_bytes());
        page.extend_from_slice(&place.sequence.to_le_bytes());
    }
    page.extend_from_slice(&[0; 16]);
    let bytes = u32::try_from(leaf.bytes.len()).expect("few");
    page.extend_from_slice(&bytes.to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    page.extend_from_slice(&leaf.bytes);
    page
}

#[test]
fn a_leaf_without_rows_or_with_ends_in_reverse_is_damaged() {
    let id = PageId::new(7).expect("not zero");
    let place = |time| Place { time, sequence: 1 };
    let places = [place(3), place(8)];
    let open = |page: &[u8]| RunLeaf::open(id, page).map(|leaf| leaf.search(1, place(5)).expect("sound"));
    assert_eq!(open(&page_of(&places, place(3), place(8))).expect("sound"), 1);
    for page in [
        page_of(&[], place(3), place(8)),
        page_of(&places, place(8), place(3)),
    ] {
        let opened = open(&page);
        assert!(
            matches!(opened, Err(Error::Corrupt { page, .. }) if page == id),
            "{opened:?}"
        );
    }
}

#[test]
fn rows_between_places_are_those_of_a_list() {
    let pages = HeapPages::new(4096);
    let kind = ColumnRuns::new(OWNER, 3, 1);
    let mut random = Random(7);
    // Several blocks of 1,024 rows; some times have many rows, others none.
    let mut place = Place { time: 0, sequence: 0 };
    let places: Vec<Place> = (0..5000)
        .map(|_| {
            place.time += [0, 0, 1, 3, 900][random.below(5)];
            place.sequence += 1;
            place
        })
        .collect();
    let mut writer = ColumnRunWriter::new(&pages, kind).expect("begun");
    writer.push(columns(&places)).expect("in order");
    let run = writer.finish().expect("finished").pop().expect("a run");
    let index = RunIndex::read(&pages, &run, OWNER).expect("an index");
    let leaf = index.open(&pages, 0).expect("a leaf");
    assert_eq!(leaf.rows(), places.len());
    for _ in 0..4000 {
        let bound = |random: &mut Random| {
            let near = places[random.below(5000)];
            let place = Place {
                time: near.time + [-1, 0, 0, 1][random.below(4)],
                sequence: [0, 0, near.sequence, u64::MAX][random.below(4)],
            };
            [Bound::Included(place), Bound::Excluded(place), Bound::Unbounded][random.below(7) % 3]
        };
        let from = bound(&mut random);
        let to = match random.below(2) {
            0 => bound(&mut random),
            // A short range, which often lies in one block.
            _ => match from {
                Bound::Included(from) => Bound::Excluded(Place {
                    time: from.time + 1 + i64::try_from(random.below(50)).expect("few"),
                    sequence: 0,
                }),
                other => other,
            },
        };
        let begin = places.partition_point(|place| match from {
            Bound::Included(from) => *place < from,
            Bound::Excluded(from) => *place <= from,
            Bound::Unbounded => false,
        });
        let end = places.partition_point(|place| match to {
            Bound::Included(to) => *place <= to,
            Bound::Excluded(to) => *place < to,
            Bound::Unbounded => true,
        });
        let found = leaf.between(1, (from, to)).expect("read");
        assert_eq!(found.len(), end.saturating_sub(begin), "{from:?}, {to:?}");
        assert!(found.is_empty() || found.start == begin, "{from:?}, {to:?}");
    }
}
