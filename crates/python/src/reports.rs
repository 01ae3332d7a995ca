//! Reports of checks and copies of a store, as dicts.

use bedload::{Problem, SalvageReport, SalvagedTable, VerifyReport};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::table::describe;

pub(crate) fn report_of<'py>(py: Python<'py>, report: &VerifyReport) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("pages", report.pages)?;
    told.set_item("blocks", report.blocks)?;
    told.set_item("rows", report.rows)?;
    told.set_item("log_records", report.log_records)?;
    told.set_item("problems", texts(&report.problems))?;
    Ok(told)
}

pub(crate) fn salvage_report_of<'py>(
    py: Python<'py>,
    report: &SalvageReport,
) -> PyResult<Bound<'py, PyDict>> {
    let tables = report.tables.iter().map(|table| table_of(py, table));
    let told = PyDict::new(py);
    told.set_item("complete", report.is_complete())?;
    told.set_item("tables", tables.collect::<PyResult<Vec<_>>>()?)?;
    told.set_item("log_records", report.log_records)?;
    told.set_item("problems", texts(&report.problems))?;
    Ok(told)
}

fn table_of<'py>(py: Python<'py>, table: &SalvagedTable) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("name", &table.name)?;
    told.set_item("rows", table.rows)?;
    told.set_item("missing", table.missing)?;
    let gaps: Vec<_> = table.gaps.iter().map(|gap| (gap.from, gap.to)).collect();
    told.set_item("gaps", gaps)?;
    let (_, _, unit, zone, _) = describe(table.schema.arrow().field(table.schema.time_column()));
    told.set_item("time_type", (unit, zone))?;
    Ok(told)
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
