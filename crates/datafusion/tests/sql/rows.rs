//! Two tables as a monitoring service has them, out of order and with missing values.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bedload::arrow::array::{
    ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Options, Store, Table, TableSchema};
use bedload_datafusion::StoreSchema;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

/// The hour in milliseconds.
const HOUR: i64 = 3_600_000;

/// A store with the tables `cpu` and `alarms`, and the same rows for another database.
pub(crate) struct Plant {
    pub(crate) store: Store,
    pub(crate) cpu: Table,
    /// Statements that create and fill both tables in DuckDB.
    pub(crate) duckdb: String,
    dir: TempDir,
}

/// A generator of numbers that is the same in each run (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }
}

/// A row of `cpu`: time in milliseconds, host, region, usage.
type Cpu = (i64, String, Option<&'static str>, Option<f64>);

fn cpu_rows() -> Vec<Cpu> {
    let mut numbers = Numbers(1);
    let row = |i: i64| {
        let host = numbers.below(12);
        let late = if numbers.below(5) == 0 {
            numbers.below(2 * HOUR)
        } else {
            0
        };
        let region = [Some("north"), Some("south"), None][usize::try_from(numbers.below(3)).unwrap()];
        // Eighths are summed without rounding, whatever the order.
        let usage = numbers.below(800);
        let usage = (usage % 16 != 0).then(|| f64::from(i32::try_from(usage).unwrap()) / 8.0);
        // Ten times in five seconds, from the last hours of 1969 on, so that some are equal and
        // some negative.
        (
            (i / 2) * 1000 - 4 * HOUR - late,
            format!("host-{host:02}"),
            region,
            usage,
        )
    };
    (0..60_000).map(row).collect()
}

fn cpu_batch(rows: &[Cpu], schema: &TableSchema) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.iter()
                .map(|row| Some(row.0))
                .collect::<TimestampMillisecondArray>(),
        ),
        Arc::new(rows.iter().map(|row| Some(&row.1)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema.arrow().clone(), columns).unwrap()
}

/// A row of `alarms`: time in seconds, host, level.
type Alarm = (i64, String, i32);

fn alarm_rows() -> Vec<Alarm> {
    let mut numbers = Numbers(2);
    let row = |_| {
        let second = numbers.below(8 * HOUR / 1000) - 4 * HOUR / 1000;
        (
            second,
            format!("host-{:02}", numbers.below(14)),
            i32::try_from(numbers.below(4)).unwrap(),
        )
    };
    (0..400).map(row).collect()
}

fn text(value: Option<&str>) -> String {
    value.map_or("NULL".to_owned(), |value| format!("'{value}'"))
}

fn statements(cpu: &[Cpu], alarms: &[Alarm]) -> String {
    let mut sql = "CREATE TABLE cpu (at TIMESTAMP NOT NULL, host TEXT, region TEXT, usage DOUBLE);\n\
                   CREATE TABLE alarms (at TIMESTAMP NOT NULL, host TEXT, level INTEGER);\n"
        .to_owned();
    for rows in cpu.chunks(5000) {
        sql += "INSERT INTO cpu VALUES ";
        for (at, host, region, usage) in rows {
            let usage = usage.map_or("NULL".to_owned(), |usage| usage.to_string());
            write!(
                sql,
                "(make_timestamp({at}000), '{host}', {}, {usage}),",
                text(*region)
            )
            .unwrap();
        }
        sql.pop();
        sql += ";\n";
    }
    sql += "INSERT INTO alarms VALUES ";
    for (at, host, level) in alarms {
        write!(sql, "(make_timestamp({at}000000), '{host}', {level}),").unwrap();
    }
    sql.pop();
    sql + ";\n"
}

pub(crate) fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

impl Plant {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = Options::new()
            .create(true)
            .open(dir.path().join("plant"))
            .unwrap();
        let cpu_schema = TableSchema::new(
            Arc::new(Schema::new(vec![
                Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
                field("host", DataType::Utf8),
                field("region", DataType::Utf8),
                field("usage", DataType::Float64),
            ])),
            "at",
        )
        .unwrap();
        let cpu = store.create_table("cpu", cpu_schema.clone()).unwrap();
        let cpu_rows = cpu_rows();
        // Rows in pages, rows in memory, and none of the hour that is deleted.
        let (paged, rest) = cpu_rows.split_at(40_000);
        cpu.append(&cpu_batch(paged, &cpu_schema)).unwrap();
        store.flush().unwrap();
        let deleted = HOUR..2 * HOUR;
        for rows in rest.chunks(3000) {
            cpu.append(&cpu_batch(rows, &cpu_schema)).unwrap();
        }
        cpu.delete_range(deleted.clone()).unwrap();
        let kept: Vec<Cpu> = cpu_rows
            .into_iter()
            .filter(|row| !deleted.contains(&row.0))
            .collect();

        let alarm_schema = TableSchema::new(
            Arc::new(Schema::new(vec![
                Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
                field("host", DataType::Utf8),
                field("level", DataType::Int32),
            ])),
            "at",
        )
        .unwrap();
        let alarms = store.create_table("alarms", alarm_schema.clone()).unwrap();
        let alarm_rows = alarm_rows();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(
                alarm_rows
                    .iter()
                    .map(|row| Some(row.0))
                    .collect::<TimestampSecondArray>(),
            ),
            Arc::new(alarm_rows.iter().map(|row| Some(&row.1)).collect::<StringArray>()),
            Arc::new(alarm_rows.iter().map(|row| Some(row.2)).collect::<Int32Array>()),
        ];
        alarms
            .append(&RecordBatch::try_new(alarm_schema.arrow().clone(), columns).unwrap())
            .unwrap();
        Self {
            duckdb: statements(&kept, &alarm_rows),
            store,
            cpu,
            dir,
        }
    }

    /// Where the store is.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("plant")
    }

    /// A session with the tables of the store.
    pub(crate) fn session(&self) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(2);
        let session = SessionContext::new_with_config(config);
        let catalog = session.catalog("datafusion").unwrap();
        let schema = Arc::new(StoreSchema::new(&self.store));
        catalog.register_schema("public", schema).unwrap();
        session
    }
}

/// The physical plan of a query, a line each node.
pub(crate) async fn plan(session: &SessionContext, query: &str) -> String {
    let explained = session
        .sql(&format!("EXPLAIN FORMAT INDENT {query}"))
        .await
        .unwrap();
    let batches = explained.collect().await.unwrap();
    let text = |batch: &RecordBatch, row: usize| {
        let kind = array_value_to_string(batch.column(0), row).unwrap();
        let plan = array_value_to_string(batch.column(1), row).unwrap();
        (kind == "physical_plan").then_some(plan)
    };
    let plans = batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).filter_map(move |row| text(batch, row)));
    plans.collect()
}
