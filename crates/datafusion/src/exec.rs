//! Scans as DataFusion's execution plans.

use std::fmt;
use std::sync::Arc;

use bedload::{Scan, Snapshot, TableSchema};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, CardinalityEffect, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;

use crate::condition::ColumnCondition;
use crate::stream::{batches, external};
use crate::time_range::TimeRange;

/// The rows of a snapshot that a scan gives, and their order.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) snapshot: Snapshot,
    pub(crate) table: Arc<str>,
    /// The columns with which the query was planned; the snapshot may have others by other names.
    pub(crate) columns: Arc<TableSchema>,
    pub(crate) times: TimeRange,
    pub(crate) conditions: Arc<[ColumnCondition]>,
    /// Positions of columns in this schema.
    pub(crate) projection: Arc<[usize]>,
    /// Whether the latest row comes first.
    pub(crate) reverse: bool,
}

impl Selection {
    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(self.columns.arrow().project(&self.projection)?))
    }

    /// The position of the time column among those that are projected.
    fn time(&self) -> Option<usize> {
        self.projection
            .iter()
            .position(|&column| column == self.columns.time_column())
    }

    fn scan(&self, limit: Option<usize>) -> bedload::Result<Scan> {
        let schema = self.columns.arrow();
        let name = |&column: &usize| schema.field(column).name().as_str();
        let names: Vec<&str> = self.projection.iter().map(name).collect();
        let times = self.times.first..=self.times.last;
        let scan = self.snapshot.range(&self.table, times)?;
        let mut scan = scan.with_schema(&self.columns)?.columns(&names)?;
        for condition in self.conditions.iter() {
            scan = condition.apply(scan)?;
        }
        if self.reverse {
            scan = scan.rev();
        }
        Ok(match limit {
            Some(limit) => scan.limit(limit as u64),
            None => scan,
        })
    }
}

/// A scan of a table: a leaf of a physical plan, with one partition, whose rows are in order of
/// time.
#[derive(Debug, Clone)]
pub struct BedloadExec {
    selection: Selection,
    limit: Option<usize>,
    /// Statistics of the rows, without the limit.
    known: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BedloadExec {
    pub(crate) fn new(selection: Selection, known: Statistics) -> Result<Self> {
        Ok(Self {
            properties: properties(&selection)?,
            selection,
            limit: None,
            known: Arc::new(known),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    pub(crate) fn limited(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }
}

/// One partition, in order of time if times are projected.
fn properties(selection: &Selection) -> Result<Arc<PlanProperties>> {
    let schema = selection.schema()?;
    let ordering = selection.time().map(|position| {
        let name = schema.field(position).name();
        let options = SortOptions {
            descending: selection.reverse,
            nulls_first: selection.reverse,
        };
        [PhysicalSortExpr::new(
            Arc::new(Column::new(name, position)),
            options,
        )]
    });
    let equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), ordering);
    let properties = PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Ok(Arc::new(
        properties.with_scheduling_type(SchedulingType::Cooperative),
    ))
}

impl DisplayAs for BedloadExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selection = &self.selection;
        let mut parts = vec![format!("table={}", selection.table)];
        if selection.times != TimeRange::ALL {
            parts.push(format!("times={}", selection.times));
        }
        if !selection.conditions.is_empty() {
            let texts: Vec<&str> = selection.conditions.iter().map(ColumnCondition::text).collect();
            parts.push(format!("where={}", texts.join(" AND ")));
        }
        if selection.reverse {
            parts.push("reverse=true".to_owned());
        }
        if let Some(limit) = self.limit {
            parts.push(format!("limit={limit}"));
        }
        match format {
            DisplayFormatType::TreeRender => f.write_str(&parts.join("\n")),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let fields = self.schema();
                let names: Vec<&str> = fields
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                parts.insert(1, format!("columns=[{}]", names.join(", ")));
                write!(f, "BedloadExec: {}", parts.join(", "))
            }
        }
    }
}

impl ExecutionPlan for BedloadExec {
    fn name(&self) -> &'static str {
        "BedloadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A leaf has none.
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (selection, limit) = (self.selection.clone(), self.limit);
        let open = move || selection.scan(limit).map_err(external);
        let rows = batches(open).map(move |batch| batch.record_output(&metrics));
        let stream = RecordBatchStreamAdapter::new(self.schema(), rows.boxed());
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        if self.limit.is_none() {
            return Ok(self.known.clone());
        }
        let known = Statistics::clone(&self.known);
        Ok(Arc::new(known.with_fetch(self.limit, 0, 1)?))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.clone().limited(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        match self.limit {
            Some(_) => CardinalityEffect::LowerEqual,
            None => CardinalityEffect::Equal,
        }
    }

    /// Reverses the scan if that gives the order.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        // A limited scan has other rows when it is reversed.
        if self.limit.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let mut selection = self.selection.clone();
        selection.reverse = !selection.reverse;
        let reversed = Self {
            properties: properties(&selection)?,
            selection,
            ..self.clone()
        };
        for exec in [self, &reversed] {
            let is_ordered = exec
                .properties
                .eq_properties
                .ordering_satisfy(order.iter().cloned())?;
            if is_ordered {
                return Ok(SortOrderPushdownResult::Exact {
                    inner: Arc::new(exec.clone()),
                });
            }
        }
        Ok(SortOrderPushdownResult::Unsupported)
    }
}
