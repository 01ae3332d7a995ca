//! Sizes of a store and its tables as dicts.

use bedload::{ArrivalOrder, Density, Estimate, Layout, StoreInfo, TableInfo};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::table::describe;

pub(crate) fn info_of<'py>(py: Python<'py>, info: &StoreInfo) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("path", &info.path)?;
    told.set_item("format_version", info.format_version)?;
    told.set_item("page_bytes", info.page_bytes)?;
    told.set_item("checkpoint", info.checkpoint)?;
    told.set_item("used_bytes", info.used_bytes)?;
    told.set_item("file_bytes", info.file_bytes)?;
    told.set_item("wal_bytes", info.wal_bytes)?;
    let tables = info.tables.iter().map(|table| table_of(py, table));
    told.set_item("tables", tables.collect::<PyResult<Vec<_>>>()?)?;
    Ok(told)
}

fn table_of<'py>(py: Python<'py>, table: &TableInfo) -> PyResult<Bound<'py, PyDict>> {
    let fields = table.schema.arrow().fields();
    let time = &fields[table.schema.time_column()];
    let (layout, interval) = match table.layout {
        Layout::Sparse(grid) => ("sparse", Some(grid.interval())),
        _ => ("indexed", None),
    };
    let columns = fields.iter().map(|field| {
        let column = PyDict::new(py);
        column.set_item("name", field.name())?;
        column.set_item("type", field.data_type().to_string())?;
        column.set_item("nullable", field.is_nullable())?;
        Ok(column)
    });
    let told = PyDict::new(py);
    told.set_item("name", &table.name)?;
    told.set_item("rows", table.rows)?;
    told.set_item("first", table.first)?;
    told.set_item("last", table.last)?;
    told.set_item("time", time.name())?;
    let (_, _, unit, zone, _) = describe(time);
    told.set_item("time_type", (unit, zone))?;
    told.set_item("key", table.schema.key_names())?;
    told.set_item("retention", table.retention)?;
    told.set_item("layout", layout)?;
    told.set_item("interval", interval)?;
    told.set_item("columns", columns.collect::<PyResult<Vec<_>>>()?)?;
    let order = table.order.as_ref().map(|order| order_of(py, order));
    told.set_item("arrival_order", order.transpose()?)?;
    let density = table.density.as_ref().map(|density| density_of(py, density));
    told.set_item("density", density.transpose()?)?;
    Ok(told)
}

fn order_of<'py>(py: Python<'py>, order: &ArrivalOrder) -> PyResult<Bound<'py, PyDict>> {
    let told = estimate_of(py, &order.total)?;
    told.set_item("window", estimate_of(py, &order.window)?)?;
    Ok(told)
}

fn estimate_of<'py>(py: Python<'py>, estimate: &Estimate) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("rows", estimate.rows)?;
    told.set_item("k", estimate.k)?;
    told.set_item("l", estimate.l)?;
    told.set_item("late", estimate.below_running_max)?;
    told.set_item("overlapping", estimate.overlapping)?;
    Ok(told)
}

fn density_of<'py>(py: Python<'py>, density: &Density) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("rows_per_block", density.rows_per_block)?;
    told.set_item("blocks", density.blocks)?;
    told.set_item("rows", density.rows)?;
    told.set_item("density", density.density())?;
    told.set_item("disk_bytes", density.disk_bytes)?;
    told.set_item("payload_bytes", density.payload_bytes)?;
    told.set_item("has_holes", density.has_holes)?;
    told.set_item("replaced", density.replaced)?;
    told.set_item("advised_below", density.advised_below)?;
    told.set_item("advises_indexed", density.advises_indexed())?;
    Ok(told)
}
