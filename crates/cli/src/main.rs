//! The `bedload` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    bedload_cli::main()
}
