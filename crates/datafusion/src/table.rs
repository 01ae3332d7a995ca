//! Tables as DataFusion's table providers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bedload::{Snapshot, Table, TableSchema};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use crate::condition::Condition;
use crate::exec::{BedloadExec, Selection};
use crate::statistics;
use crate::stream::external;
use crate::time_range::TimeRange;

/// A table of a store, for DataFusion to read.
///
/// Created from a [`Table`], it shows the rows committed when a query is planned; of a store that
/// is [read-only](bedload::Options::read_only), those as of its last
/// [`refresh`](bedload::Store::refresh). Each reference to the table takes a snapshot of its own:
/// a query that joins the table with itself beside a writer may see two states.
///
/// Created from a [`Snapshot`], it shows the snapshot's rows. Use one snapshot for all tables of a
/// query that needs one consistent state.
pub struct BedloadTable {
    source: Source,
    name: Arc<str>,
    schema: Arc<TableSchema>,
}

#[derive(Clone)]
enum Source {
    Live(Table),
    At(Snapshot),
}

impl BedloadTable {
    /// The live table, whatever its name is when a query is planned, with the columns of the handle
    /// and their names there.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        Self::of(Source::Live(table.clone()), table.name(), table.schema().clone())
    }

    /// The table as a snapshot has it.
    ///
    /// # Errors
    ///
    /// There is no such table.
    pub fn at(snapshot: &Snapshot, name: &str) -> bedload::Result<Self> {
        let schema = snapshot.schema(name)?.clone();
        Ok(Self::of(Source::At(snapshot.clone()), name, schema))
    }

    fn of(source: Source, name: &str, schema: TableSchema) -> Self {
        Self {
            source,
            name: name.into(),
            schema: Arc::new(schema),
        }
    }
}

impl fmt::Debug for BedloadTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BedloadTable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A key is not given to DataFusion as a constraint: a salvaged table may have it twice, and
/// DataFusion takes a column for unique after `unnest` has repeated its rows.
#[async_trait]
impl TableProvider for BedloadTable {
    fn schema(&self) -> SchemaRef {
        self.schema.arrow().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match Condition::of(filter, &self.schema) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = self.schema.arrow().fields().len();
        let projection = projection.map_or_else(|| (0..columns).collect(), Vec::clone);
        let mut times = TimeRange::ALL;
        let mut conditions = Vec::new();
        for filter in filters {
            match Condition::of(filter, &self.schema) {
                Some(Condition::Time(range)) => times = times.and(range),
                Some(Condition::Column(condition)) => conditions.push(condition),
                // The query no longer applies it, so to ignore it would add rows.
                None => return internal_err!("the table {} cannot apply the filter {filter}", self.name),
            }
        }
        if times.is_empty() {
            let projected = self.schema.arrow().project(&projection)?;
            return Ok(Arc::new(EmptyExec::new(Arc::new(projected))));
        }
        let source = self.source.clone();
        let (name, columns) = (self.name.clone(), self.schema.clone());
        let planned = SpawnedTask::spawn_blocking(move || {
            let (snapshot, name) = match source {
                Source::Live(table) => {
                    let snapshot = table.snapshot();
                    // Another table may have its name by now.
                    let name = snapshot.name_of(&table).map_err(external)?.into();
                    (snapshot, name)
                }
                Source::At(snapshot) => (snapshot, name),
            };
            let known = statistics::of_range(
                (&snapshot, &name, &columns),
                times,
                &projection,
                !conditions.is_empty(),
            )?;
            let selection = Selection {
                snapshot,
                table: name,
                columns,
                times,
                conditions: conditions.into(),
                projection: projection.into(),
                reverse: false,
            };
            BedloadExec::new(selection, known)
        });
        let exec = planned.join_unwind().await.map_err(external)??;
        Ok(match limit {
            Some(limit) => Arc::new(exec.limited(Some(limit))),
            None => Arc::new(exec),
        })
    }
}
