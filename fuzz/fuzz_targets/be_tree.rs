#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bedload_trees::contract::check_damaged_be_tree(data));
