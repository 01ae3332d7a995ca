#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bedload_index::paged::contract::check_damaged_tree(data));
