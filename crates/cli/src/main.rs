//! The `bedload` command.

mod args;
mod backup;
mod convert;
mod delete;
mod demo;
mod exit;
mod figures;
mod info;
mod ingest;
mod input;
mod layout;
mod output;
mod picture;
mod query;
mod salvage;
mod schema;
mod seconds;
mod sortedness;
mod store;
mod times;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command};
use crate::exit::{Result, Status};

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
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

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Ingest(args) => ingest::run(args),
        Command::Query(args) => query::run(args),
        Command::Info(args) => info::run(args),
        Command::Sortedness(args) => sortedness::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Salvage(args) => salvage::run(args),
        Command::Backup(args) => backup::back_up(args),
        Command::Restore(args) => backup::restore(args),
        Command::Convert(args) => convert::run(args),
        Command::Delete(args) => delete::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bedload", &mut script);
            io::stdout()
                .write_all(&script)
                .map_err(|error| output::stdout::failure(&error))
        }
    }
}
