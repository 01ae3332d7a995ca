//! The `bedload` command as a library, for programs that answer and fail as it does.
//!
//! [`main`] is the command itself. [`run`] gives another program its treatment of arguments and
//! errors, [`Answer`] its formats, [`catch_signals`] its treatment of signals.

mod args;
mod backup;
mod columns;
mod condition;
mod convert;
mod delete;
mod demo;
mod exit;
mod figures;
mod info;
mod ingest;
mod input;
mod interrupt;
mod layout;
mod new_rows;
mod output;
mod partition;
mod picture;
mod printable;
mod query;
mod quoted;
mod reserved;
mod retention;
mod retyped;
mod salvage;
mod schema;
#[cfg(feature = "formats")]
mod seconds;
mod selection;
mod sortedness;
mod sources;
mod sql;
mod store;
mod tables;
mod tail;
mod times;
mod unfinished;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command};
use crate::exit::Status;
pub use crate::exit::{Failure, Result};
pub use crate::interrupt::{catch as catch_signals, first as first_signal};
pub use crate::output::{Answer, Format, is_written_directly};
pub use crate::store::open_to_read;

/// The command `bedload`, with the arguments of the process.
pub fn main() -> ExitCode {
    run(|cli: Cli| dispatch(&cli.command))
}

/// Runs a program with the arguments of the process. If it fails, the line on standard error and
/// the exit code are those of the command.
pub fn run<Arguments: Parser>(program: impl FnOnce(Arguments) -> Result<()>) -> ExitCode {
    let ended = match Arguments::try_parse() {
        Ok(arguments) => program(arguments),
        Err(error) if error.use_stderr() => Err(Failure::usage(usage(&error))),
        // Help, or the version.
        Err(error) => error.print().map_err(|error| output::stdout::failure(&error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.status() != Status::ReaderGone {
                // If even standard error is gone, the exit code has to say it all.
                let _ = writeln!(io::stderr(), "bedload: {failure}");
            }
            failure.status().into()
        }
    }
}

/// The error in the arguments as one line, without clap's layout.
fn usage(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing; bedload --help lists them".to_owned();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .filter_map(|heading| text.find(heading))
        .min();
    let text = text[..end.unwrap_or(text.len())].trim_end();
    let lines: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    format!("{}; --help says more", lines.join("; "))
}

fn dispatch(command: &Command) -> Result<()> {
    match command {
        Command::Ingest(args) => ingest::run(args),
        Command::Query(args) => query::run(args),
        Command::Sql { arguments } => sql::run(arguments),
        Command::Tail(args) => tail::run(args),
        Command::Tables(args) => tables::list(args),
        Command::Info(args) => info::run(args),
        Command::Sources(args) => sources::run(args),
        Command::Sortedness(args) => sortedness::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Salvage(args) => salvage::run(args),
        Command::Backup(args) | Command::Restore(args) => backup::copy(args),
        Command::Convert(args) => convert::run(args),
        Command::Delete(args) => delete::run(args),
        Command::Retention(args) => retention::run(args),
        Command::AddColumns(args) => columns::add(args),
        Command::RenameColumn(args) => columns::rename(args),
        Command::DropColumn(args) => columns::drop_one(args),
        Command::Rename(args) => tables::rename(args),
        Command::Drop(args) => tables::drop(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bedload", &mut script);
            io::stdout()
                .write_all(&script)
                .map_err(|error| output::stdout::failure(&error))
        }
        Command::Manual { directory } => clap_mangen::generate_to(Cli::command(), directory)
            .map_err(|error| Failure::io(directory, &error)),
    }
}
