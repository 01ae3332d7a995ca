use std::sync::Arc;
use bedload::{Options, Snapshot};
use bedload_datafusion::{BedloadTable, StoreSchema};
use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Options::new().read_only(true).open("flights.bedload")?;
    let session = SessionContext::new();

    // A live table. A read-only store shows new commits after a refresh.
    store.refresh()?;
    let departures = BedloadTable::new(&store.table("departures")?);
    session.register_table("departures", Arc::new(departures))?;
    let query = "SELECT departure, dest FROM departures WHERE carrier = 'UA' ORDER BY departure DESC LIMIT 3";
    session.sql(query).await?.show().await?;

    // All tables of a store, as they are now: past.departures.
    let snapshot: Snapshot = store.snapshot();
    let catalog = session.catalog("datafusion").ok_or("no catalog")?;
    catalog.register_schema("past", Arc::new(StoreSchema::at(&snapshot)))?;
    let flights = session.sql("SELECT count(*) FROM past.departures").await?;
    flights.show().await?;
    Ok(())
}
