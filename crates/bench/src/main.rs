//! `bedload-bench list` and `bedload-bench run SCENARIO [--scale tiny|small|full] [--entries N]
//! [--operations N] [--rounds N] [--seconds N] [--only SUBJECT,…] [--degrees DEGREE,…]
//! [--json FILE] [--results FILE] [--note TEXT]`, `bedload-bench all [--only RUN,…] [--note TEXT]`,
//! `bedload-bench compare FILE FILE` and `bedload-bench report`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use bedload_bench::plan::{Plan, Scale};
use bedload_bench::record::Record;
use bedload_bench::report::{self, Origin, Results};
use bedload_bench::runs;
use bedload_bench::scenarios::{self, Scenario};

const USAGE: &str = "usage: bedload-bench list
       bedload-bench run SCENARIO [--scale tiny|small|full] [--entries N] [--operations N] [--rounds N]
           [--seconds N] [--only SUBJECT,...] [--degrees DEGREE,...] [--json FILE] [--results FILE] [--note TEXT]
       bedload-bench all [--only RUN,...] [--note TEXT]
       bedload-bench compare FILE FILE | DIR DIR
       bedload-bench report";

/// The stored results, from which tables in documents are generated.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
/// The same below the repository's root.
const STORED: &str = "crates/bench/results";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command given.
enum Command {
    List,
    /// Runs one store in its own process, for scenarios of tables.
    TableWorker,
    Run {
        scenario: Scenario,
        plan: Box<Plan>,
        json: Option<String>,
        results: Option<String>,
        note: String,
    },
    /// Repeats the runs whose results are stored, and generates the tables of documents.
    All {
        only: Vec<String>,
        note: String,
    },
    /// Compares two files of results, or two directories of them.
    Compare {
        before: String,
        after: String,
    },
    /// Generates the tables of documents from results.
    Report,
}

fn parse(arguments: &[String]) -> Result<Command, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    match arguments.next() {
        Some("list") => Ok(Command::List),
        Some("report") => Ok(Command::Report),
        Some("compare") => {
            let mut file = || {
                let path = arguments.next().ok_or("compare: two files of results?")?;
                Ok::<_, String>(path.to_owned())
            };
            Ok(Command::Compare {
                before: file()?,
                after: file()?,
            })
        }
        Some("all") => {
            let (mut only, mut note) = (Vec::new(), String::new());
            while let Some(option) = arguments.next() {
                let value = arguments.next().ok_or(format!("{option}: a value is missing"))?;
                match option {
                    "--only" => only = value.split(',').map(str::to_owned).collect(),
                    "--note" => value.clone_into(&mut note),
                    _ => return Err(format!("unknown option {option}")),
                }
            }
            Ok(Command::All { only, note })
        }
        Some(scenarios::WORKER) => Ok(Command::TableWorker),
        Some("run") => {
            let name = arguments.next().ok_or("run: which scenario?")?;
            let scenario = scenarios::by_name(name).ok_or(format!("no scenario is called {name}"))?;
            let (mut plan, mut json) = (Plan::new(Scale::Small), None);
            let (mut results, mut note) = (None, String::new());
            while let Some(option) = arguments.next() {
                let value = arguments.next().ok_or(format!("{option}: a value is missing"))?;
                match option {
                    "--scale" => {
                        let scale = Scale::by_name(value).ok_or(format!("no scale is called {value}"))?;
                        plan = plan.with_scale(scale);
                    }
                    "--entries" => {
                        let entries = value.parse().map_err(|_| format!("{value} is no number"))?;
                        plan = plan.with_entries(entries);
                    }
                    "--operations" => {
                        let operations = value.parse().map_err(|_| format!("{value} is no number"))?;
                        plan = plan.with_operations_max(operations);
                    }
                    "--rounds" => {
                        let rounds = value.parse().map_err(|_| format!("{value} is no number"))?;
                        plan = plan.with_rounds(rounds);
                    }
                    "--seconds" => {
                        let seconds = value.parse().map_err(|_| format!("{value} is no number"))?;
                        plan = plan.with_seconds(seconds);
                    }
                    "--only" => plan = plan.only(value.split(',').map(str::to_owned)),
                    "--degrees" => plan = plan.with_degrees(value.split(',').map(str::to_owned)),
                    "--json" => json = Some(value.to_owned()),
                    "--results" => results = Some(value.to_owned()),
                    "--note" => value.clone_into(&mut note),
                    _ => return Err(format!("unknown option {option}")),
                }
            }
            Ok(Command::Run {
                scenario,
                plan: Box::new(plan),
                json,
                results,
                note,
            })
        }
        _ => Err("what is to be done?".into()),
    }
}

fn write_json(path: &str, records: &[Record]) -> io::Result<()> {
    let mut file = File::create(path)?;
    for record in records {
        serde_json::to_writer(&mut file, record)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

fn write_documents() -> io::Result<()> {
    let results = Results::read(Path::new(RESULTS))?;
    for path in report::DOCUMENTS {
        let path = Path::new(ROOT).join(path);
        let document = fs::read_to_string(&path)?;
        fs::write(path, report::write_tables(&document, &results)?)?;
    }
    Ok(())
}

fn perform(command: Command) -> io::Result<()> {
    if matches!(command, Command::TableWorker) {
        return scenarios::serve();
    }
    let mut out = io::stdout().lock();
    match command {
        Command::TableWorker => Ok(()),
        Command::Report => write_documents(),
        Command::Compare { before, after } => {
            let text = report::compare(Path::new(&before), Path::new(&after))?;
            out.write_all(text.as_bytes())
        }
        Command::All { only, note } => {
            drop(out);
            let program = std::env::current_exe()?;
            runs::perform(&program, Path::new(ROOT), STORED, &only, &note)?;
            write_documents()
        }
        Command::List => {
            for scenario in scenarios::all() {
                writeln!(out, "{:20} {}", scenario.name, scenario.about)?;
            }
            Ok(())
        }
        Command::Run {
            scenario,
            plan,
            json,
            results,
            note,
        } => {
            let records = (scenario.run)(&plan);
            for record in &records {
                writeln!(out, "{record}")?;
            }
            if let Some(path) = results {
                report::write_results(Path::new(&path), &Origin::of_this_process(&note), &records)?;
            }
            json.map_or(Ok(()), |path| write_json(&path, &records))
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match parse(&arguments) {
        Ok(command) => command,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match perform(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
