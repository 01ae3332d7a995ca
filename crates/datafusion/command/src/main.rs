//! `bedload-sql`: answers a query in SQL over the tables of a store. `bedload sql` runs it.

mod failure;
mod memory;
mod plans;
mod spill;

use std::collections::HashSet;
use std::future::pending;
use std::io::Read;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use bedload::Store;
use bedload_cli::{
    Answer, Failure, Format, Result, catch_signals, first_signal, is_written_directly, open_to_read,
};
use bedload_datafusion::StoreSchema;
use clap::Parser;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::failure::of_query;
use crate::spill::SpillFiles;

/// Answer a query in SQL over the tables of a store, as they are when it begins. Another process
/// may be writing to it.
///
/// The dialect and the functions are those of DataFusion. Names are folded to lower case unless
/// they are quoted. SHOW TABLES lists the tables, EXPLAIN shows which parts of a query the store
/// answers.
#[derive(Debug, Parser)]
#[command(name = "bedload sql", version)]
struct Arguments {
    /// The store's directory
    store: PathBuf,

    /// The query; `-` reads it from standard input
    query: String,

    /// The format; by default that of the extension of --output, else table
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The text for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,

    /// A file to write instead of standard output, compressed if the name of a text ends in .gz
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Memory for sorting, grouping and joining, such as 512M or 2G; by default half of what is
    /// available. Sorting and grouping go on in temporary files in TMPDIR
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<usize>,
}

/// DataFusion walks a long chain of conditions with a call for each, and grows the stack for some
/// of these walks only. A stack takes no memory before it is used.
const STACK_BYTES: usize = 256 << 20;

fn main() -> ExitCode {
    bedload_cli::run(|arguments: Arguments| {
        let deep = thread::Builder::new().stack_size(STACK_BYTES);
        let answered = deep
            .spawn(move || answer(&arguments))
            .map_err(|error| Failure::io("the thread of the query".as_ref(), &error))?;
        answered.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn answer(arguments: &Arguments) -> Result<()> {
    let query = match arguments.query.as_str() {
        "-" => query_from_stdin()?,
        query => query.to_owned(),
    };
    let output = arguments.output.as_deref();
    let is_file = output.is_some_and(|path| !is_written_directly(path));
    if is_file {
        catch_signals()?;
    }
    let store = open_to_read(&arguments.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // They compute what is planned, and there may be many of them.
        .thread_stack_size(STACK_BYTES / 8)
        .build()
        .map_err(|error| Failure::io("the threads of the query".as_ref(), &error))?;
    let answered = runtime.block_on(async {
        let signalled = async {
            if is_file && let Ok(failure) = tokio::task::spawn_blocking(first_signal).await {
                return failure;
            }
            pending().await
        };
        tokio::select! {
            biased;
            failure = signalled => Err(failure),
            answered = write(arguments, &query, &store) => answered,
        }
    });
    // Threads still searching for unneeded rows end with the process.
    runtime.shutdown_background();
    answered
}

/// Answers the query. If it is dropped before its end, so is the file that it writes.
async fn write(arguments: &Arguments, query: &str, store: &Store) -> Result<()> {
    let path = arguments.output.as_deref();
    let format = Format::chosen(arguments.format, path)?;
    let limit = arguments.memory.unwrap_or_else(memory::half);
    let session = session(StoreSchema::at(&store.snapshot()), limit).map_err(|error| of_query(&error))?;
    // The store is open for reading alone, and other files are none of its business.
    let reading = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let query = if is_show_tables(query) { TABLES } else { query };
    let frame = session.sql_with_options(query, reading).await;
    let frame = frame.map_err(|error| of_query(&error))?;
    let is_plan = matches!(
        frame.logical_plan(),
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)
    );
    let rows = frame.execute_stream().await.map_err(|error| of_query(&error))?;
    if format == Format::Json {
        check_names(&rows.schema())?;
    }
    let mut answer = Answer::begin(format, path, &rows.schema(), &arguments.null)?;
    // Rows are computed on other threads: this one waits for a signal too.
    let mut rows = spawn_buffered(rows, 1);
    while let Some(batch) = rows.next().await {
        let mut batch = batch.map_err(|error| of_query(&error))?;
        if is_plan && format == Format::Table {
            batch = plans::by_lines(&batch).map_err(|error| of_query(&error.into()))?;
        }
        answer.write(&batch)?;
    }
    answer.finish()
}

/// The store's tables, without the views of `information_schema` that `SHOW TABLES` lists too.
const TABLES: &str = "SELECT table_name FROM information_schema.tables \
     WHERE table_schema = 'tables' ORDER BY table_name";

fn is_show_tables(query: &str) -> bool {
    let words = query.trim().trim_end_matches(';').split_whitespace();
    words.map(str::to_ascii_uppercase).eq(["SHOW", "TABLES"])
}

/// Fails if two columns have one name, which an object of JSON cannot.
fn check_names(schema: &Schema) -> Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => Err(Failure::input(format!(
            "two columns of the answer have the name {}; name the columns with AS",
            field.name()
        ))),
        None => Ok(()),
    }
}

fn query_from_stdin() -> Result<String> {
    let mut query = String::new();
    std::io::stdin()
        .read_to_string(&mut query)
        .map_err(|error| Failure::io("standard input".as_ref(), &error))?;
    Ok(query)
}

/// A session whose tables are those of the schema, by their bare names, and whose queries take
/// about `limit` bytes of memory.
fn session(tables: StoreSchema, limit: usize) -> datafusion::common::Result<SessionContext> {
    let config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("store", "tables")
        .with_information_schema(true);
    let mut config = memory::within(limit, config);
    // Without a zone, `now()` and `TIMESTAMPTZ '…Z'` are times without one, which DataFusion takes
    // for readings of the clocks of a column's zone.
    config.options_mut().execution.time_zone = Some("UTC".to_owned());
    let files = Arc::new(SpillFiles(spill::folder()));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(limit)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_temp_file_factory(files))
        .build_arc()?;
    let session = SessionContext::new_with_config_rt(config, runtime);
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema("tables", Arc::new(tables))?;
    session.register_catalog("store", Arc::new(catalog));
    Ok(session)
}
