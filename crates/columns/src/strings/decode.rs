//! Reads a chunk of byte strings.

use std::ops::Range;

use super::{DICTIONARY, ESCAPE, PLAIN, SYMBOLS};
use crate::bits::BLOCK;
use crate::error::{Error, Result, damaged};
use crate::ints::Ints;
use crate::limits::{MAX_COLUMN_BYTES, MAX_ROWS};
use crate::wire::Bytes;

/// A parsed chunk of byte strings.
#[derive(Clone, Debug)]
pub(crate) enum Strings<'a> {
    List(List<'a>),
    Dictionary { entries: List<'a>, indices: Ints<'a> },
}

/// Concatenated strings.
#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    count: usize,
    symbols: Option<Symbols<'a>>,
    lengths: Ints<'a>,
    starts: &'a [[u8; 4]],
    bytes: &'a [u8],
}

/// The lengths of symbols, and their concatenated bytes.
#[derive(Clone, Copy, Debug)]
struct Symbols<'a> {
    lengths: &'a [u8],
    bytes: &'a [u8],
}

/// Decoded strings in Arrow's form: string *i* lies between offsets *i* and *i* + 1.
#[derive(Debug)]
pub(crate) struct StringsDecoded {
    pub(crate) offsets: Vec<i32>,
    pub(crate) bytes: Vec<u8>,
}

impl<'a> Strings<'a> {
    /// Parses a chunk of `count` strings that takes all of `bytes`.
    pub(crate) fn parse(count: usize, bytes: &'a [u8]) -> Result<Self> {
        if bytes.first() != Some(&DICTIONARY) {
            return List::parse(count, bytes).map(Self::List);
        }
        let mut bytes = Bytes::new(&bytes[1..]);
        let entries = bytes.length()?;
        if entries > count {
            return damaged("a dictionary has more entries than rows");
        }
        let entries = List::parse(entries, bytes.counted()?)?;
        Ok(Self::Dictionary {
            entries,
            indices: Ints::parse(count, bytes.rest())?,
        })
    }

    /// Returns the strings of `rows`, which must lie within the chunk.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<StringsDecoded> {
        match self {
            Self::List(list) => list.decode(rows),
            Self::Dictionary { entries, indices } => {
                let indices = indices.decode(rows)?;
                if indices.len() < entries.count / 4 {
                    return entries.get_each(&indices);
                }
                entries.decode(0..entries.count)?.take(&indices)
            }
        }
    }

    /// Returns the string of one row, which must lie within the chunk.
    pub(crate) fn get(&self, row: usize) -> Result<Vec<u8>> {
        match self {
            Self::List(list) => list.get(row),
            Self::Dictionary { entries, indices } => entries.entry(indices.get(row)?),
        }
    }
}

impl<'a> List<'a> {
    fn parse(count: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut bytes = Bytes::new(bytes);
        let symbols = match bytes.u8()? {
            PLAIN => None,
            SYMBOLS => {
                let count = usize::from(bytes.u8()?);
                let lengths = bytes.take(count)?;
                if !lengths.iter().all(|length| (1..=8).contains(length)) {
                    return damaged("a symbol has no byte, or more than eight");
                }
                let total = lengths.iter().map(|length| usize::from(*length)).sum();
                Some(Symbols {
                    lengths,
                    bytes: bytes.take(total)?,
                })
            }
            _ => return damaged("a chunk of strings is of an unknown kind"),
        };
        let lengths = Ints::parse(count, bytes.counted()?)?;
        let starts = bytes.take(4 * count.div_ceil(BLOCK))?.as_chunks().0;
        Ok(Self {
            count,
            symbols,
            lengths,
            starts,
            bytes: bytes.rest(),
        })
    }

    fn start_of_block(&self, row: usize) -> Result<usize> {
        let start = self
            .starts
            .get(row / BLOCK)
            .map(|start| u32::from_le_bytes(*start) as usize);
        start.ok_or(Error::Damaged {
            what: "a string starts after the end of its chunk",
        })
    }

    /// Returns the offset of a row's stored form; `row` may be the number of rows, for the end.
    fn start(&self, row: usize) -> Result<usize> {
        let within = usize::try_from(self.lengths.sum_in_block(row)?).or(damaged("a length is negative"))?;
        Ok(self.start_of_block(row)?.saturating_add(within))
    }

    fn stored(&self, start: usize, length: i64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).or(damaged("a length is negative"))?;
        let bytes = self.bytes.get(start..).and_then(|bytes| bytes.get(..length));
        bytes.ok_or(Error::Damaged {
            what: "a string ends after the end of its chunk",
        })
    }

    fn get(&self, row: usize) -> Result<Vec<u8>> {
        let stored = self.stored(self.start(row)?, self.lengths.get(row)?)?;
        match self.symbols {
            None => Ok(stored.to_vec()),
            Some(symbols) => {
                let mut out = Vec::with_capacity(stored.len() * 4);
                let mut codes = stored.iter();
                while let Some(code) = codes.next() {
                    match code {
                        &ESCAPE => match codes.next() {
                            Some(byte) => out.push(*byte),
                            None => return damaged("a string ends within an escape"),
                        },
                        code => out.extend_from_slice(symbols.get(*code)?),
                    }
                }
                Ok(out)
            }
        }
    }

    /// Returns the dictionary string at an index.
    fn entry(&self, index: i64) -> Result<Vec<u8>> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.count);
        self.get(index.ok_or(Error::Damaged {
            what: "an index is beyond its dictionary",
        })?)
    }

    /// Returns the dictionary strings at indices, each looked up separately.
    fn get_each(&self, indices: &[i64]) -> Result<StringsDecoded> {
        let mut decoded = StringsDecoded {
            offsets: Vec::with_capacity(indices.len() + 1),
            bytes: Vec::new(),
        };
        decoded.offsets.push(0);
        for index in indices {
            decoded.bytes.extend_from_slice(&self.entry(*index)?);
            decoded.offsets.push(offset(decoded.bytes.len())?);
        }
        Ok(decoded)
    }

    fn decode(&self, rows: Range<usize>) -> Result<StringsDecoded> {
        let mut decoded = StringsDecoded {
            offsets: Vec::with_capacity(rows.len() + 1),
            bytes: Vec::new(),
        };
        decoded.offsets.push(0);
        if rows.is_empty() {
            return Ok(decoded);
        }
        let table = self.symbols.map(|symbols| symbols.table());
        let mut at = self.start(rows.start)?;
        self.lengths.for_each(rows, |lengths| {
            match &table {
                None => {
                    let start = at;
                    for length in lengths.iter() {
                        at += self.stored(at, *length)?.len();
                        decoded.offsets.push(offset(decoded.bytes.len() + (at - start))?);
                    }
                    decoded.bytes.extend_from_slice(&self.bytes[start..at]);
                }
                Some(table) => {
                    for length in lengths.iter() {
                        let stored = self.stored(at, *length)?;
                        at += stored.len();
                        table.decode(stored, &mut decoded.bytes)?;
                        decoded.offsets.push(offset(decoded.bytes.len())?);
                    }
                }
            }
            Ok(())
        })?;
        Ok(decoded)
    }
}

impl<'a> Symbols<'a> {
    fn get(&self, code: u8) -> Result<&'a [u8]> {
        let before = self.lengths.get(..usize::from(code));
        let start = before.map(|lengths| lengths.iter().map(|length| usize::from(*length)).sum::<usize>());
        let length = self
            .lengths
            .get(usize::from(code))
            .map(|length| usize::from(*length));
        let symbol = start
            .zip(length)
            .and_then(|(start, length)| self.bytes.get(start..start + length));
        symbol.ok_or(Error::Damaged {
            what: "a string has an unknown symbol",
        })
    }

    fn table(&self) -> Table {
        let mut table = Table {
            symbols: [[0; 8]; 256],
            lengths: [0; 256],
        };
        let mut bytes = self.bytes;
        for ((symbol, length), stored) in table.symbols.iter_mut().zip(&mut table.lengths).zip(self.lengths) {
            let (taken, rest) = bytes.split_at(usize::from(*stored));
            symbol[..taken.len()].copy_from_slice(taken);
            *length = *stored;
            bytes = rest;
        }
        table
    }
}

/// Symbols by code; unused codes have length 0.
struct Table {
    symbols: [[u8; 8]; 256],
    lengths: [u8; 256],
}

impl Table {
    fn decode(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut at = out.len();
        // Each code writes eight bytes; the next code overwrites the excess.
        out.resize(at + stored.len() * 8, 0);
        let mut codes = stored.iter();
        while let Some(code) = codes.next() {
            if *code == ESCAPE {
                let Some(byte) = codes.next() else {
                    return damaged("a string ends within an escape");
                };
                out[at] = *byte;
                at += 1;
                continue;
            }
            let length = self.lengths[usize::from(*code)];
            if length == 0 {
                return damaged("a string has an unknown symbol");
            }
            out[at..at + 8].copy_from_slice(&self.symbols[usize::from(*code)]);
            at += usize::from(length);
        }
        out.truncate(at);
        Ok(())
    }
}

/// Bytes copied at a time if all entries of a dictionary are short.
const SHORT: usize = 16;

impl StringsDecoded {
    /// Returns the strings at `indices`.
    fn take(&self, indices: &[i64]) -> Result<Self> {
        let entries = self.offsets.len() - 1;
        if !indices
            .iter()
            .all(|index| usize::try_from(*index).is_ok_and(|index| index < entries))
        {
            return damaged("an index is beyond its dictionary");
        }
        let bounds = |index: &i64| {
            let index = usize::try_from(*index).expect("checked above");
            let bound = |at: usize| usize::try_from(self.offsets[at]).expect("offsets are not negative");
            bound(index)..bound(index + 1)
        };
        let mut offsets = Vec::with_capacity(indices.len() + 1);
        offsets.push(0);
        let mut total = 0;
        for index in indices {
            total += bounds(index).len();
            offsets.push(offset(total)?);
        }
        let short: Option<Vec<[u8; SHORT]>> = (0..i64::try_from(entries).expect("at most 65,536"))
            .map(|index| {
                let mut padded = [0; SHORT];
                let entry = &self.bytes[bounds(&index)];
                padded.get_mut(..entry.len())?.copy_from_slice(entry);
                Some(padded)
            })
            .collect();
        let Some(short) = short else {
            let mut bytes = Vec::with_capacity(total);
            for index in indices {
                bytes.extend_from_slice(&self.bytes[bounds(index)]);
            }
            return Ok(Self { offsets, bytes });
        };
        let mut bytes = vec![0; total + SHORT];
        for (index, start) in indices.iter().zip(&offsets) {
            let start = usize::try_from(*start).expect("offsets are not negative");
            let index = usize::try_from(*index).expect("checked above");
            bytes[start..start + SHORT].copy_from_slice(&short[index]);
        }
        bytes.truncate(total);
        Ok(Self { offsets, bytes })
    }
}

/// Converts a length to Arrow's offset, unless it exceeds a column's limit.
fn offset(length: usize) -> Result<i32> {
    match i32::try_from(length) {
        // Nulls may repeat short values.
        Ok(offset) if length <= MAX_COLUMN_BYTES + MAX_ROWS * SHORT => Ok(offset),
        _ => damaged("the strings of a column are longer than a leaf may hold"),
    }
}
