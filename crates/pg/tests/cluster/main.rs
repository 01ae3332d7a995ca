//! The access method in a real server: private clusters in temporary directories, crashes,
//! standbys.
//!
//! Needs the module built with the feature `harness`; `make pg-test` does that. PostgreSQL refuses
//! to run as root, so for root the server runs as the user `postgres`, or `nobody`.

mod advice;
mod announced;
mod beyond_memory;
mod cancel;
mod cluster;
mod columns;
mod commits;
mod contract;
mod copies;
mod costs;
mod crash;
mod damage;
mod dead;
mod differential;
mod documents;
mod file_numbers;
mod files;
mod flushes;
mod foreign;
mod head;
mod installation;
mod leftovers;
mod lists;
mod memory;
mod mixed;
mod on_conflict;
mod options;
mod parallel;
mod plans;
mod read_costs;
mod reads;
mod refusals;
mod repack;
mod replication;
mod results;
mod rows;
mod scans;
mod schema;
mod settings;
mod shards;
mod small;
mod small_rates;
mod sqlsmith;
mod standby;
mod stats;
mod transactions;
mod trunk;
mod types;
mod unique;
mod unique_pauses;
mod vacuum;
mod worker;
