//! Damaged leaves give an error or other values, but never panic, nor take more memory than a leaf
//! may.

use arrow_array::ArrayRef;
use bedload_columns::{EncodeOptions, LeafDirectory, LeafReader, MAX_COLUMN_BYTES, encode};

use crate::generate::{Random, SHAPES, column, types};

fn read_all(bytes: &[u8]) -> bool {
    let Ok(reader) = LeafReader::open_unchecked(bytes) else {
        return false;
    };
    let rows = reader.rows();
    let mut sound = true;
    for column in 0..reader.directory().columns().len() {
        sound &= reader.directory().columns()[column].bounds().is_ok();
        sound &= reader.decode(column, 0..rows).is_ok();
        sound &= reader.decode(column, rows / 3..rows / 2).is_ok();
        for row in [0, rows / 2, rows.saturating_sub(1)] {
            sound &= row >= rows || reader.value_at(column, row).is_ok();
        }
    }
    sound
}

fn leaf(columns: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let columns: Vec<ArrayRef> = (0..columns)
        .map(|_| {
            let (data_type, shape) = (random.below(types().len()), random.below(SHAPES.len()));
            let nulls = [0, 0, 3, 40][random.below(4)];
            column(&types()[data_type], SHAPES[shape], 1500, nulls, random.next())
        })
        .collect();
    encode(&columns, &EncodeOptions::default()).unwrap().bytes
}

#[test]
fn damage_gives_errors_and_no_panic() {
    let rounds = std::env::var("BEDLOAD_TEST_OPERATIONS").map_or(20_000, |count| count.parse().unwrap());
    let mut random = Random(11);
    let mut refused = 0;
    let mut bytes = Vec::new();
    for round in 0..rounds {
        if round % 100 == 0 {
            bytes = leaf(3, random.next());
            assert!(read_all(&bytes));
        }
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = match random.below(3) {
                // The header of each chunk is near its front.
                0 => random.below(damaged.len().min(120)),
                _ => random.below(damaged.len()),
            };
            match random.below(4) {
                0 => damaged[at] ^= 1 << random.below(8),
                1 => damaged[at] = 0xff,
                2 => damaged[at] = random.next().to_le_bytes()[0],
                _ => {
                    let end = (at + random.below(40)).min(damaged.len());
                    damaged.drain(at..end);
                }
            }
            if damaged.is_empty() {
                damaged.push(0);
            }
        }
        let mut sound = false;
        let memory = allocation_counter::measure(|| sound = read_all(&damaged));
        assert!(memory.bytes_max < 3 * u64::try_from(MAX_COLUMN_BYTES).unwrap());
        refused += usize::from(!sound);
        if damaged != bytes {
            assert!(LeafReader::open(damaged.as_slice()).is_err(), "round {round}");
        }
    }
    assert!(
        refused * 5 > rounds,
        "damage went unnoticed too often: {refused} of {rounds}"
    );
}

#[test]
fn each_bit_of_a_leaf_is_under_a_checksum() {
    let bytes = leaf(2, 5);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(LeafReader::open(damaged.as_slice()).is_err(), "byte {at}");
        assert!(LeafReader::open(&bytes[..at]).is_err());
    }
}

#[test]
fn a_directory_is_read_without_its_leaf() {
    let bytes = leaf(3, 9);
    let whole = LeafDirectory::parse(&bytes).unwrap();
    assert_eq!(
        LeafDirectory::parse(&bytes[..whole.directory_bytes()]).unwrap(),
        whole
    );
    assert_eq!(whole.leaf_bytes(), bytes.len());
    assert!(LeafReader::open(&bytes[..whole.directory_bytes()]).is_err());
}

#[test]
fn a_width_that_a_leaf_cannot_hold_is_refused() {
    let nulls = arrow_array::new_null_array(&arrow_schema::DataType::FixedSizeBinary(300), 20_000);
    let mut bytes = encode(&[nulls], &EncodeOptions::default()).unwrap().bytes;
    assert!(LeafReader::open_unchecked(bytes.as_slice()).is_ok());
    assert_eq!(bytes[16..19], [40, 0xac, 0x02]);
    bytes[17..19].copy_from_slice(&[0xff, 0x7f]);
    assert!(LeafReader::open_unchecked(bytes.as_slice()).is_err());
}
