//! `bedload info`: what a store holds.

use bedload::{ArrivalOrder, Layout, StoreInfo, TableInfo};
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::exit::{Failure, Result};
use crate::figures::{estimate_json, estimate_text, grouped};
use crate::layout;
use crate::output::stdout::Stdout;
use crate::printable::printable;
use crate::retention;
use crate::schema::{columns_json, type_name};
use crate::store;
use crate::times::format_ticks;

pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let store = store::open_to_read(&args.store)?;
    if let Some(name) = &args.table {
        store::table(&store, name)?;
    }
    let mut info = store.info()?;
    if let Some(name) = &args.table {
        info.tables.retain(|table| table.name == *name);
    }

    let mut out = Stdout::lock();
    if args.json {
        out.json(&store_json(&info))?;
    } else {
        out.line(&format!(
            "format   version {}, pages of {} bytes",
            info.format_version, info.page_bytes
        ))?;
        let [used, file, log] = [info.used_bytes, info.file_bytes, info.wal_bytes].map(grouped);
        out.line(&format!(
            "size     {used} bytes in pages, {file} bytes in the file, {log} bytes of log"
        ))?;
        for table in &info.tables {
            out.line(&table_text(table)?)?;
        }
    }
    Ok(())
}

fn store_json(info: &StoreInfo) -> Value {
    json!({
        "format_version": info.format_version,
        "page_bytes": info.page_bytes,
        "used_bytes": info.used_bytes,
        "file_bytes": info.file_bytes,
        "wal_bytes": info.wal_bytes,
        "tables": info.tables.iter().map(table_json).collect::<Vec<_>>(),
    })
}

fn table_json(table: &TableInfo) -> Value {
    let density = table.density.map(|density| {
        json!({
            "rows_per_block": density.rows_per_block,
            "blocks": density.blocks,
            "rows": density.rows,
            "density": density.density(),
            "disk_bytes": density.disk_bytes,
            "payload_bytes": density.payload_bytes,
            "has_holes": density.has_holes,
            "replaced": density.replaced,
            "advised_below": density.advised_below,
            "advises_indexed": density.advises_indexed(),
        })
    });
    let (layout, interval) = match table.layout {
        Layout::Sparse(grid) => ("sparse", Some(grid.interval())),
        _ => ("indexed", None),
    };
    json!({
        "name": table.name,
        "layout": layout,
        "interval_ticks": interval,
        "density": density,
        "order": table.order.map(order_json),
        "rows": table.rows,
        "time_column": store::time_name(&table.schema),
        "key": table.schema.key_names(),
        "retention_ticks": table.retention,
        "first_tick": table.first,
        "last_tick": table.last,
        "columns": columns_json(table.schema.arrow()),
    })
}

fn order_json(order: ArrivalOrder) -> Value {
    json!({ "total": estimate_json(&order.total, false), "window": estimate_json(&order.window, true) })
}

fn order_text(order: &ArrivalOrder) -> String {
    let mut text = format!("\norder    {}", estimate_text(&order.total, false));
    if order.window.rows < order.total.rows {
        text += &format!("\n         in the last {}", estimate_text(&order.window, true));
    }
    text
}

fn table_text(table: &TableInfo) -> Result<String> {
    let (unit, zone) = store::time_type(&table.schema);
    let time = |ticks: Option<i64>| match ticks {
        Some(ticks) => format_ticks(ticks, unit, zone).map_err(Failure::input),
        None => Ok("none".to_owned()),
    };
    let mut text = format!(
        "\ntable    {}\nrows     {}",
        printable(&table.name),
        grouped(table.rows)
    );
    if table.rows > 0 {
        text += &format!("\ntimes    {} to {}", time(table.first)?, time(table.last)?);
    }
    if table.retention.is_some() {
        text += &format!("\nkept     {}", retention::kept_text(table.retention, unit));
    }
    if let Some(order) = table.order.filter(|order| order.total.rows > 0) {
        text += &order_text(&order);
    }
    if let Some(density) = &table.density {
        text += &format!("\nlayout   {}", layout::text(table.layout, unit));
        text += &layout::density_text(density);
    }
    if let Some(key) = table.schema.key_names() {
        text += &format!("\nkey      {}", printable(&key.join(", ")));
    }
    let fields = table.schema.arrow().fields();
    let width = fields
        .iter()
        .map(|field| printable(field.name()).chars().count())
        .max()
        .unwrap_or(0);
    for (i, field) in fields.iter().enumerate() {
        let (label, name, data_type) = (
            if i == 0 { "columns" } else { "" },
            printable(field.name()),
            field.data_type(),
        );
        let is_time = if i == table.schema.time_column() {
            ", the time of the row"
        } else {
            ""
        };
        text += &format!("\n{label:<8} {name:<width$}  {}{is_time}", type_name(data_type));
    }
    Ok(text)
}
