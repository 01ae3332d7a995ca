//! The rules of a page store, as tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::thread;

use bedload_testkit::Rng;

use super::error::Result;
use super::page_id::PageId;
use super::page_store::{Batch, MAX_BATCH_PAGES, PageRead, PageStore, Reserved, RunWriter};

/// Checks that the empty stores made by `make` keep the rules of
/// [`page_store`](super::page_store::PageStore).
///
/// # Panics
///
/// If a store breaks a rule.
pub fn check_page_store<S: PageStore + Sync>(make: impl Fn() -> S) {
    check_page_store_of_one_thread(&make);
    batches_and_readers_exclude_each_other(&make());
}

/// Like [`check_page_store`], without threads, for hosts that have none, such as a database
/// server's process.
///
/// # Panics
///
/// As for [`check_page_store`].
pub fn check_page_store_of_one_thread<S: PageStore>(make: impl Fn() -> S) {
    batches_publish_all_or_nothing(&make());
    lives_of_a_page_are_told_apart(&make());
    only_pages_out_of_reach_are_handed_out_again(&make());
    sweeping_finds_what_nobody_reaches(&make());
    runs_can_be_pinned(&make());
    reserving_waits_for_no_latch(&make());
    maintenance_excludes_maintenance_only(&make());
    strange_pages_are_errors_or_noise(&make());
}

/// Unwraps a result; no error is expected in this suite.
fn ok<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the page store failed: {error}"),
    }
}

/// Writes and returns a page filled with `byte`.
fn page_of<S: PageStore>(store: &S, byte: u8) -> PageId {
    let Reserved { id, .. } = ok(store.reserve());
    ok(store.batch(&[id])).commit(|payloads| payloads[0].fill(byte));
    id
}

fn is_filled<S: PageRead>(store: &S, id: PageId, byte: u8) -> bool {
    let page = ok(store.read(id));
    page.len() == store.payload_len() && page.iter().all(|&other| other == byte)
}

fn batches_publish_all_or_nothing<S: PageStore>(store: &S) {
    let len = store.payload_len();
    assert!(
        len.is_multiple_of(8) && (256..=65_528).contains(&len),
        "a payload of {len} bytes"
    );
    let pages: Vec<PageId> = (1..=4).map(|byte| page_of(store, byte)).collect();
    let mut batch = ok(store.batch(&[pages[2], pages[0]]));
    ok(batch.add(pages[3]));
    ok(batch.add(pages[1]));
    for (index, byte) in [3, 1, 4, 2].into_iter().enumerate() {
        assert!(
            batch.page(index).iter().all(|&other| other == byte),
            "pages are numbered as they were named"
        );
    }
    batch.commit(|payloads| {
        assert_eq!(payloads.len(), MAX_BATCH_PAGES);
        for (index, payload) in payloads.iter_mut().enumerate() {
            assert_eq!(payload.len(), len);
            payload.fill([13, 11, 14, 12][index]);
        }
    });
    let fresh = ok(store.reserve());
    let mut batch = ok(store.batch(&[pages[0]]));
    ok(batch.add(fresh.id));
    drop(batch);
    store.release(fresh);
    for (&page, byte) in pages.iter().zip(11..) {
        assert!(
            is_filled(store, page, byte),
            "a batch that is dropped changes nothing"
        );
    }
    ok(store.batch(&[pages[0]])).commit(|payloads| payloads[0][7] = 99);
    let page = ok(store.read(pages[0]));
    assert_eq!(
        (page[6], page[7], page[8]),
        (11, 99, 11),
        "what a commit does not touch stays"
    );
}

fn lives_of_a_page_are_told_apart<S: PageStore>(store: &S) {
    let mut generations: BTreeMap<PageId, u64> = BTreeMap::new();
    for round in 0..50 {
        let lives: Vec<Reserved> = (0..6).map(|_| ok(store.reserve())).collect();
        let distinct: BTreeSet<PageId> = lives.iter().map(|life| life.id).collect();
        assert_eq!(distinct.len(), lives.len(), "one page has one user");
        for life in lives {
            let earlier = generations.insert(life.id, life.generation);
            assert!(
                earlier.is_none_or(|earlier| earlier < life.generation),
                "generations rise"
            );
            if round % 2 == 0 {
                store.release(life);
            } else {
                ok(store.batch(&[life.id])).commit(|payloads| payloads[0].fill(1));
                store.retire(&[life.id]);
            }
        }
        ok(store.reclaim());
    }
    assert!(
        generations.len() < 300,
        "pages come back, rather than {} new ones",
        generations.len()
    );
}

fn only_pages_out_of_reach_are_handed_out_again<S: PageStore>(store: &S) {
    let mut rng = Rng::new(1);
    let mut live: BTreeMap<PageId, u8> = BTreeMap::new();
    for _ in 0..500 {
        if live.len() < 40 && rng.below(2) == 0 {
            let byte = rng.next_u64().to_le_bytes()[0];
            let page = page_of(store, byte);
            assert!(live.insert(page, byte).is_none(), "page {page} is in use");
        } else if let Some(page) = live.keys().nth(rng.index(live.len().max(1))).copied() {
            live.remove(&page);
            store.retire(&[page]);
        }
        if rng.below(8) == 0 {
            ok(store.reclaim());
        }
    }
    assert!(live.iter().all(|(&page, &byte)| is_filled(store, page, byte)));
}

fn sweeping_finds_what_nobody_reaches<S: PageStore>(store: &S) {
    let pages: Vec<PageId> = (0..10).map(|byte| page_of(store, byte)).collect();
    let reserved = ok(store.reserve());
    store.retire(&[pages[9]]);
    let reachable = [pages[1], pages[4], pages[5]];
    let leaked = ok(store.sweep(&|page| reachable.contains(&page)));
    let mut expected = [pages[0], pages[2], pages[3], pages[6], pages[7], pages[8]];
    expected.sort_unstable();
    assert_eq!(
        leaked, expected,
        "neither reachable nor retired pages, nor reserved ones"
    );
    assert_eq!(
        ok(store.sweep(&|page| reachable.contains(&page))),
        [],
        "they are retired now"
    );
    for (page, byte) in [(1, 1), (4, 4), (5, 5)] {
        assert!(is_filled(store, pages[page], byte));
    }
    ok(store.batch(&[reserved.id])).commit(|payloads| payloads[0].fill(77));
    assert!(
        is_filled(store, reserved.id, 77),
        "what was reserved can still be written"
    );
}

fn runs_can_be_pinned<S: PageStore>(store: &S) {
    let mut writer = ok(store.run_writer());
    let pages: Vec<Reserved> = (0..3).map(|_| ok(writer.reserve())).collect();
    let ids: Vec<PageId> = pages.iter().map(|page| page.id).collect();
    for (page, byte) in pages.into_iter().zip(1..) {
        ok(writer.write(page, &[byte; 100]));
    }
    ok(writer.finish());
    let expected = |byte: u8| {
        let mut payload = vec![byte; 100];
        payload.resize(store.payload_len(), 0);
        payload
    };
    let pins: Vec<_> = ids.iter().map(|&id| ok(store.pin(id))).collect();
    for ((&id, pin), byte) in ids.iter().zip(&pins).zip(1..) {
        assert_eq!(
            ok(store.read(id))[..],
            expected(byte),
            "a short payload is padded with zeros"
        );
        assert_eq!(pin[..], expected(byte));
    }
    ok(store.batch(&[ids[0]])).commit(|payloads| payloads[0].fill(9));
    assert!(
        is_filled(store, ids[0], 9),
        "a run's page may become one like any other"
    );
    store.retire(&ids[1..]);
    for byte in 0..20 {
        ok(store.reclaim());
        page_of(store, byte);
    }
    for (pin, byte) in pins.iter().zip(1..).skip(1) {
        assert_eq!(pin[..], expected(byte), "who has pinned a page keeps it");
    }
}

fn reserving_waits_for_no_latch<S: PageStore>(store: &S) {
    let pages: Vec<PageId> = (0..4).map(|byte| page_of(store, byte)).collect();
    let guard = ok(store.read(pages[3]));
    let mut batch = ok(store.batch(&pages[..2]));
    store.retire(&[pages[2]]);
    let fresh = ok(store.reserve());
    ok(batch.add(fresh.id));
    batch.commit(|payloads| payloads[2].fill(8));
    assert!(is_filled(store, fresh.id, 8));
    drop(guard);
}

fn maintenance_excludes_maintenance_only<S: PageStore>(store: &S) {
    let (a, b) = (page_of(store, 1), page_of(store, 2));
    let right = store.try_maintain(a);
    assert!(right.is_some());
    assert!(store.try_maintain(a).is_none(), "one maintains a node at a time");
    assert!(store.try_maintain(b).is_some(), "and others other nodes");
    ok(store.batch(&[a])).commit(|payloads| payloads[0].fill(3));
    assert!(is_filled(store, a, 3), "who does not maintain is not excluded");
    drop(right);
    assert!(store.try_maintain(a).is_some());
}

fn strange_pages_are_errors_or_noise<S: PageStore>(store: &S) {
    let page = page_of(store, 1);
    assert!(store.pin(page).is_err(), "a page of no run is not pinned");
    for raw in [page.get() + 1_000_000, u32::MAX] {
        if let Some(id) = PageId::new(raw) {
            assert!(store.read(id).is_err() && store.batch(&[id]).is_err() && store.pin(id).is_err());
        }
    }
    // A handle may remember a page that is free.
    store.retire(&[page]);
    ok(store.reclaim());
    assert!(
        store
            .read(page)
            .is_ok_and(|page| page.len() == store.payload_len())
            || store.read(page).is_err()
    );
    drop(store.batch(&[page]));
}

/// Writers increment two pages together; readers that couple their latches never find the left one
/// lagging.
fn batches_and_readers_exclude_each_other<S: PageStore + Sync>(store: &S) {
    const ROUNDS: u64 = 2000;
    const WRITERS: u64 = 3;
    let (left, right) = (page_of(store, 0), page_of(store, 0));
    let number =
        |payload: &[u8], at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap_or_default());
    let start = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    ok(store.batch(&[left, right])).commit(|payloads| {
                        for payload in payloads {
                            let next = (number(payload, 0) + 1).to_le_bytes();
                            let end = payload.len() - 8;
                            payload[..8].copy_from_slice(&next);
                            payload[end..].copy_from_slice(&next);
                        }
                    });
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let first = ok(store.read(left));
                    let second = ok(store.read(right));
                    let (a, b) = (number(&first, 0), number(&second, 0));
                    assert_eq!(
                        (a, b),
                        (number(&first, first.len() - 8), number(&second, second.len() - 8))
                    );
                    assert_eq!(a, b, "both pages or none");
                }
            });
        }
    });
    assert_eq!(number(&ok(store.read(left)), 0), WRITERS * ROUNDS);
}
