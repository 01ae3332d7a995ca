//! Indexes whose bytes are not what they should be.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use postgres::Client;
use postgres::error::SqlState;

use crate::cluster::Cluster;
use crate::memory::address_space;
use crate::rows::{Rng, check, create_table, execute, number, same_rows};
use crate::settings::setting;

/// The path of the file of a table or an index.
fn file_of(client: &mut Client, relation: &str) -> String {
    let query = "SELECT pg_relation_filepath($1::text::regclass)";
    client.query_one(query, &[&relation]).expect("a path").get(0)
}

/// Overwrites bytes of a file of a stopped cluster.
fn overwrite(cluster: &Cluster, file: &str, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new()
        .write(true)
        .open(cluster.data().join(file))
        .expect("the file of the index");
    file.write_all_at(bytes, at).expect("written");
}

#[test]
fn damage_and_foreign_formats_are_errors_that_say_what_to_do() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;",
    );
    // Format; magic; the root; the mark of the root's page; a leaf.
    let meta = 24;
    for (at, bytes, reason) in [
        (
            meta + 8,
            &[99, 0, 0, 0][..],
            "it has format 99.2, and this version of bedload reads format 4.2",
        ),
        (meta + 12, &[7, 0, 0, 0], "it has format 4.7"),
        (meta, b"nonsense", "block 0 is not the meta page"),
        (meta + 16, &[0; 4], "names no tree"),
        (meta + 16, &[0, 0, 0, 9], "does not exist"),
        (2 * 8192 - 2, &[0; 2], "it is not a page of a bedload index"),
        (3 * 8192 + 24, &[0xff; 200], "is damaged"),
    ] {
        let file = file_of(&mut client, "t_k");
        execute(&mut client, "CHECKPOINT");
        cluster.stop();
        assert!(fs::metadata(cluster.data().join(&file)).expect("the file").len() > 4 * 8192);
        overwrite(&cluster, &file, at, bytes);
        cluster.launch();
        client = cluster.client();
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off",
        );
        let found = client.query("SELECT id FROM t ORDER BY k", &[]);
        let error = found.expect_err("the index is damaged");
        let error = error.as_db_error().expect("the server says so");
        assert!(error.message().contains(reason), "{}", error.message());
        assert!(error.message().contains("t_k"), "{}", error.message());
        assert_eq!(error.hint(), Some("REINDEX INDEX t_k."));
        assert_eq!(error.code(), &SqlState::INDEX_CORRUPTED);
        execute(
            &mut client,
            "REINDEX INDEX t_k; RESET enable_seqscan; RESET enable_bitmapscan",
        );
        assert_eq!(same_rows(&mut client, "t", "true"), 20_000);
        check(&mut client, "t_k");
    }
}

/// An entry that leads to a row with another value is found by the check.
#[test]
fn the_check_finds_entries_of_other_rows() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; CHECKPOINT;",
    );
    let table = file_of(&mut client, "t");
    cluster.stop();
    let mut page = [0; 8192];
    let file = File::open(cluster.data().join(&table)).expect("the file of the table");
    file.read_exact_at(&mut page, 0).expect("its first page");
    // The row (100, 100) becomes (101, 100).
    let row = [100_u64.to_le_bytes(), 100_u64.to_le_bytes()].concat();
    let at = page
        .windows(16)
        .position(|window| window == row)
        .expect("the last row");
    overwrite(&cluster, &table, at as u64, &[101]);
    cluster.launch();
    client = cluster.client();
    assert_eq!(
        number(&mut client, "SELECT count(*) FROM bedload_check('t_k')"),
        2
    );
}

/// Bytes of a packed column of so many numbers, which begins here.
fn column_len(column: &[u8], count: usize) -> usize {
    24 + (count * usize::from(column[18])).div_ceil(8) + 8
}

/// `VACUUM` takes no memory for pages that are named and do not exist, and frees none that should
/// have been named in their stead.
#[test]
fn vacuum_names_a_page_that_does_not_exist() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i; CHECKPOINT",
    );
    let file = file_of(&mut client, "t_k");
    cluster.stop();
    let pages = fs::read(cluster.data().join(&file)).expect("the file of the index");
    // A page of a run, one level above its leaves; a column of pages is the fourth of its columns.
    let payloads = pages.chunks_exact(8192).map(|page| &page[24..]);
    let (block, node) = payloads
        .enumerate()
        .find(|(_, payload)| payload[..3] == [0xd2, 0xbe, 1])
        .expect("a node");
    let count = usize::from(u16::from_le_bytes([node[4], node[5]]));
    let at = (0..3).fold(24, |at, _| at + column_len(&node[at..], count));
    let first = 0xffff_0000_u64.to_le_bytes();
    overwrite(&cluster, &file, (block * 8192 + 24 + at) as u64, &first);
    cluster.launch();
    client = cluster.client();
    let before = address_space(&mut client, "VmPeak");
    let error = client
        .batch_execute("VACUUM t")
        .expect_err("the index is damaged");
    let error = error.as_db_error().expect("the server says so");
    assert!(
        error.message().contains("beyond the end of the file"),
        "{}",
        error.message()
    );
    assert_eq!(error.hint(), Some("REINDEX INDEX t_k."));
    let taken = address_space(&mut client, "VmPeak") - before;
    assert!(taken < 64 << 20, "{taken} bytes");
    execute(&mut client, "REINDEX INDEX t_k");
    execute(&mut client, "VACUUM t");
    check(&mut client, "t_k");
}

/// An index that was built when rows had newer versions on their pages lacks the versions that an
/// older snapshot sees: the server does not use it under that snapshot, and the check refuses.
#[test]
fn a_check_refuses_snapshots_older_than_the_index() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8) WITH (fillfactor = 50); INSERT INTO t VALUES (1, 1)",
    );
    execute(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    execute(
        &mut client,
        "UPDATE t SET k = 2; CREATE INDEX t_k ON t USING bedload (k)",
    );
    let built = "SELECT indcheckxmin::int::int8 FROM pg_index WHERE indexrelid = 't_k'::regclass";
    assert_eq!(number(&mut client, built), 1);
    let structure = "SELECT count(*) FROM bedload_check('t_k', heapallindexed => false)";
    assert_eq!(number(&mut other, structure), 0);
    let refused = other
        .query("SELECT bedload_check('t_k')", &[])
        .expect_err("the snapshot is older");
    assert_eq!(
        refused.code(),
        Some(&SqlState::T_R_SERIALIZATION_FAILURE),
        "{refused:?}"
    );
    let refused = refused.as_db_error().expect("the server says so");
    assert!(
        refused.message().contains("\"t_k\" cannot be checked"),
        "{}",
        refused.message()
    );
    assert!(refused.hint().is_some());
    execute(&mut other, "ROLLBACK");
    check(&mut other, "t_k");
    // A snapshot that came later sees what the index has.
    execute(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    check(&mut other, "t_k");
}

/// Whatever bytes of an index are damaged, statements end with rows or an error, and the server
/// stays.
#[test]
fn no_damaged_bytes_end_the_server() {
    let cluster = Cluster::start_with("statement_timeout = 60s");
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (n numeric, s text COLLATE \"en-x-icu\", b text COLLATE \"C\", f float8, at timestamptz);
         CREATE INDEX t_n ON t USING bedload (n DESC, s, b, f) INCLUDE (at);
         INSERT INTO t SELECT (i % 1000 - 500) * power(10::numeric, i % 7 - 3), md5((i % 300)::text), i, i / 7.0, now()
             FROM generate_series(1, 10000) i;
         INSERT INTO t SELECT n + 0.5, s, b, f, at FROM t LIMIT 500",
    );
    let scan = "SELECT count(n + 1) + count(upper(s)) + count(length(b)) + count(f * 2) + count(at) FROM t";
    let mut rng = Rng::new(7);
    let mut errors = 0;
    for round in 0..setting("BEDLOAD_PG_DAMAGED", 12) {
        let file = file_of(&mut client, "t_n");
        execute(&mut client, "VACUUM (INDEX_CLEANUP OFF) t");
        execute(&mut client, "CHECKPOINT");
        cluster.stop();
        let path = cluster.data().join(&file);
        let mut bytes = fs::read(&path).expect("the file of the index");
        // One page in so many, or bytes of every page but the first.
        for page in bytes.chunks_exact_mut(8192).skip(1) {
            if rng.below(1 + round % 4) == 0 {
                for _ in 0..1 + rng.below(4) {
                    let at = 24 + usize::try_from(rng.below(8192 - 24)).expect("short");
                    page[at] = u8::try_from(rng.below(256)).expect("a byte");
                }
            }
        }
        fs::write(&path, &bytes).expect("written");
        cluster.launch();
        client = cluster.client();
        let server = |client: &mut Client| {
            number(
                client,
                "SELECT extract(epoch FROM pg_postmaster_start_time())::int8",
            )
        };
        let begun = server(&mut client);
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off",
        );
        for statement in [
            &format!("{scan} WHERE n > -1e9"),
            &format!("{scan} WHERE n = 3 AND s > 'a'"),
            "SELECT count(*) FROM (SELECT n FROM t ORDER BY n DESC, s LIMIT 2000) a",
            "INSERT INTO t SELECT i, 'new', 'new', i, now() FROM generate_series(1, 300) i",
            "SELECT count(*) FROM bedload_check('t_n')",
            "DELETE FROM t WHERE s = 'new'",
            "VACUUM (INDEX_CLEANUP ON) t",
        ] {
            if let Err(error) = client.simple_query(statement) {
                let error = error
                    .as_db_error()
                    .unwrap_or_else(|| panic!("{statement}: {error:?}"));
                // The server itself finds that text is none, and that rows lie beyond their table.
                let is_known = error.code() == &SqlState::INDEX_CORRUPTED
                    || error.code() == &SqlState::CHARACTER_NOT_IN_REPERTOIRE
                    || error.file() == Some("md.c");
                assert!(is_known, "{statement}: {error:?}");
                errors += 1;
            }
        }
        assert_eq!(server(&mut client), begun, "the server has not restarted");
        execute(&mut client, "REINDEX INDEX t_n; DELETE FROM t WHERE s = 'new'");
        check(&mut client, "t_n");
    }
    assert!(errors > 0, "some of the damage is noticed");
}
