//! Compares an estimator's values with the exact measures.

use bedload_sortedness::{Estimate, Estimator, SavedOrder, Sortedness};
use bedload_testkit::workload::{arrivals, scrambled};

#[test]
fn estimates_keep_to_their_stated_error() {
    let len = 40_000;
    for ranks in arrivals(len) {
        let mut order = Estimator::with_window(5_000);
        let mut restored = order.clone();
        for (number, &rank) in (0..).zip(&ranks) {
            order.observe(rank);
            restored.observe(rank);
            if number % 3_001 == 0 {
                let saved = restored.save();
                restored = Estimator::restore(&saved).expect("as it was saved");
                assert_eq!(restored.save(), saved);
            }
            if number % 6_007 == 6_000 {
                check_under_way(&ranks[..=number], &order);
            }
        }
        for order in [order, restored] {
            check_estimate(&ranks, &order);
        }
    }
}

fn check_under_way(ranks: &[u64], order: &Estimator) {
    let (exact, estimate) = (Sortedness::of_keys(ranks), order.total());
    let rows = ranks.len() as u64;
    assert!(
        estimate.k >= exact.k && estimate.k - exact.k <= rows / 100,
        "{estimate:?} {exact:?}"
    );
    assert!(estimate.l <= exact.l + rows / 10, "{estimate:?} {exact:?}");
}

fn check_estimate(ranks: &[u64], order: &Estimator) {
    let (exact, estimate) = (Sortedness::of_keys(ranks), order.total());
    let rows = ranks.len() as u64;
    assert_eq!(estimate.rows, exact.rows);
    assert_eq!(estimate.below_running_max, exact.below_running_max);
    assert!(estimate.k >= exact.k, "{estimate:?} {exact:?}");
    assert!(estimate.k - exact.k <= rows / 100, "{estimate:?} {exact:?}");
    let error = estimate.l.abs_diff(exact.l) as f64 / rows as f64;
    let stated = if exact.k_share() <= 0.2 { 0.05 } else { 0.1 };
    assert!(error <= stated, "{estimate:?} {exact:?}");
    assert!(order.window().rows == 5_000 && order.window().k <= 5_000);
}

/// A clock that is far ahead for a while, again and again.
#[test]
fn each_burst_of_keys_ahead_adds_a_thousand_rows_to_k_at_most() {
    let (bursts, apart, burst) = (50, 5_000, 300);
    let keys: Vec<u64> = (0..bursts * apart)
        .map(|row| if row % apart < burst { row + (1 << 40) } else { row })
        .collect();
    let mut order = Estimator::new();
    keys.iter().for_each(|&key| order.observe(key));
    let (exact, estimate) = (Sortedness::of_keys(&keys), order.total());
    assert!(
        estimate.k >= exact.k && estimate.k - exact.k <= bursts * 1_000,
        "{estimate:?} {exact:?}"
    );
    let l_error = estimate.rows / 20;
    assert!(estimate.l.abs_diff(exact.l) <= l_error, "{estimate:?} {exact:?}");
}

#[test]
fn the_farthest_of_many_late_keys_is_found() {
    let key = |row: u64| match row {
        30_000 => 10 * 6_000 + 5,
        // Too late for the piles.
        row if row % 5 < 2 => (10 * row).saturating_sub(10_000),
        row => 10 * row,
    };
    let keys: Vec<u64> = (0..40_000).map(key).collect();
    let mut order = Estimator::with_window(40_000);
    keys.iter().for_each(|&key| order.observe(key));
    let exact = Sortedness::of_keys(&keys);
    for l in [order.total().l, order.window().l] {
        assert!(l.abs_diff(exact.l) <= exact.rows / 100, "{l} {exact:?}");
    }
}

#[test]
fn what_overlaps_with_what_is_stored_is_counted() {
    for ranks in arrivals(10_000) {
        let (mut order, mut stored, mut overlapping) = (Estimator::new(), None, 0);
        for part in ranks.chunks(700) {
            for &rank in part {
                overlapping += u64::from(Some(rank) < stored);
                order.observe(rank);
            }
            stored = stored.max(part.iter().max().copied());
            order.note_stored(stored.unwrap_or(0));
        }
        assert_eq!(order.total().overlapping, overlapping);
        assert_eq!(order.max(), ranks.iter().max().copied());
    }
}

#[test]
fn keys_below_a_stored_one_that_was_not_observed_overlap() {
    for as_run in [false, true] {
        let mut order = Estimator::new();
        order.note_stored(5_000);
        // So many that most are not sampled.
        let keys: Vec<u64> = (0..10_000).collect();
        if as_run {
            order.observe_run(&keys);
        } else {
            keys.iter().for_each(|&key| order.observe(key));
        }
        let total = order.total();
        assert_eq!((total.rows, total.overlapping, total.k), (10_000, 5_000, 0));
    }
}

#[test]
fn only_what_was_saved_is_restored() {
    let mut order = Estimator::new();
    scrambled(3_000, 3).into_iter().for_each(|key| order.observe(key));
    let saved = order.save();
    assert_eq!(
        Estimator::restore(&saved).map(|order| order.save()),
        Some(saved.clone())
    );
    let damages: [fn(&mut SavedOrder); 14] = [
        |saved| saved.total.rows = u64::MAX,
        |saved| saved.total.k = saved.total.rows + 1,
        |saved| saved.since_window.k = u64::MAX,
        |saved| {
            saved.window = Some(Estimate {
                rows: 5_000,
                ..Estimate::default()
            })
        },
        |saved| saved.piles.clear(),
        |saved| saved.piles.reverse(),
        |saved| saved.samples.extend([u64::MAX; 200]),
        |saved| saved.stride = 0,
        |saved| saved.max_arrival = 3_001,
        |saved| saved.max = 0,
        |saved| saved.runners_up.reverse(),
        |saved| saved.runners_up[0].below = 3_001,
        |saved| saved.older_piles.push((3_001, u64::MAX)),
        |saved| saved.older_piles.extend((1..=65).map(|number| (number, number))),
    ];
    for damage in damages {
        let mut damaged = saved.clone();
        damage(&mut damaged);
        assert!(Estimator::restore(&damaged).is_none(), "{damaged:?}");
    }
}
