//! Time zones that a Parquet file names beside its own types, which know none but UTC.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::FileMetaData;

/// The columns of a file with the zones that its writer had for them. The reader knows these too,
/// but forgets the zone of times that were written in another unit than the writer's, as seconds
/// always are.
pub(super) fn restored(columns: &Schema, metadata: &FileMetaData) -> Schema {
    let mut entries = metadata.key_value_metadata().into_iter().flatten();
    let written = entries
        .find(|entry| entry.key == ARROW_SCHEMA_META_KEY)
        .and_then(|entry| BASE64_STANDARD.decode(entry.value.as_deref()?).ok())
        .and_then(|message| try_schema_from_ipc_buffer(&message).ok());
    let Some(written) = written else {
        return columns.clone();
    };
    let fields = columns.fields().iter().map(|field| {
        let written = written.field_with_name(field.name()).ok();
        written.map_or_else(|| Arc::clone(field), |written| in_zone_of(field, written))
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn in_zone_of(field: &FieldRef, written: &Field) -> FieldRef {
    match (field.data_type(), written.data_type()) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, Some(zone))) => {
            let zoned = DataType::Timestamp(*unit, Some(Arc::clone(zone)));
            Arc::new(field.as_ref().clone().with_data_type(zoned))
        }
        _ => Arc::clone(field),
    }
}
