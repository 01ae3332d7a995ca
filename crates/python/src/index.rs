//! The index in memory, over arrays of keys and values.

use std::ops::Bound as Edge;

use bedload_memory::SbTree;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error;

/// Entries between two looks for Ctrl-C.
const ENTRIES_AT_ONCE: usize = 1 << 18;

/// How Python's allocator aligns objects.
const OBJECT_ALIGNMENT: usize = 16;

/// Keys and values.
type Entries<'py, K> = (Bound<'py, PyArray1<K>>, Bound<'py, PyArray1<u64>>);

/// A class of keys of one type.
macro_rules! index {
    ($class:ident, $key:ty) => {
        /// An ordered map in memory, for any number of threads.
        #[pyclass(frozen, module = "bedload._native")]
        pub(crate) struct $class {
            /// Boxed, as it is aligned to cache lines.
            index: Box<SbTree<$key>>,
        }

        const _: () = assert!(align_of::<$class>() <= OBJECT_ALIGNMENT);

        #[pymethods]
        impl $class {
            #[new]
            fn new() -> Self {
                let index = Box::default();
                Self { index }
            }

            fn insert(
                &self,
                py: Python<'_>,
                keys: PyReadonlyArray1<'_, $key>,
                values: PyReadonlyArray1<'_, u64>,
            ) -> PyResult<()> {
                let (keys, values) = (keys.as_array().to_vec(), values.as_array().to_vec());
                if keys.len() != values.len() {
                    return Err(error::schema(format!(
                        "{} keys and {} values: there must be a value for each key",
                        keys.len(),
                        values.len()
                    )));
                }
                for (keys, values) in keys
                    .chunks(ENTRIES_AT_ONCE)
                    .zip(values.chunks(ENTRIES_AT_ONCE))
                {
                    py.detach(|| {
                        keys.iter()
                            .zip(values)
                            .for_each(|(&key, &value)| self.index.insert(key, value))
                    });
                    py.check_signals()?;
                }
                Ok(())
            }

            /// Values of keys, and which of the keys are there.
            fn get<'py>(
                &self,
                py: Python<'py>,
                keys: PyReadonlyArray1<'_, $key>,
            ) -> (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<bool>>) {
                let keys = keys.as_array().to_vec();
                let (values, found): (Vec<u64>, Vec<bool>) = py.detach(|| {
                    let found = keys.iter().map(|&key| self.index.get(key));
                    found
                        .map(|value| (value.unwrap_or_default(), value.is_some()))
                        .unzip()
                });
                (values.into_pyarray(py), found.into_pyarray(py))
            }

            /// How many of the keys were there.
            fn remove(&self, py: Python<'_>, keys: PyReadonlyArray1<'_, $key>) -> usize {
                let keys = keys.as_array().to_vec();
                py.detach(|| {
                    keys.iter()
                        .filter(|&&key| self.index.remove(key).is_some())
                        .count()
                })
            }

            fn range<'py>(
                &self,
                py: Python<'py>,
                start: Option<$key>,
                stop: Option<$key>,
                limit: Option<usize>,
            ) -> Entries<'py, $key> {
                let bounds = (
                    start.map_or(Edge::Unbounded, Edge::Included),
                    stop.map_or(Edge::Unbounded, Edge::Excluded),
                );
                let (keys, values): (Vec<$key>, Vec<u64>) = py.detach(|| {
                    self.index
                        .range(bounds)
                        .take(limit.unwrap_or(usize::MAX))
                        .unzip()
                });
                (keys.into_pyarray(py), values.into_pyarray(py))
            }

            fn __len__(&self, py: Python<'_>) -> usize {
                py.detach(|| self.index.range(..).count())
            }
        }
    };
}

index!(IndexI64, i64);
index!(IndexU64, u64);
