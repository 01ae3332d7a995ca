//! The SQL of the documents runs.

use std::fs;
use std::path::Path;

use crate::cluster::Cluster;
use crate::rows::execute;

/// Returns the SQL blocks of a document of the repository.
fn blocks(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name);
    let text = fs::read_to_string(&path).expect("a document");
    let rests = text.split("```sql\n").skip(1);
    rests
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn blocks_of_the_documents_run() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    // The README has an index for the table that the other page creates.
    for name in ["docs/postgres.md", "README.md"] {
        execute(&mut client, "DROP EXTENSION bedload CASCADE");
        let blocks = blocks(name);
        assert!(!blocks.is_empty(), "{name} has no SQL");
        for block in blocks {
            execute(&mut client, &block);
        }
    }
}
