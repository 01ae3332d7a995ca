//! The `bedload` command.

mod args;
mod exit;
mod input;
mod output;
mod picture;
mod schema;
mod sortedness;
mod times;

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
        Command::Sortedness(args) => sortedness::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bedload", &mut script);
            io::stdout()
                .write_all(&script)
                .map_err(|error| output::stdout::failure(&error))
        }
    }
}
