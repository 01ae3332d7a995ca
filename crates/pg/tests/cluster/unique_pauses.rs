//! Checks of unique keys that are held up, and what others do meanwhile.

use crate::cluster::Cluster;
use crate::rows::{check, execute, number, until_one_waits};
use crate::unique::{finish, is_under_way, is_waiting, make_with_dead_row, start};

/// A session waits between its check of a key and the insertion, while another inserts the key.
#[test]
fn no_other_session_comes_between_check_and_insertion() {
    let cluster = Cluster::start();
    let (mut client, socket) = (cluster.client(), cluster.socket());
    for of in ["int8", "numeric", "text COLLATE \"en-x-icu\""] {
        execute(
            &mut client,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k {of}, id int8);
                 CREATE UNIQUE INDEX t_k ON t USING bedload (k); SELECT pg_advisory_lock(7)"
            ),
        );
        let first = start(
            &socket,
            "SET bedload.pause_before_insertion = 7; INSERT INTO t VALUES ('1', 1)",
        );
        until_one_waits(&mut client, || is_under_way(&first));
        let second = start(&socket, "INSERT INTO t VALUES ('1', 2)");
        assert!(is_waiting(&second), "the other has the key's lock");
        // Another key has another lock.
        execute(
            &mut cluster.client(),
            "SET lock_timeout = '30s'; INSERT INTO t VALUES ('2', 3)",
        );
        execute(&mut client, "SELECT pg_advisory_unlock(7)");
        assert_eq!(finish(&first), Ok(()));
        assert_eq!(finish(&second).expect_err("a duplicate")[0], "23505");
        assert_eq!(number(&mut client, "SELECT sum(id)::int8 FROM t"), 4);
        check(&mut client, "t_k");
    }
}

/// A check has found the entry of a dead row, whose address becomes that of a row of another key
/// before the check looks at it.
#[test]
fn a_row_in_the_place_of_a_dead_one_is_no_duplicate() {
    let cluster = Cluster::start();
    let (mut client, socket) = (cluster.client(), cluster.socket());
    for others in [1, 2000] {
        make_with_dead_row(&mut client, others);
        execute(&mut client, "SELECT pg_advisory_lock(7)");
        let inserting = start(
            &socket,
            "SET bedload.pause_before_judgement = 7; INSERT INTO t VALUES (1, 3)",
        );
        until_one_waits(&mut client, || is_under_way(&inserting));
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        execute(&mut client, "INSERT INTO t VALUES (5, 4)");
        let first = "SELECT count(*) FROM t WHERE ctid = '(0,1)' AND k = 5";
        assert_eq!(
            number(&mut client, first),
            1,
            "it has the address of the dead one"
        );
        execute(&mut client, "SELECT pg_advisory_unlock(7)");
        assert_eq!(finish(&inserting), Ok(()));
        check(&mut client, "t_k");
    }
}
