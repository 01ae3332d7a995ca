//! The command `bedload` as this workspace builds it, for the test of docs/sql.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    bedload_cli::main()
}
