#![no_main]

use bedload_columns::LeafReader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(reader) = LeafReader::open_unchecked(data) else { return };
    let rows = reader.rows();
    for column in 0..reader.directory().columns().len() {
        let _ = reader.directory().columns()[column].bounds();
        let _ = reader.decode(column, 0..rows);
        let _ = reader.decode(column, rows / 3..rows / 2);
        for row in [0, rows / 2, rows.saturating_sub(1)] {
            let _ = reader.value_at(column, row);
        }
    }
});
