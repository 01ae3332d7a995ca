//! Bedload as a PostgreSQL index access method: `CREATE INDEX … USING bedload (column)`.
//!
//! | | |
//! |---|---|
//! | `am` | what PostgreSQL calls: building, inserting, scanning, VACUUM, planning |
//! | `pending` | entries that wait for the end of their transaction, and when they must not |
//! | `index` | the meta page, the head and the tree: the seam between the two above and the design below |
//! | `reader` | ranges of an index, window by window |
//! | `head` | pages that collect the entries of small transactions until there are enough for a run |
//! | `pages` | a page store on PostgreSQL's buffers and WAL |
//! | `check` | functions for SQL: the check of an index, and its size |
//! | `order`, `advise` | functions for SQL: how far rows are from an index's order, and who would gain |
//! | `opened` | an index that a function for SQL was asked about |
//! | `worker` | the background worker of an index, which does the merges that commits have made due |
//! | `sorter` | records sorted by the server, for the check |
//! | `key` | entries: keys of one column or several, payloads, addresses of rows |
//! | `interrupts` | where a cancelled statement ends, and sorts that can be cancelled |
//! | `compat`, `error`, `list`, `locks` | where versions of the server differ; its errors, its lists and its locks |

#![expect(unsafe_code, reason = "symbols that the server looks up are exported by name")]

mod advise;
mod am;
mod check;
mod compat;
mod error;
#[cfg(feature = "harness")]
mod harness;
mod head;
#[cfg(feature = "harness")]
mod hooks;
mod index;
mod interrupts;
mod key;
mod list;
mod locks;
mod opened;
mod order;
mod pages;
mod pending;
mod reader;
mod sorter;
mod worker;

pgrx::pg_module_magic!();

/// Called by the server when it loads the module.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    am::options::register();
    pending::init();
    worker::init();
}

/// Tells the server that it calls `bedload_handler` by its version-1 convention.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_bedload_handler() -> &'static pgrx::pg_sys::Pg_finfo_record {
    const VERSION_1: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// The handler of the access method, as SQL knows it.
#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn bedload_handler(_call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
    am::routine().into()
}
