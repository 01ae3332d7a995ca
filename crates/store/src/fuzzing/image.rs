//! A whole store whose bytes a fuzzer chooses.
//!
//! Checksums would stop a fuzzer at every page. So what it changes is the content: pages of trees,
//! the catalogue, the superblock, records of the log; the files are then made of it, with the
//! checksums that belong to it. Bytes of the files that are changed afterwards are damage in the
//! plain sense.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::codec::Reader;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::engine::{Engine, inspect, salvage};
use crate::options::Options;
use crate::pages::{Content, PageFile};
use crate::rows::TableSchema;
use crate::store::{Store, Table};
use crate::wal::{Log, replay};

const STORE: &str = "/store";
const PAGE_BYTES: usize = 4096;

/// Applies the changes in `data` to a small store, and does everything with it that can be done
/// with a store. A change is its kind, which item, an offset of two bytes, a length, and as many
/// bytes.
pub fn store(data: &[u8]) {
    let disk = image(data);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let _ = inspect(&shared, Path::new(STORE));
    if salvage(Arc::new(disk.clone()), Path::new(STORE), Path::new("/saved")).is_ok() {
        let saved = open(&disk, "/saved").expect("a new store");
        assert_eq!(saved.verify().expect("a new store").problems, []);
        use_tables(&saved);
    }
    for _ in 0..2 {
        let Ok(store) = open(&disk, STORE) else { break };
        use_tables(&store);
        let _ = store.info();
        let _ = store.verify();
        let _ = store.flush();
        if let Some(last) = store.tables().last() {
            let _ = store.drop_table(last);
        }
        let _ = store.close();
    }
}

fn use_tables(store: &Store) {
    for name in store.tables() {
        let table = store.table(&name).expect("it was just named");
        read(&table);
        let _ = table.append(&rows(2000..2003));
        let _ = table.delete_range(10..20);
    }
}

fn read(table: &Table) {
    if let Ok(scan) = table.range(..) {
        let _ = scan.count();
    }
    let Ok(scan) = table.range(5..5000) else { return };
    for batch in scan.rev().limit(10_000) {
        if batch.is_err() {
            break;
        }
    }
}

fn open(disk: &SimDisk, dir: &str) -> crate::Result<Store> {
    let options = Options::new().background(false).cache_bytes(1 << 20);
    Ok(Store::new(Engine::open(
        Arc::new(disk.clone()),
        Path::new(dir),
        options,
    )?))
}

fn rows(times: std::ops::Range<i64>) -> RecordBatch {
    let numbers = times.clone().map(|time| (time % 3 > 0).then_some(time));
    let texts = times.clone().map(|time| format!("row {time}"));
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(times)),
            Arc::new(Int64Array::from_iter(numbers)),
            Arc::new(StringArray::from_iter_values(texts)),
        ],
    )
    .expect("columns of one length")
}

/// The schema of the tables.
pub(super) fn schema() -> TableSchema {
    TableSchema::new(columns(), "at").expect("storable")
}

fn columns() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, false),
    ]))
}

/// The store that everything begins with: two tables, with rows in pages and in the log.
fn original() -> &'static (SimDisk, Content) {
    static ORIGINAL: OnceLock<(SimDisk, Content)> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let disk = SimDisk::new(1);
        let options = Options::new()
            .create(true)
            .background(false)
            .page_bytes(PAGE_BYTES);
        let engine = Engine::open(Arc::new(disk.clone()), Path::new(STORE), options).expect("a sound disk");
        let store = Store::new(engine);
        for name in ["a", "b"] {
            let table = store.create_table(name, schema()).expect("fresh");
            table.append(&rows(0..300)).expect("a sound disk");
            store.flush().expect("a sound disk");
            table.append(&rows(100..120)).expect("a sound disk");
        }
        drop(store);
        let path = Path::new(STORE).join("data");
        let content = Content::read(&path, disk.open(&path).expect("there")).expect("a sound store");
        (disk, content)
    })
}

/// The files of the changed store.
fn image(data: &[u8]) -> SimDisk {
    let (disk, content) = original();
    let (disk, mut content) = (disk.copy(), content.clone());
    let log_dir = Path::new(STORE).join("log");
    let (store_id, log_start) = (content.superblock.store_id, content.superblock.log_start);
    let mut log_end = replay(&disk, &log_dir, store_id, log_start..u64::MAX, |_, _, _| Ok(true))
        .expect("a sound log")
        .position;
    let mut fields = Reader::new(data);
    let mut damage = Vec::new();
    while let Some([what, which, low, high, len]) = fields.array() {
        let at = usize::from(u16::from_le_bytes([low, high]));
        let Some(bytes) = fields.bytes(usize::from(len)) else {
            break;
        };
        match what % 5 {
            0 => content.change_page(which.into(), at, bytes),
            1 => content.change_catalogue(at, bytes),
            2 => content.change_superblock(which, bytes),
            3 => {
                let log = Log::begin(Arc::new(disk.clone()), log_dir.clone(), store_id, log_end)
                    .expect("a sound disk");
                log_end = log.append(bytes).expect("a sound disk");
                log.sync_to(log_end).expect("a sound disk");
            }
            _ => damage.push((usize::from(which), at, bytes)),
        }
    }
    let path = Path::new(STORE).join("data");
    disk.remove(&path).expect("there");
    let file = disk.create(&path).expect("a sound disk");
    content
        .write(PageFile::new(path, file, PAGE_BYTES, 1))
        .expect("a sound disk");
    let files = disk.files();
    for (which, at, bytes) in damage {
        let (name, _) = &files[which % files.len()];
        let is_of_page = name.ends_with("data") && which > 127;
        let offset = if is_of_page { at + (64 << 10) } else { at };
        let file = disk.open(name).expect("there");
        file.write_at(offset as u64, bytes).expect("a sound disk");
    }
    disk
}
