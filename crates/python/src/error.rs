//! Errors of the store as exceptions of the package.

use std::io;

use bedload::Error;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The class of `bedload._errors` that tells a caller what can be done about an error.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "DiskError",
        Error::NoSpace { .. } => "NoSpaceError",
        Error::Corrupt { .. } | Error::Index(bedload_pages::Error::Corrupt { .. }) => "CorruptError",
        Error::NotAStore { .. } | Error::Irregular { .. } => "NotAStoreError",
        Error::AlreadyExists { .. } | Error::TableExists { .. } => "ExistsError",
        Error::NewerFormat { .. } => "NewerFormatError",
        Error::OlderFormat { .. } => "OlderFormatError",
        Error::Locked { .. } => "InUseError",
        Error::Inherited { .. } => "InheritedError",
        Error::NoSuchTable { .. } | Error::NoSuchColumn { .. } => "NotFoundError",
        Error::Schema { .. }
        | Error::NullTime { .. }
        | Error::OffGrid { .. }
        | Error::BeyondGrid { .. }
        | Error::InvalidOption { .. }
        | Error::RowTooLong { .. }
        | Error::TooLarge { .. } => "SchemaError",
        Error::ReadOnly { .. } | Error::Replaced { .. } => "ReadOnlyError",
        Error::OpenForReading { .. } => "OpenForReadingError",
        _ => "Error",
    }
}

/// An exception of this class of `bedload._errors`.
pub(crate) fn raise(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("bedload._errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, (message,)),
            Err(error) => error,
        }
    })
}

/// The exception of a store's error, with the same message.
pub(crate) fn of_store(error: Error) -> PyErr {
    let raised = raise(class_of(&error), error.to_string());
    let numbered = Python::attach(|py| match number_of(py, &error)? {
        None => Ok(()),
        // As an argument of the class it would change the message.
        Some(number) => raised.value(py).setattr("errno", number),
    });
    match numbered {
        Ok(()) => raised,
        Err(error) => error,
    }
}

/// The error of a batch, with its row counted from the first of all rows that were given.
pub(crate) fn moved(mut error: Error, rows_before: usize) -> Error {
    if let Error::NullTime { row, .. }
    | Error::OffGrid { row, .. }
    | Error::BeyondGrid { row, .. }
    | Error::RowTooLong { row, .. } = &mut error
    {
        *row += rows_before;
    }
    error
}

/// The operating system's number of an error, or of its source.
fn number_of<'py>(py: Python<'py>, error: &Error) -> PyResult<Option<Bound<'py, PyAny>>> {
    let source = match error {
        Error::Io { source, .. } => source,
        Error::NoSpace { .. } => return py.import("errno")?.getattr("ENOSPC").map(Some),
        _ => return Ok(None),
    };
    let number = source.raw_os_error().or_else(|| {
        let inner = source.get_ref()?.source()?;
        inner.downcast_ref::<io::Error>()?.raw_os_error()
    });
    number
        .map(|number| Ok(number.into_pyobject(py)?.into_any()))
        .transpose()
}

/// The exception of rows that do not fit.
pub(crate) fn schema(message: impl Into<String>) -> PyErr {
    raise("SchemaError", message.into())
}
