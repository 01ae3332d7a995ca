//! Tables under an index: rows at all times that there are, several at one, in the order of their
//! arrival; what was appended since a mark can be taken back.

use proptest::prelude::*;

use super::{Op, Own, Setting, Subject, op};
use crate::rows::TestRow;
use crate::rows::batch;

fn own() -> impl Strategy<Value = Op> {
    let time = prop_oneof![4 => 0..200i64, 1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)]];
    let times = (time.clone(), time.clone()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    let own = prop_oneof![
        2 => Just(Own::Mark),
        2 => Just(Own::Retract),
        1 => prop::collection::vec(time, 1..60).prop_map(|times| Own::AppendAt { times }),
        1 => times.prop_map(|times| Own::DeleteBetween { times }),
    ];
    own.prop_map(Op::Own)
}

impl Subject {
    pub(super) fn mark(&mut self) -> Result<(), TestCaseError> {
        let mark = self.table().mark();
        self.number += 1;
        let row = TestRow::numbered(1, self.number);
        let appended = self.table().append(&batch(std::slice::from_ref(&row)));
        let first = appended.expect("appends").first_sequence;
        self.rows.insert((row.time, first), row);
        self.mark = Some((mark, first));
        Ok(())
    }

    pub(super) fn retract(&mut self) -> Result<(), TestCaseError> {
        if let Some((mark, first)) = self.mark.take() {
            self.table().retract_since(mark).expect("retracts");
            self.rows.retain(|(_, sequence), _| *sequence < first);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_indexed_table_answers_like_the_model(
        ops in prop::collection::vec(op(own()), 1..80),
        background: bool,
    ) {
        let mut subject = Subject::new(Setting::Indexed, background);
        for op in ops {
            subject.apply(op)?;
        }
        subject.finish()?;
    }
}
