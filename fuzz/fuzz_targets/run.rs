#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bedload_columns::fuzzing::run(data));
