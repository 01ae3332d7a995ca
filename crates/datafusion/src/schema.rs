//! Stores as DataFusion's schemas.

use std::sync::Arc;

use async_trait::async_trait;
use bedload::{Error, Snapshot, Store};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;

use crate::stream::external;
use crate::table::BedloadTable;

/// All tables of a store under their names, as a schema of a session.
///
/// ```
/// use std::sync::Arc;
/// use bedload_datafusion::StoreSchema;
/// use datafusion::prelude::SessionContext;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = bedload::Store::create(dir.path().join("s"))?;
/// let session = SessionContext::new();
/// let catalog = session.catalog("datafusion").expect("the default catalog");
/// catalog.register_schema("plant", Arc::new(StoreSchema::new(&store)))?;
/// // SELECT … FROM plant.readings
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StoreSchema {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Live(Store),
    At(Snapshot),
}

impl StoreSchema {
    /// The tables that there are when a query is planned, each [live](BedloadTable): a query sees
    /// each reference to a table at a moment of its own.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self {
            source: Source::Live(store.clone()),
        }
    }

    /// The tables of a snapshot: all references in all queries see the same state.
    #[must_use]
    pub fn at(snapshot: &Snapshot) -> Self {
        Self {
            source: Source::At(snapshot.clone()),
        }
    }
}

#[async_trait]
impl SchemaProvider for StoreSchema {
    fn table_names(&self) -> Vec<String> {
        match &self.source {
            Source::Live(store) => store.tables(),
            Source::At(snapshot) => snapshot.tables(),
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = match &self.source {
            Source::Live(store) => store.table(name).map(|table| BedloadTable::new(&table)),
            Source::At(snapshot) => BedloadTable::at(snapshot, name),
        };
        match found {
            Ok(table) => Ok(Some(Arc::new(table))),
            Err(Error::NoSuchTable { .. }) => Ok(None),
            Err(error) => Err(external(error)),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|table| table == name)
    }
}
