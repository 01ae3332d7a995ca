//! Checks a run.

use std::ops::Deref;

use bedload_pages::{PageId, PageRead, Result};
use bedload_trees::be_tree::RunProblem;
use bedload_trees::run::Run;

use super::index::RunIndex;
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::{Place, Places};

/// Reads every value of a run and reports its damage.
pub(super) fn check<S: PageRead>(
    store: &S,
    run: &Run,
    kind: ColumnRuns,
    (low, high): (Option<Place>, Option<Place>),
) -> Result<Vec<RunProblem>> {
    let index = RunIndex::read(store, run, kind.owner)?;
    let mut problems = Vec::new();
    let mut wrong = |page: PageId, what: String| problems.push(RunProblem { page, what });
    let rows: u64 = index.leaves().iter().map(|leaf| u64::from(leaf.rows)).sum();
    if rows != run.entries {
        wrong(
            run.root,
            format!("its run has {rows} rows, and its node says {}", run.entries),
        );
    }
    let (first, last) = (Place::of_edge(run.first), Place::of_edge(run.last));
    let ends = index.leaves().first().zip(index.leaves().last());
    if ends.is_some_and(|(begin, end)| begin.first < first || end.last > last) {
        wrong(run.root, "its run has rows outside of its edges".into());
    }
    if ends.is_some_and(|(begin, end)| {
        low.is_some_and(|low| begin.first < low) || high.is_some_and(|high| end.last >= high)
    }) {
        wrong(run.root, "its run has rows outside of the node's interval".into());
    }
    for (number, entry) in index.leaves().iter().enumerate() {
        let checked = index.open(store, number).and_then(|leaf| check_leaf(&leaf, kind));
        match checked {
            Ok(None) => {}
            Ok(Some(what)) => wrong(entry.page, what.into()),
            Err(bedload_pages::Error::Corrupt { page, reason }) => wrong(page, reason.into()),
            Err(error) => wrong(entry.page, error.to_string()),
        }
    }
    Ok(problems)
}

/// Checks an open leaf; returns the first fault.
fn check_leaf<G: Deref<Target = [u8]>>(leaf: &RunLeaf<G>, kind: ColumnRuns) -> Result<Option<&'static str>> {
    leaf.check()?;
    let rows = 0..leaf.rows();
    if !kind.admits(leaf.columns()) {
        return Ok(Some("its leaf has not the columns of its table"));
    }
    let header = leaf.header();
    let places = Places::new(leaf.times(kind.time, rows.clone())?, leaf.sequences(rows)?);
    let is_as_said = places.is_some_and(|places| {
        places.ascend()
            && (places.get(0), places.get(places.len() - 1)) == (header.first, header.last)
            && places.sequence_bounds() == Some((header.min_sequence, header.max_sequence))
    });
    Ok((!is_as_said).then_some("its leaf has rows out of order, or others than its header says"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Float64Type;
    use arrow_array::{
        ArrayRef, BooleanArray, Decimal128Array, Float64Array, PrimitiveArray, StringArray,
        TimestampSecondArray, UInt64Array,
    };
    use bedload_pages::Error;

    use super::super::leaf::LeafHeader;
    use super::*;
    use crate::bounds::{Bound, Bounds};
    use crate::directory::{ColumnDirectory, LeafDirectory};
    use crate::leaf::{EncodeOptions, encode};

    const TIME: usize = 0;
    const FLOAT: usize = 1;
    const TEXT: usize = 2;
    const DECIMAL: usize = 3;
    const BOOLEAN: usize = 4;
    const NULLS: usize = 5;
    const SEQUENCE: usize = 6;

    fn columns() -> Vec<ArrayRef> {
        let floats: PrimitiveArray<Float64Type> = [Some(-f64::NAN), None, Some(2.5), Some(-0.0)]
            .into_iter()
            .collect();
        vec![
            Arc::new(TimestampSecondArray::from(vec![1, 2, 3, 4])),
            Arc::new(floats),
            Arc::new(StringArray::from(vec![
                "a string longer than the bounds of a directory",
                "b",
                "a string",
                "z and again longer than the bounds of a directory",
            ])),
            Arc::new(Decimal128Array::from(vec![5, -3, i128::MAX, 0])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(true), None])),
            Arc::new(Float64Array::from(vec![None; 4])),
            Arc::new(UInt64Array::from(vec![7, 8, 9, 10])),
        ]
    }

    /// A page with these columns, whose leaf is changed, and whose checksums are right again but
    /// for those that the change makes wrong.
    fn page_of(change: impl Fn(&mut [ColumnDirectory], &mut [u8])) -> Vec<u8> {
        let leaf = encode(&columns(), &EncodeOptions::default()).unwrap();
        let LeafDirectory {
            mut columns, bytes, ..
        } = leaf.directory;
        let mut chunks = leaf.bytes[bytes..].to_vec();
        for column in &mut columns {
            column.chunk = column.chunk.start - bytes..column.chunk.end - bytes;
        }
        change(&mut columns, &mut chunks);
        let mut bytes = Vec::new();
        LeafDirectory::put(4, &mut columns, &mut bytes);
        bytes.extend_from_slice(&chunks);
        let place = |time, sequence| Place { time, sequence };
        let header = LeafHeader {
            owner: 1,
            first_page: 1,
            generation: 1,
            rows: 4,
            first: place(1, 7),
            last: place(4, 10),
            min_sequence: 7,
            max_sequence: 10,
        };
        let mut page = Vec::new();
        header.put(bytes.len(), &mut page);
        page.extend_from_slice(&bytes);
        page
    }

    fn checked(page: &[u8]) -> Result<Option<&'static str>> {
        let leaf = RunLeaf::open(PageId::new(7).unwrap(), page)?;
        check_leaf(&leaf, ColumnRuns::new(1, SEQUENCE, TIME))
    }

    fn bounds(column: &mut ColumnDirectory) -> &mut Bounds {
        column.bounds.as_mut().unwrap()
    }

    #[test]
    fn a_leaf_must_be_what_its_directory_says() {
        assert!(matches!(checked(&page_of(|_, _| ())), Ok(None)));
        type Change = fn(&mut [ColumnDirectory], &mut [u8]);
        let changes: &[(Change, &str)] = &[
            (|columns, _| columns[FLOAT].crc ^= 1, "checksum of a column"),
            (|columns, _| columns[FLOAT].sorted = true, "in order"),
            (|columns, _| columns[DECIMAL].sorted = true, "in order"),
            (|columns, _| columns[TEXT].sorted = true, "in order"),
            // Above all, as if the column had no value but NaN.
            (
                |columns, _| bounds(&mut columns[FLOAT]).min = Bound::Int(0),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[FLOAT]).max = Some(Bound::Int(0)),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[TIME]).max = Some(Bound::Int(5)),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[TEXT]).min = Bound::Bytes(b"b".to_vec()),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[TEXT]).max = Some(Bound::Bytes(b"z".to_vec())),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[TEXT]).exact = true,
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[DECIMAL]).min = Bound::Bytes(vec![0x80; 16]),
                "least or greatest",
            ),
            (
                |columns, _| bounds(&mut columns[BOOLEAN]).min = Bound::Int(0),
                "least or greatest",
            ),
            (
                |columns, _| columns[NULLS].bounds = columns[FLOAT].bounds.clone(),
                "least or greatest",
            ),
            (|columns, _| columns[BOOLEAN].nulls = 1, "nulls"),
            (|columns, _| columns[FLOAT].nulls = 4, "nulls"),
        ];
        for (number, (change, expected)) in changes.iter().enumerate() {
            match checked(&page_of(change)) {
                Err(Error::Corrupt { reason, .. }) => {
                    assert!(reason.contains(expected), "{number}: {reason}")
                }
                other => panic!("{number} {expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn each_chunk_is_under_its_checksum() {
        let chunks = page_of(|_, _| ()).len();
        let end = columns().len();
        for column in 0..end {
            let page = page_of(|columns, chunks| chunks[columns[column].chunk.start] ^= 1);
            assert_eq!(page.len(), chunks);
            let told = checked(&page);
            assert!(
                matches!(&told, Err(Error::Corrupt { reason, .. }) if reason.contains("checksum of a column")),
                "{column}: {told:?}"
            );
        }
        let mut page = page_of(|_, _| ());
        // The checksum that ends the directory.
        let length = u32::from_le_bytes(page[84..88].try_into().unwrap()) as usize;
        page[80 + length - 1] ^= 1;
        let told = checked(&page);
        assert!(
            matches!(&told, Err(Error::Corrupt { reason, .. }) if reason.contains("checksum of the directory")),
            "{told:?}"
        );
    }
}
