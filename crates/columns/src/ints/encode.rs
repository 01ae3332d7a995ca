//! Writing a chunk of integers.

use super::block::{self, Scratch};
use super::{DICTIONARY, Order, STRIDE, dictionary};
use crate::bits::BLOCK;
use crate::wire::{as_u32, put_counted, put_length, put_signed, put_varint};

/// The packings that a chunk may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The smallest.
    Any,
    /// Only packings that find one value without reading others.
    Direct,
}

/// Blocks packed in each order to choose the smallest.
const SAMPLED_BLOCKS: usize = 3;

/// Appends a chunk of `values`.
pub(crate) fn encode(values: &[i64], access: Access, out: &mut Vec<u8>) {
    if let Some((first, stride)) = stride(values) {
        out.push(STRIDE);
        put_signed(out, first);
        put_signed(out, stride);
        return;
    }
    let scale = common_divisor(values);
    let mut scaled = Vec::new();
    let (reference, values) = match scale {
        1 => (0, values),
        _ => {
            let reference = values[0];
            scaled.extend(values.iter().map(|value| (value - reference) / scale));
            (reference, scaled.as_slice())
        }
    };
    let mut scratch = Scratch::new();
    let (order, cost) = best_order(values, access, &mut scratch);
    if access == Access::Any
        && cost * 8 > values.len()
        && dictionary::may_save(values, cost)
        && let Some((mut entries, indices)) = dictionary::distinct(values)
    {
        for entry in &mut entries {
            *entry = *entry * scale + reference;
        }
        let (mut entry_bytes, mut index_bytes) = (Vec::new(), Vec::new());
        encode(&entries, Access::Direct, &mut entry_bytes);
        encode(&indices, Access::Direct, &mut index_bytes);
        if (entry_bytes.len() + index_bytes.len()) * 20 < cost * 19 {
            out.push(DICTIONARY);
            put_length(out, entries.len());
            put_counted(out, &entry_bytes);
            out.extend_from_slice(&index_bytes);
            return;
        }
    }
    out.push(order.code());
    put_signed(out, reference);
    put_varint(out, scale.cast_unsigned());
    let offsets = out.len();
    let blocks = offsets + 4 * values.len().div_ceil(BLOCK);
    out.resize(blocks, 0);
    for (number, values) in values.chunks(BLOCK).enumerate() {
        let offset = as_u32(out.len() - blocks);
        out[offsets + 4 * number..][..4].copy_from_slice(&offset.to_le_bytes());
        block::encode(order, values, &mut scratch, out);
    }
}

/// Returns the first value and the difference of neighbours, if it is constant.
fn stride(values: &[i64]) -> Option<(i64, i64)> {
    let first = values.first().copied().unwrap_or(0);
    let second = values.get(1).copied().unwrap_or(first);
    let stride = second.wrapping_sub(first);
    let even = values
        .windows(2)
        .all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
    even.then_some((first, stride))
}

/// Returns the greatest common divisor of the distances between values; 1 if they may overflow.
fn common_divisor(values: &[i64]) -> i64 {
    let first = values[0];
    let mut divisor = 0;
    // Most columns have no divisor, and a few values show it.
    let step = values.len().div_ceil(64);
    for value in values.iter().step_by(step).chain(values) {
        let Some(distance) = value.checked_sub(first).and_then(i64::checked_abs) else {
            return 1;
        };
        if divisor == 0 || distance % divisor != 0 {
            divisor = greatest_common_divisor(divisor, distance);
            if divisor == 1 {
                return 1;
            }
        }
    }
    divisor
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the order that packs a sample of blocks smallest, and the estimated bytes of all.
fn best_order(values: &[i64], access: Access, scratch: &mut Scratch) -> (Order, usize) {
    let blocks = values.len().div_ceil(BLOCK);
    let step = blocks.div_ceil(SAMPLED_BLOCKS);
    let (mut bytes, mut sampled) = ([0; 3], 0);
    let orders = if access == Access::Direct {
        &Order::ALL[..1]
    } else {
        &Order::ALL
    };
    for values in values.chunks(BLOCK).skip(step / 2).step_by(step) {
        for (order, bytes) in orders.iter().zip(&mut bytes) {
            *bytes += block::cost(*order, values, scratch);
        }
        sampled += values.len();
    }
    // Each later order is slower to read, and must save 3 % for that.
    let mut best = 0;
    for order in 1..orders.len() {
        if bytes[order] * 100 < bytes[best] * 97 {
            best = order;
        }
    }
    (Order::ALL[best], bytes[best] * values.len() / sampled.max(1))
}
