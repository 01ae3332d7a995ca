//! Records of the log: their frame, and what they say. Format: docs/format.md, "Log".

use std::ops::RangeInclusive;

use arrow_array::RecordBatch;
use bedload_trees::RowLayout;

use super::buffer::Buffer;
use crate::codec::{Reader, Writer};
use crate::error;
use crate::rows::{Deletion, RowBlock, TableId, TableSchema};
use crate::sparse::BlockRef;

/// Bytes of the frame before the body: checksum, length of the body, position, synced position.
pub(super) const FRAME_BYTES: usize = 24;
/// The longest body a record may have.
pub(super) const BODY_BYTES_MAX: usize = 1 << 30;

/// What was committed.
#[derive(Debug)]
pub(crate) enum Record {
    /// Rows of one batch.
    Append {
        /// Their table.
        table: TableId,
        /// The rows, the first of which has the block's first sequence number.
        block: RowBlock,
    },
    /// Rows of one batch for a sparse table, most of which stand in blocks.
    Blocks {
        /// Their table.
        table: TableId,
        /// The rows that are in no block. Their sequence numbers come first.
        rest: RowBlock,
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
    /// Nothing was committed. Before a checkpoint that no other record makes necessary it moves the log's end, so that
    /// a store which has lost the newest superblock finds that the log before it is gone; when the store is closed
    /// it vouches for the records before it.
    NoOp,
}

const APPEND: u8 = 1;
const DELETE: u8 = 2;
const NO_OP: u8 = 3;
const BLOCKS: u8 = 4;
/// Behind the kind and the table.
const FIRST_SEQUENCE_OFFSET: usize = 5;

impl Record {
    /// The body of the record that appends `block`.
    pub(crate) fn append_body(table: TableId, block: &RowBlock) -> Vec<u8> {
        let mut out = Writer::with_capacity(16 + block.encoded_len());
        out.u8(APPEND);
        out.u32(table.0);
        block.encode(&mut out);
        out.into_bytes()
    }

    /// As [`append_body`](Self::append_body) for the rows of a batch, with these times, in memory that was used before.
    pub(crate) fn append_batch_body(
        (table, schema): (TableId, &TableSchema),
        (batch, times): (&RecordBatch, &[i64]),
        row_limit: usize,
        memory: Vec<u8>,
    ) -> error::Result<Vec<u8>> {
        let mut out = Writer::reusing(memory, 64 + times.len() * (8 + schema.layout().fixed_len()));
        out.u8(APPEND);
        out.u32(table.0);
        RowBlock::encode_batch(schema, batch, times, row_limit, &mut out)?;
        Ok(out.into_bytes())
    }

    /// The body of the record that appends blocks, and rows besides.
    pub(crate) fn blocks_body(
        table: TableId,
        rest: &RowBlock,
        blocks: impl ExactSizeIterator<Item = (i64, BlockRef)>,
    ) -> Vec<u8> {
        let mut out = Writer::with_capacity(32 + rest.encoded_len() + 24 * blocks.len());
        out.u8(BLOCKS);
        out.u32(table.0);
        rest.encode(&mut out);
        out.u32(u32::try_from(blocks.len()).expect("a batch has fewer rows"));
        for (number, block) in blocks {
            out.i64(number);
            block.encode(&mut out);
        }
        out.into_bytes()
    }

    /// Sets the first sequence number in the body of an append, known only once the body is built.
    pub(crate) fn set_first_sequence(body: &mut [u8], first: u64) {
        body[FIRST_SEQUENCE_OFFSET..][..8].copy_from_slice(&first.to_le_bytes());
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

    /// The body of the record of a record that commits nothing.
    pub(crate) fn no_op_body() -> Vec<u8> {
        vec![NO_OP]
    }

    /// The record whose body is `body`, or what is wrong with it.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Reader::new(body);
        let short = "its body is cut short";
        let kind = fields.u8().ok_or(short)?;
        let record = match kind {
            APPEND => {
                let table = TableId(fields.u32().ok_or(short)?);
                let block = RowBlock::decode(&mut fields)?;
                Self::Append { table, block }
            }
            BLOCKS => {
                let table = TableId(fields.u32().ok_or(short)?);
                let rest = RowBlock::decode(&mut fields)?;
                let count = fields.u32().ok_or(short)?;
                let block = |_| {
                    let number = fields.i64().ok_or(short)?;
                    let block = BlockRef::decode(&mut fields).ok_or(short)?;
                    Ok((number, block.ok_or("it names a block without rows")?))
                };
                let blocks = (0..count).map(block).collect::<Result<_, &'static str>>()?;
                Self::Blocks { table, rest, blocks }
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

/// Appends a framed record that stands at `position`, written when everything before `synced` was durable.
pub(super) fn frame(out: &mut Buffer, position: u64, synced: u64, body: &[u8]) {
    let begin = out.len();
    let len = u32::try_from(body.len()).expect("bounded by BODY_BYTES_MAX");
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    out.extend_from_slice(body);
    let crc = crc32c::crc32c(&out[begin + 4..]);
    out[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
}
