//! Tables of the sparse layout: one row a tick, the last write wins, times on the grid, nothing is
//! taken back.

use bedload::Snap;
use proptest::prelude::*;

use super::{Op, Own, Setting, Subject, op};
use crate::rows::{TestRow, batch};

fn own() -> impl Strategy<Value = Op> {
    let snap = prop_oneof![Just(Snap::Nearest), Just(Snap::Down)];
    let times = (-40_000..40_000i64, 0..30_000i64).prop_map(|(from, len)| from..=from + len);
    prop_oneof![
        2 => (prop::collection::vec(-3000..3000i64, 1..40), snap)
            .prop_map(|(times, snap)| Op::Own(Own::Snapped { times, snap })),
        // Neither end need be on the grid.
        2 => times.prop_map(|times| Op::Own(Own::DeleteBetween { times })),
        3 => (-300..300i64, 1..700i64).prop_map(|(from, rows)| Op::Fill { from, rows }),
        1 => (-20_000..20_000i64, 12_500..14_000i64).prop_map(|(from, rows)| Op::Fill { from, rows }),
        1 => Just(Op::Own(Own::Retract)),
    ]
}

/// Rows whose time a later one of them has.
pub(super) fn repeated(rows: &[TestRow]) -> u64 {
    let mut times: Vec<i64> = rows.iter().map(|row| row.time).collect();
    times.sort_unstable();
    times.dedup();
    (rows.len() - times.len()) as u64
}

impl Subject {
    pub(super) fn append_snapped(&mut self, times: Vec<i64>, snap: Snap) -> Result<(), TestCaseError> {
        let (interval, epoch) = match self.setting {
            Setting::Sparse { interval, epoch } => (interval, epoch),
            Setting::Indexed => (1, 0),
        };
        let mut rows = self.numbered(times.into_iter());
        let place = |time: i64| {
            let down = epoch + (time - epoch).div_euclid(interval) * interval;
            match snap {
                Snap::Down => down,
                _ if 2 * (time - down) >= interval => down + interval,
                _ => down,
            }
        };
        let off = rows.iter().filter(|row| place(row.time) != row.time).count();
        if off > 0 {
            let refused = self.table().append(&batch(&rows)).expect_err("off the grid");
            prop_assert!(matches!(refused, bedload::Error::OffGrid { .. }), "{}", refused);
        }
        let appended = self.table().snapping(snap).append(&batch(&rows));
        let appended = appended.expect("snapped");
        prop_assert_eq!(appended.moved, off as u64);
        for row in &mut rows {
            row.time = place(row.time);
        }
        self.appended(rows, appended)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_sparse_table_answers_like_the_model(
        ops in prop::collection::vec(op(own()), 1..50),
        setting in prop_oneof![
            Just(Setting::Sparse { interval: 1, epoch: 0 }),
            Just(Setting::Sparse { interval: 60, epoch: 0 }),
            Just(Setting::Sparse { interval: 7, epoch: -23 }),
            Just(Setting::Sparse { interval: 86_400_000, epoch: 3_600_000 }),
        ],
        background: bool,
    ) {
        let mut subject = Subject::new(setting, background);
        for op in ops {
            subject.apply(op)?;
        }
        subject.finish()?;
    }
}
