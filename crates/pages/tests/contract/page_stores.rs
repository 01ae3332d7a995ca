//! The rules of page stores, checked on every store of this crate.

use bedload_pages::contract::check_page_store;
use bedload_pages::{Batch, Fault, FaultyPages, HeapPages, MimicPages, PageStore};

#[test]
fn heap_pages() {
    check_page_store(|| HeapPages::new(512));
    check_page_store(|| HeapPages::new(65_528));
}

#[test]
fn mimic_pages() {
    for seed in 0..20 {
        check_page_store(|| MimicPages::new(256, seed));
    }
}

#[test]
fn faulty_pages_without_faults() {
    check_page_store(|| FaultyPages::new(HeapPages::new(512), []));
    check_page_store(|| FaultyPages::new(MimicPages::new(512, 1), []));
}

#[test]
fn a_crash_forgets_reservations_and_stops_everything() {
    let pages = FaultyPages::new(HeapPages::new(256), [Fault::CrashBeforeCommit(2)]);
    let first = pages.reserve().expect("a page");
    let lost = pages.reserve().expect("a page");
    pages
        .batch(&[first.id])
        .expect("a batch")
        .commit(|payloads| payloads[0].fill(1));
    assert!(!pages.has_crashed());
    pages
        .batch(&[first.id, lost.id])
        .expect("a batch")
        .commit(|payloads| payloads[0].fill(2));
    assert!(pages.has_crashed());
    assert!(pages.reserve().is_err() && pages.batch(&[first.id]).is_err() && pages.reclaim().is_err());
    assert!(pages.run_writer().is_err() && pages.try_maintain(first.id).is_none());
    let pages = pages.recover();
    assert_eq!(pages.live_pages(), 1);
    let again = pages.reserve().expect("a page");
    assert_eq!(again.id, lost.id);
    assert!(again.generation > lost.generation);
    assert!(pages.sweep(&|page| page == first.id).expect("swept").is_empty());
}

#[test]
#[should_panic(expected = "latches a page once")]
fn a_page_twice_in_a_batch() {
    let pages = MimicPages::new(256, 1);
    let page = pages.reserve().expect("a page").id;
    drop(pages.batch(&[page, page]));
}

#[test]
#[should_panic(expected = "at most 4 pages")]
fn too_many_pages_in_a_batch() {
    let pages = MimicPages::new(256, 1);
    let ids: Vec<_> = (0..5).map(|_| pages.reserve().expect("a page").id).collect();
    drop(pages.batch(&ids));
}
