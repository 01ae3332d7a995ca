//! The command `bedload`, built beside the benchmarks that measure it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bedload_cli::main()
}
