//! The contract as every index keeps it under test, where its nodes are so small that splits and
//! merges are common.

use bedload_testkit::contract::Plan;

/// So many operations; fewer under Miri, which runs some thousand times slower.
pub(crate) fn plan(operations: usize) -> Plan {
    let operations = if cfg!(miri) {
        operations.div_ceil(2_000)
    } else {
        operations
    };
    Plan { seed: 1, operations }
}

/// Tests of the index that `$subject` makes of keys of the testkit.
macro_rules! keeps_the_contract {
    ($subject:ident) => {
        mod contract {
            use bedload_testkit::contract::{
                ByteKeys, I64Keys, OneThread, U64Keys, check, check_ascending_writers,
                check_disjoint_writers, check_histories, check_ranges_over_writers, check_shrinking,
            };

            use super::$subject;
            use crate::map::small_nodes::plan;

            #[test]
            fn one_thread_with_integers() {
                check(|| OneThread($subject(U64Keys)), plan(160_000));
                check(|| OneThread($subject(I64Keys)), plan(40_000));
                check_shrinking(|| OneThread($subject(U64Keys)), plan(40_000));
            }

            #[test]
            fn one_thread_with_byte_strings() {
                check(|| OneThread($subject(ByteKeys::<5>)), plan(40_000));
                check(|| OneThread($subject(ByteKeys::<16>)), plan(40_000));
                check(|| OneThread($subject(ByteKeys::<32>)), plan(40_000));
            }

            #[test]
            fn disjoint_writers() {
                check_disjoint_writers(|| $subject(U64Keys), 4, plan(160_000));
                check_disjoint_writers(|| $subject(ByteKeys::<17>), 3, plan(40_000));
            }

            #[test]
            fn ascending_writers() {
                check_ascending_writers(|| $subject(U64Keys), 4, plan(40_000));
                check_ascending_writers(|| $subject(I64Keys), 2, plan(10_000));
            }

            #[test]
            fn ranges_over_writers() {
                check_ranges_over_writers(|| $subject(U64Keys), 2, 2, plan(60_000));
                check_ranges_over_writers(|| $subject(ByteKeys::<32>), 2, 2, plan(20_000));
            }

            #[test]
            fn histories_are_linearizable() {
                check_histories(|| $subject(U64Keys), 8, plan(160_000));
                check_histories(|| $subject(ByteKeys::<24>), 8, plan(40_000));
            }
        }
    };
}

pub(crate) use keeps_the_contract;
