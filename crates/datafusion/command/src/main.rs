//! `bedload-sql`: answers a query in SQL over the tables of a store. `bedload sql` runs it.

mod failure;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bedload_cli::{Answer, Failure, Format, Result, open_to_read};
use bedload_datafusion::StoreSchema;
use clap::Parser;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::failure::of_query;

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

    /// The format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// The text for no value in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,

    /// A file to write instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    bedload_cli::run(answer)
}

fn answer(arguments: Arguments) -> Result<()> {
    let query = match arguments.query.as_str() {
        "-" => query_from_stdin()?,
        query => query.to_owned(),
    };
    let store = open_to_read(&arguments.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .map_err(|error| Failure::io("the threads of the query".as_ref(), &error))?;
    let answered = runtime.block_on(async {
        let session = session(StoreSchema::at(&store.snapshot())).map_err(|error| of_query(&error))?;
        // The store is open for reading alone, and other files are none of its business.
        let reading = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let frame = session.sql_with_options(&query, reading).await;
        let frame = frame.map_err(|error| of_query(&error))?;
        let mut rows = frame.execute_stream().await.map_err(|error| of_query(&error))?;
        let (format, path) = (arguments.format, arguments.output.as_deref());
        let mut answer = Answer::begin(format, path, &rows.schema(), &arguments.null)?;
        while let Some(batch) = rows.next().await {
            answer.write(&batch.map_err(|error| of_query(&error))?)?;
        }
        answer.finish()
    });
    // Threads still searching for unneeded rows end with the process.
    runtime.shutdown_background();
    answered
}

fn query_from_stdin() -> Result<String> {
    let mut query = String::new();
    std::io::stdin()
        .read_to_string(&mut query)
        .map_err(|error| Failure::io("standard input".as_ref(), &error))?;
    Ok(query)
}

/// A session whose tables are those of the schema, by their bare names.
fn session(tables: StoreSchema) -> datafusion::common::Result<SessionContext> {
    let config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("store", "tables")
        .with_information_schema(true);
    let session = SessionContext::new_with_config(config);
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema("tables", Arc::new(tables))?;
    session.register_catalog("store", Arc::new(catalog));
    Ok(session)
}
