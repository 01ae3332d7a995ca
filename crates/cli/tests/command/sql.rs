//! `bedload sql` becomes the program bedload-sql.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Outcome, Place};

/// Prints its name and its arguments, one a line.
fn write_program(path: &Path, name: &str) {
    fs::write(path, format!("#!/bin/sh\nprintf '%s\\n' {name} \"$@\"\nexit 3\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_program_gets_the_arguments_and_gives_the_exit_code() {
    let place = Place::new();
    write_program(&place.path("bedload-sql"), "path");
    let mut command = place.command_of(&["sql", "a store", "SELECT 1", "--format", "csv", "--help"]);
    let outcome = Outcome::from(command.env("PATH", place.path("")).output().unwrap());
    assert_eq!(outcome.code, Some(3));
    assert_eq!(outcome.stdout, "path\na store\nSELECT 1\n--format\ncsv\n--help\n");
}

#[test]
fn the_program_beside_the_command_comes_before_those_in_path() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    fs::create_dir(place.path("path")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_bedload"), place.path("bin/bedload")).unwrap();
    write_program(&place.path("bin/bedload-sql"), "beside");
    write_program(&place.path("path/bedload-sql"), "path");
    let mut command = Command::new(place.path("bin/bedload"));
    let outcome = command
        .arg("sql")
        .env("PATH", place.path("path"))
        .output()
        .unwrap();
    assert_eq!(Outcome::from(outcome).stdout, "beside\n");
}

#[test]
fn without_the_program_the_error_says_how_to_get_it() {
    let place = Place::new();
    let outcome = place.command("sql store query").env("PATH", "").output().unwrap();
    let error = Outcome::from(outcome).fails(2);
    assert!(
        error.starts_with("bedload-sql is neither beside bedload"),
        "{error}"
    );
}
