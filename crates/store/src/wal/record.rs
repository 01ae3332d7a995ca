//! Records of the log: their frame, and what they say. Format: docs/format.md, "Log".

use std::ops::RangeInclusive;

use super::buffer::Buffer;
use crate::codec::{Reader, Writer};
use crate::rows::{
    BatchRows, BlockRef, Deletion, EncodedRows, PackedRows, Place, TableId, UNPACKED_BYTES_MAX,
};

/// Bytes of the frame before the body: checksum, length of the body, position, synced position.
pub(super) const FRAME_BYTES: usize = 24;
/// The longest body a record may have. In tests, batches exceed it.
pub(crate) const BODY_BYTES_MAX: usize = if cfg!(test) { 8 << 20 } else { 1 << 30 };
// A batch that is packed for its record is not too long to be unpacked.
const _: () = assert!(BODY_BYTES_MAX <= UNPACKED_BYTES_MAX);

/// A commit.
#[derive(Debug)]
pub(crate) enum Record {
    /// Rows of one batch.
    Append {
        /// Their table.
        table: TableId,
        /// The sequence number of the first one; the others follow it.
        first_sequence: u64,
        /// The rows.
        rows: BatchRows,
    },
    /// Rows of one batch for a sparse table, most of which stand in blocks.
    Blocks {
        /// Their table.
        table: TableId,
        /// The sequence number of the first of the rest; the others follow it, and then the blocks.
        first_sequence: u64,
        /// The rows that are in no block.
        rest: EncodedRows,
        /// The blocks, each of which counts as one write and has one sequence number.
        blocks: Vec<(i64, BlockRef)>,
    },
    /// Rows declared gone.
    Delete {
        /// Their table.
        table: TableId,
        /// Which ones.
        deletion: Deletion,
    },
    /// Single rows that others of the same commit replace, from a sequence number on.
    Replace {
        /// Their table.
        table: TableId,
        /// The sequence number.
        at: u64,
        /// Their places, ascending.
        places: Vec<Place>,
    },
    /// Rows of an earlier record, which are not in the checkpoint whose log begins at `segment`.
    Held {
        /// Their table.
        table: TableId,
        /// The position at which the segment of the record begins.
        segment: u64,
        /// Their sequence numbers, in the order of the rows.
        sequences: Vec<u64>,
        /// The rows, by time and sequence number.
        rows: EncodedRows,
    },
    /// The changes of one commit to several tables, or rows of several that were held back, in
    /// their order. All of it counts, or nothing.
    Group(Vec<Self>),
    /// Changes nothing. It is written before a checkpoint that no other record makes necessary, to
    /// move the log's end: a store that has lost the newest superblock then finds that the log
    /// before it is gone. It is also written when the store is closed, to vouch for the records
    /// before it.
    NoOp,
}

const APPEND: u8 = 1;
const DELETE: u8 = 2;
const NO_OP: u8 = 3;
const BLOCKS: u8 = 4;
const GROUP: u8 = 5;
const HELD: u8 = 6;
const PACKED: u8 = 7;
const REPLACE: u8 = 8;
/// Bytes of the head of a record with rows: kind, table, first sequence number.
const ROWS_HEAD_BYTES: usize = 16;

impl Record {
    /// Returns the records to apply, in order: the parts of a group, or the record itself.
    pub(crate) fn into_parts(self) -> Vec<Self> {
        match self {
            Self::Group(parts) => parts,
            record => vec![record],
        }
    }

    /// The head of the body of a record that appends rows, which follow it.
    pub(crate) fn append_head(table: TableId, first_sequence: u64) -> Vec<u8> {
        rows_head(APPEND, table, first_sequence).into_bytes()
    }

    /// As [`append_head`](Self::append_head), for rows that are packed.
    pub(crate) fn packed_head(table: TableId, first_sequence: u64) -> Vec<u8> {
        rows_head(PACKED, table, first_sequence).into_bytes()
    }

    /// The head of the body of a record that appends these rows, which follow it.
    pub(crate) fn head_of(table: TableId, first_sequence: u64, rows: &BatchRows) -> Vec<u8> {
        match rows {
            BatchRows::Plain(_) => Self::append_head(table, first_sequence),
            BatchRows::Packed(_) => Self::packed_head(table, first_sequence),
        }
    }

    /// The head of the body of a record that appends blocks, and rows besides, which follow it.
    pub(crate) fn blocks_head(
        table: TableId,
        first_sequence: u64,
        blocks: impl ExactSizeIterator<Item = (i64, BlockRef)>,
    ) -> Vec<u8> {
        let mut out = rows_head(BLOCKS, table, first_sequence);
        out.u32(u32::try_from(blocks.len()).expect("a batch has fewer rows"));
        for (number, block) in blocks {
            out.i64(number);
            block.encode(&mut out);
        }
        out.into_bytes()
    }

    /// The body of the record that makes a deletion.
    pub(crate) fn delete_body(table: TableId, deletion: &Deletion) -> Vec<u8> {
        let mut out = Writer::with_capacity(64);
        out.u8(DELETE);
        out.u32(table.0);
        out.i64(*deletion.times.start());
        out.i64(*deletion.times.end());
        out.u64(deletion.from_sequence);
        out.u64(deletion.at);
        out.into_bytes()
    }

    /// The body of the record of rows that are replaced: their places, ascending.
    pub(crate) fn replace_body(table: TableId, at: u64, places: &[Place]) -> Vec<u8> {
        let mut out = rows_head(REPLACE, table, at);
        for &(time, sequence) in places {
            out.i64(time);
            out.u64(sequence);
        }
        out.into_bytes()
    }

    /// The head of the body of a record of rows that were held back, which follow it.
    pub(crate) fn held_head(table: TableId, segment: u64, sequences: &[u64]) -> Vec<u8> {
        let mut out = rows_head(HELD, table, segment);
        out.u64(sequences.len() as u64);
        sequences.iter().for_each(|&sequence| out.u64(sequence));
        out.into_bytes()
    }

    /// The head of the body of a record of several, whose bodies have these lengths and follow it.
    pub(crate) fn group_head(lengths: &[usize]) -> Vec<u8> {
        let mut out = Writer::with_capacity(8 + 4 * lengths.len());
        out.u8(GROUP);
        out.bytes(&[0; 3]);
        for number in std::iter::once(&lengths.len()).chain(lengths) {
            out.u32(u32::try_from(*number).expect("bounded by BODY_BYTES_MAX"));
        }
        out.into_bytes()
    }

    /// The body of a record that commits nothing.
    pub(crate) fn no_op_body() -> Vec<u8> {
        vec![NO_OP]
    }

    /// Whether it has rows that are held back from a checkpoint.
    pub(crate) fn holds_back(&self) -> bool {
        match self {
            Self::Held { .. } => true,
            Self::Group(parts) => parts.iter().any(Self::holds_back),
            _ => false,
        }
    }

    /// The record whose body is `body`, or what is wrong with it.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Reader::new(body);
        let short = "its body is cut short";
        let kind = fields.u8().ok_or(short)?;
        let record = match kind {
            APPEND | PACKED => {
                let (table, first_sequence) = read_rows_head(&mut fields).ok_or(short)?;
                let rows = fields.rest();
                Self::Append {
                    table,
                    first_sequence,
                    rows: match kind {
                        PACKED => BatchRows::Packed(PackedRows::parse(rows)?),
                        _ => BatchRows::Plain(EncodedRows::parse(rows)?),
                    },
                }
            }
            BLOCKS => {
                let (table, first_sequence) = read_rows_head(&mut fields).ok_or(short)?;
                let count = fields.u32().ok_or(short)?;
                let block = |_| {
                    let number = fields.i64().ok_or(short)?;
                    let block = BlockRef::decode(&mut fields).ok_or(short)?;
                    Ok((number, block.ok_or("it names a block without rows")?))
                };
                Self::Blocks {
                    table,
                    first_sequence,
                    blocks: (0..count).map(block).collect::<Result<_, &'static str>>()?,
                    rest: EncodedRows::parse(fields.rest())?,
                }
            }
            DELETE => {
                let mut delete = || {
                    let table = TableId(fields.u32()?);
                    let times: RangeInclusive<i64> = fields.i64()?..=fields.i64()?;
                    let (from_sequence, at) = (fields.u64()?, fields.u64()?);
                    Some(Self::Delete {
                        table,
                        deletion: Deletion {
                            times,
                            from_sequence,
                            at,
                        },
                    })
                };
                delete().ok_or(short)?
            }
            REPLACE => {
                let (table, at) = read_rows_head(&mut fields).ok_or(short)?;
                let mut places: Vec<Place> = Vec::new();
                while !fields.is_empty() {
                    places.push(fields.i64().zip(fields.u64()).ok_or(short)?);
                }
                if !places.is_sorted_by(|before, after| before < after) {
                    return Err("the rows that it replaces are not in order");
                }
                if places.iter().any(|&(_, sequence)| sequence >= at) {
                    return Err("it replaces rows that come after it");
                }
                Self::Replace { table, at, places }
            }
            HELD => {
                let (table, segment) = read_rows_head(&mut fields).ok_or(short)?;
                let count = fields.u64().ok_or(short)?;
                let sequences = (0..count).map(|_| fields.u64().ok_or(short));
                Self::Held {
                    table,
                    segment,
                    sequences: sequences.collect::<Result<_, _>>()?,
                    rows: EncodedRows::parse(fields.rest())?,
                }
            }
            GROUP => {
                let padding = fields.array().filter(|padding| *padding == [0; 3]);
                let count = padding.and_then(|_| fields.u32()).ok_or(short)?;
                let lengths = (0..count).map(|_| fields.u32().ok_or(short));
                let lengths: Vec<u32> = lengths.collect::<Result<_, _>>()?;
                let part = |length: u32| {
                    let body = fields.bytes(length as usize).ok_or(short)?;
                    // Checked before it is read: groups within groups would recurse as deep as the
                    // record says.
                    match body.first() {
                        Some(&(APPEND | PACKED | DELETE | REPLACE | HELD)) => Self::decode(body),
                        _ => Err("a part of it is none of a commit"),
                    }
                };
                Self::Group(lengths.into_iter().map(part).collect::<Result<_, _>>()?)
            }
            NO_OP => Self::NoOp,
            _ => return Err("its kind is unknown"),
        };
        if fields.is_empty() {
            Ok(record)
        } else {
            Err("its body is too long")
        }
    }
}

fn rows_head(kind: u8, table: TableId, first_sequence: u64) -> Writer {
    let mut out = Writer::with_capacity(ROWS_HEAD_BYTES);
    out.u8(kind);
    out.bytes(&[0; 3]);
    out.u32(table.0);
    out.u64(first_sequence);
    out
}

/// The fields after the kind.
fn read_rows_head(fields: &mut Reader<'_>) -> Option<(TableId, u64)> {
    fields.array().filter(|padding| *padding == [0; 3])?;
    Some((TableId(fields.u32()?), fields.u64()?))
}

/// Appends a framed record that stands at `position`, written when everything before `synced` was
/// durable. Its body is in parts.
pub(super) fn frame(out: &mut Buffer, position: u64, synced: u64, body: &[&[u8]]) {
    let begin = out.len();
    let len: usize = body.iter().map(|part| part.len()).sum();
    let len = u32::try_from(len).expect("bounded by BODY_BYTES_MAX");
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    body.iter().for_each(|part| out.extend_from_slice(part));
    let crc = crc32c::crc32c(&out[begin + 4..]);
    out[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_within_groups_are_refused_however_deep_they_are() {
        let mut parts = vec![Record::no_op_body()];
        let mut len = parts[0].len();
        for _ in 0..200_000 {
            parts.push(Record::group_head(&[len]));
            len += parts[parts.len() - 1].len();
        }
        let body: Vec<u8> = parts.into_iter().rev().flatten().collect();
        assert!(Record::decode(&body).is_err());
    }

    #[test]
    fn replaced_rows_are_in_order_and_come_before_their_record() {
        let body = |places: &[Place]| Record::replace_body(TableId(7), 30, places);
        let places = [(-5, 3), (-5, 29), (8, 0)];
        match Record::decode(&body(&places)) {
            Ok(Record::Replace {
                table,
                at,
                places: read,
            }) => {
                assert_eq!((table, at, &read[..]), (TableId(7), 30, &places[..]));
            }
            other => panic!("{other:?}"),
        }
        for wrong in [[(8, 1), (8, 1)], [(8, 1), (-8, 2)], [(8, 1), (9, 30)]] {
            assert!(Record::decode(&body(&wrong)).is_err(), "{wrong:?}");
        }
        let whole = body(&places);
        for len in (0..whole.len()).filter(|len| len % 16 != 0) {
            assert!(Record::decode(&whole[..len]).is_err(), "cut to {len} bytes");
        }
    }
}
