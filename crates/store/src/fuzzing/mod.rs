//! Functions that fuzzers call, and the tests that go through their corpora: each reader of bytes
//! as a function of bytes, which must return. Compiled for those two only.

mod image;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::codec::Reader;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::engine::lock_holder;
use crate::pages::{CatalogueText, Superblock};
use crate::table::Catalogue;
use crate::wal::{Log, LogRemains, Record, replay};

pub use image::store;

/// Bytes of a page that a tree may use.
const PAYLOAD_LEN: usize = 4064;

/// A superblock, with the checksum that it has and with the one that it should have.
pub fn superblock(data: &[u8]) {
    let path = Path::new("data");
    let _ = Superblock::decode(path, 0, data);
    let mut bytes = data.to_vec();
    bytes.resize(4092, 0);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    if let Ok(read) = Superblock::decode(path, 0, &bytes) {
        let again = Superblock::decode(path, 0, &read.encode()).expect("what was written");
        assert_eq!(read, again);
    }
}

/// The text of a lock file.
pub fn lock(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(pid) = lock_holder(&text) {
        assert!(text.starts_with(&format!("process {pid} ")));
    }
}

/// A catalogue.
pub fn catalogue(data: &[u8]) {
    let path = Path::new("data");
    let text = CatalogueText {
        next_table: 0,
        parts: BTreeMap::from([(0, data.into())]),
    };
    if let Ok(read) = Catalogue::decode(path, &text, PAYLOAD_LEN) {
        let text = read.encode();
        let again = Catalogue::decode(path, &text, PAYLOAD_LEN).expect("what was written");
        assert_eq!(again.encode(), text);
    }
}

/// The body of a record of the log.
pub fn record(data: &[u8]) {
    if let Ok(read) = Record::decode(data) {
        assert_eq!(body_of(&read), data, "what is read is what was written");
    }
}

/// The body of a record, as it is written.
fn body_of(record: &Record) -> Vec<u8> {
    let (mut body, rows) = match record {
        Record::Append {
            table,
            first_sequence,
            rows,
        } => {
            let mut body = Record::head_of(*table, *first_sequence, rows);
            body.extend_from_slice(rows.bytes());
            let _ = rows.decode(&image::schema());
            (body, None)
        }
        Record::Delete { table, deletion } => (Record::delete_body(*table, deletion), None),
        Record::Replace { table, at, places } => (Record::replace_body(*table, *at, places), None),
        Record::Blocks {
            table,
            first_sequence,
            rest,
            blocks,
        } => {
            let blocks = blocks.iter().copied();
            (Record::blocks_head(*table, *first_sequence, blocks), Some(rest))
        }
        Record::Held {
            table,
            segment,
            sequences,
            rows,
        } => (Record::held_head(*table, *segment, sequences), Some(rows)),
        Record::Group(parts) => {
            let bodies: Vec<Vec<u8>> = parts.iter().map(body_of).collect();
            let lengths: Vec<usize> = bodies.iter().map(Vec::len).collect();
            let head = Record::group_head(&lengths);
            (std::iter::once(head).chain(bodies).flatten().collect(), None)
        }
        Record::NoOp => (Record::no_op_body(), None),
    };
    if let Some(rows) = rows {
        body.extend_from_slice(rows.bytes());
        let _ = rows.decode(&image::schema());
    }
    body
}

/// A log of several segments. `data` is a sequence of a length of two bytes, an action byte, and as
/// many bytes: a record to be framed correctly, or bytes that replace a header or records.
pub fn log(data: &[u8]) {
    let disk = SimDisk::new(1);
    let dir = Path::new("/log");
    let store_id = [7; 16];
    disk.create_dir(dir).expect("a sound disk");
    let mut fields = Reader::new(data);
    let mut position = 0;
    while let Some([low, high, what]) = fields.array() {
        let Some(bytes) = fields.bytes(usize::from(u16::from_le_bytes([low, high]))) else {
            break;
        };
        let log = Log::begin(Arc::new(disk.clone()), dir.into(), store_id, position).expect("a sound disk");
        if what % 2 == 0 {
            position = log.append(bytes).expect("a sound disk");
            log.sync_to(position).expect("a sound disk");
        } else {
            let (newest, _) = disk.files().pop().expect("it was just created");
            let file = disk.open(&newest).expect("a sound disk");
            let offset = if what % 4 == 1 { 0 } else { 64 };
            file.write_at(offset, bytes).expect("a sound disk");
        }
    }
    let _ = replay(&disk, dir, store_id, 0..u64::MAX, |_, _, _| Ok(true));
    let remains = LogRemains::find(&disk, dir, &mut Vec::new()).expect("a sound disk");
    let _ = remains.replay(Some(store_id), (0, position), &mut Vec::new(), |_, _, _| Ok(()));
}

#[cfg(test)]
mod tests {
    use bedload_testkit::go_through_corpus;

    #[test]
    fn corpora_do_no_harm() {
        go_through_corpus("lock", super::lock);
        go_through_corpus("superblock", super::superblock);
        go_through_corpus("catalogue", super::catalogue);
        go_through_corpus("record", super::record);
        go_through_corpus("log", super::log);
        go_through_corpus("store", super::store);
    }
}
