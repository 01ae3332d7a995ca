//! `bedload sql`: a query in SQL, answered by a program of its own.
//!
//! The program links DataFusion, which takes longer to build than all of Bedload, so it is not part
//! of the command.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::exit::{Failure, Result, Status};

/// The program that answers.
const PROGRAM: &str = "bedload-sql";

/// Becomes the program: the one beside this command, or else the first in `PATH`.
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let beside = env::current_exe().ok().map(|path| path.with_file_name(PROGRAM));
    let program = beside.as_deref().filter(|path| path.is_file());
    let program = program.unwrap_or(Path::new(PROGRAM));
    let error = Command::new(program).args(arguments).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => Failure::new(
            Status::Usage,
            format!(
                "{PROGRAM} is neither beside bedload nor in PATH; \
                 cargo install --locked --path crates/datafusion/command builds it"
            ),
        ),
        _ => Failure::io(program, &error),
    })
}
