//! Bedload for Python: the classes that the package `bedload` wraps.
//!
//! Times are whole ticks here; the Python side of the package turns what people write into ticks.
//! Every call that may wait for the disk detaches from the interpreter, and calls that take long
//! look for Ctrl-C in between.

mod arrow_stream;
mod batch;
mod conform;
mod detached;
mod error;
mod handle;
mod index;
mod info;
mod interrupt;
mod moment;
mod numpy_columns;
mod order;
mod process;
mod python_values;
mod reports;
mod rows;
mod slices;
mod store;
mod table;
mod times;
mod values;
mod write_batch;

use pyo3::prelude::*;

/// The module `bedload._native`.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<store::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::Mark>()?;
    module.add_class::<write_batch::WriteBatch>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::Batches>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<index::IndexI64>()?;
    module.add_class::<index::IndexU64>()?;
    module.add_function(wrap_pyfunction!(store::open, module)?)?;
    module.add_function(wrap_pyfunction!(store::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    module.add_function(wrap_pyfunction!(store::salvage, module)?)?;
    module.add_function(wrap_pyfunction!(batch::batch_of_columns, module)?)?;
    module.add_function(wrap_pyfunction!(order::measure, module)?)?;
    module.add_function(wrap_pyfunction!(times::time_nanos, module)?)?;
    module.add_function(wrap_pyfunction!(times::time_tick, module)?)?;
    module.add_function(wrap_pyfunction!(times::duration_nanos, module)?)?;
    module.add_function(wrap_pyfunction!(times::day_nanos, module)?)?;
    module.add_function(wrap_pyfunction!(times::utc_nanos, module)?)?;
    Ok(())
}
