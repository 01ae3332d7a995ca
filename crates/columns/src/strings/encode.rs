//! Writes a chunk of byte strings.

use fsst::Compressor;

use super::{DICTIONARY, Distinct, PLAIN, SYMBOLS, dictionary};
use crate::bits::BLOCK;
use crate::ints::{Access, encode as encode_ints};
use crate::wire::{as_u32, as_u64, put_counted, put_length};

/// Fewer bytes than this are not worth a symbol table.
const SYMBOLS_FROM_BYTES: usize = 2048;

/// Appends a chunk of `strings`; returns its dictionary if it has one.
pub(crate) fn encode<'a>(strings: &[&'a [u8]], out: &mut Vec<u8>) -> Option<Distinct<'a>> {
    let distinct = dictionary::looks_few(strings).then(|| dictionary::distinct(strings));
    let Some(distinct) = distinct.flatten() else {
        encode_listed(strings, out);
        return None;
    };
    let mut entry_bytes = Vec::new();
    encode_listed(&distinct.entries, &mut entry_bytes);
    out.push(DICTIONARY);
    put_length(out, distinct.entries.len());
    put_counted(out, &entry_bytes);
    encode_ints(&distinct.indices, Access::Direct, out);
    Some(distinct)
}

/// Appends a chunk without a dictionary.
fn encode_listed(strings: &[&[u8]], out: &mut Vec<u8>) {
    let total: usize = strings.iter().map(|string| string.len()).sum();
    if total >= SYMBOLS_FROM_BYTES {
        // Training reads a sample; passing all slices would cost more than the training.
        let step = strings.len().div_ceil(4096);
        let compressor = Compressor::train(&strings.iter().step_by(step).copied().collect());
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(strings, &mut bytes, &mut ends);
        let lengths = compressor.symbol_lengths();
        let symbols: usize = lengths.iter().map(|length| 1 + usize::from(*length)).sum();
        if (bytes.len() + symbols) * 20 < total * 19 {
            out.push(SYMBOLS);
            out.push(u8::try_from(lengths.len()).expect("at most 255 symbols"));
            out.extend_from_slice(lengths);
            for (symbol, length) in compressor.symbol_table().iter().zip(lengths) {
                out.extend_from_slice(&symbol.to_u64().to_le_bytes()[..usize::from(*length)]);
            }
            put_list(&ends, &bytes, out);
            return;
        }
    }
    let mut end = 0;
    let ends: Vec<u64> = strings
        .iter()
        .map(|string| {
            end += as_u64(string.len());
            end
        })
        .collect();
    out.push(PLAIN);
    put_list(&ends, &strings.concat(), out);
}

/// Appends the lengths of strings, the offset of each block of them, and their bytes.
fn put_list(ends: &[u64], bytes: &[u8], out: &mut Vec<u8>) {
    let mut start = 0;
    let lengths: Vec<i64> = ends
        .iter()
        .map(|end| {
            let length = end - start;
            start = *end;
            length.cast_signed()
        })
        .collect();
    let mut length_bytes = Vec::new();
    encode_ints(&lengths, Access::Direct, &mut length_bytes);
    put_counted(out, &length_bytes);
    for block in 0..ends.len().div_ceil(BLOCK) {
        let start = if block == 0 { 0 } else { ends[block * BLOCK - 1] };
        let start = usize::try_from(start).expect("an offset in memory");
        out.extend_from_slice(&as_u32(start).to_le_bytes());
    }
    out.extend_from_slice(bytes);
}
