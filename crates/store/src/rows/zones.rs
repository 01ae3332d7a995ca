//! Zones of a table's columns. They are checked when a schema is made, and not when a store is
//! opened: one may have a zone that only its writer knew.

use arrow_schema::{DataType, Schema};
use bedload_times::Zone;

use crate::error::{Error, Result};

/// Fails unless Arrow knows the zone of every column: otherwise no program could show its times.
pub(super) fn check(schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        let DataType::Timestamp(_, Some(name)) = field.data_type() else {
            continue;
        };
        let known = Zone::parse(name);
        let zone = known.map_err(|error| Error::schema(format!("column {:?}: {error}", field.name())))?;
        if zone.name() != &**name {
            return Err(Error::schema(format!(
                "column {:?}: Arrow does not read the zone {name:?}; name it {:?}",
                field.name(),
                zone.name()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
    use arrow_schema::{Field, SchemaRef, TimeUnit};

    use crate::rows::TableSchema;
    use crate::store::Store;

    use super::*;

    fn columns(zone: &str) -> SchemaRef {
        let field = |name, zone| Field::new(name, DataType::Timestamp(TimeUnit::Second, zone), false);
        Arc::new(Schema::new(vec![
            field("at", None),
            field("seen", Some(zone.into())),
        ]))
    }

    #[test]
    fn a_schema_with_a_zone_that_no_program_knows_is_refused() {
        for known in ["UTC", "Europe/Vienna", "+02:00", ""] {
            TableSchema::new(columns(known), "at").expect("a known zone");
        }
        for (zone, reason) in [
            (
                "Mars/Olympus",
                "column \"seen\": there is no time zone \"Mars/Olympus\"",
            ),
            (
                "Z",
                "column \"seen\": Arrow does not read the zone \"Z\"; name it \"UTC\"",
            ),
        ] {
            let error = TableSchema::new(columns(zone), "at").expect_err("an unknown zone");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let times = columns("Mars/Olympus");
        TableSchema::new(times, "seen").expect_err("an unknown zone of the time column");
    }

    #[test]
    fn a_store_that_has_such_a_table_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let store = Store::create(&path).expect("creates");
        let schema = TableSchema::in_any_zone(columns("Mars/Olympus"), "at").expect("storable");
        let table = store.create_table("t", schema).expect("fresh");
        let seen = TimestampSecondArray::from(vec![7]).with_timezone("Mars/Olympus");
        let arrays: Vec<ArrayRef> = vec![Arc::new(TimestampSecondArray::from(vec![1])), Arc::new(seen)];
        let batch = RecordBatch::try_new(columns("Mars/Olympus"), arrays).expect("of one length");
        table.append(&batch).expect("appends");
        drop(table);
        store.close().expect("closes");
        let store = Store::open(&path).expect("opens");
        let table = store.table("t").expect("there");
        table.append(&batch).expect("appends");
        assert_eq!(table.range(..).and_then(|scan| scan.count()).expect("reads"), 2);
    }
}
