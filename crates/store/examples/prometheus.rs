//! A store's metrics as text for Prometheus, as a service would answer `GET /metrics` with.
//!
//! ```sh
//! cargo run --release -p bedload --example prometheus -- STORE
//! ```

use std::error::Error;
use std::time::Duration;

use bedload::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: prometheus STORE")?;
    let store = Store::open(path)?;
    print!("{}", metrics(&store)?);
    Ok(())
}

fn metrics(store: &Store) -> Result<String, Box<dyn Error>> {
    let counts = store.metrics();
    let seconds = |time: Duration| time.as_secs_f64();
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, value: f64| {
        text += &format!("# TYPE bedload_{name} {kind}\nbedload_{name} {value}\n");
    };
    put("commits_total", "counter", counts.commits as f64);
    put("rows_total", "counter", counts.rows as f64);
    put("rows_right_edge_total", "counter", counts.rows_right_edge as f64);
    put("rows_root_total", "counter", counts.rows_root as f64);
    put("rows_held_back_total", "counter", counts.rows_held_back as f64);
    put(
        "commit_wait_seconds_total",
        "counter",
        seconds(counts.commit_waits),
    );
    put("log_bytes_total", "counter", counts.log_bytes as f64);
    put("log_syncs_total", "counter", counts.log_syncs as f64);
    put("flushes_total", "counter", counts.flushes as f64);
    put("flush_seconds_total", "counter", seconds(counts.flush_time));
    put("flush_longest_seconds", "gauge", seconds(counts.flush_longest));
    put("head_bytes", "gauge", counts.head_bytes as f64);
    put(
        "page_written_bytes_total",
        "counter",
        counts.page_bytes_written as f64,
    );
    put("page_reads_total", "counter", counts.page_reads as f64);
    put("cache_hits_total", "counter", counts.cache_hits as f64);
    put("cache_misses_total", "counter", counts.cache_misses as f64);
    put("cache_bytes", "gauge", counts.cache_bytes as f64);
    for table in store.info()?.tables {
        let label = format!("{{table={:?}}}", table.name);
        text += &format!("bedload_table_rows{label} {}\n", table.rows);
    }
    Ok(text)
}
