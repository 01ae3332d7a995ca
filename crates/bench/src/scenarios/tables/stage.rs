//! Stores in their own processes, and their turns.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bedload_testkit::Rng;
use tempfile::TempDir;

use super::arrival::Input;
use super::protocol::{Reply, Request};
use crate::plan::Plan;
use crate::record::Figure;
use crate::runner::Samples;
use crate::subjects::SAME_AGAIN;
use crate::subjects::tables::{TABLE_BASELINE, TableEntrant, TableOptions};

/// The subcommand of a process that runs one store.
pub const WORKER: &str = "table-worker";

/// A store in its process.
pub(super) struct TableStage {
    pub(super) entrant: TableEntrant,
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    /// The process of the store.
    process: u32,
}

/// A store failed and has reported why.
#[derive(Debug)]
pub(super) struct Failed;

impl TableStage {
    /// Starts a process that opens a store in a directory, with the rows of an input, if any; also
    /// returns the time taken.
    pub(super) fn open(
        plan: &Plan,
        entrant: TableEntrant,
        dir: &TempDir,
        options: TableOptions,
        input: Option<Input>,
    ) -> Result<(Self, Vec<Figure>), Failed> {
        let mut child = Command::new(plan.command())
            .arg(WORKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program that runs can be run again");
        let requests = child.stdin.take().expect("piped");
        let replies = BufReader::new(child.stdout.take().expect("piped"));
        let mut stage = Self {
            entrant,
            child,
            requests,
            replies,
            process: 0,
        };
        let opened = stage.ask(&Request::Open {
            store: entrant.name.into(),
            dir: dir.path().into(),
            options,
            input,
        })?;
        Ok((stage, opened))
    }

    /// Returns the store's answer.
    ///
    /// # Panics
    ///
    /// If the store is ours and fails.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Vec<Figure>, Failed> {
        let mut line = serde_json::to_vec(request).expect("a request is JSON");
        line.push(b'\n');
        let mut reply = String::new();
        let asked = self.requests.write_all(&line);
        let answered = asked.and_then(|()| self.replies.read_line(&mut reply));
        match answered {
            Ok(len) if len > 0 => {
                let reply: Reply = serde_json::from_str(&reply).expect("a reply is JSON");
                self.process = reply.process;
                Ok(reply.figures)
            }
            _ => {
                let name = self.entrant.name;
                let is_ours = [TABLE_BASELINE, SAME_AGAIN].contains(&name);
                assert!(!is_ours, "{name} failed at {request:?}");
                eprintln!("{name} failed at {request:?}");
                Err(Failed)
            }
        }
    }

    /// Kills the process of the store, and waits until it has ended.
    pub(super) fn kill(mut self) {
        if self.process != self.child.id() {
            let kill = Command::new("kill")
                .args(["-9", &self.process.to_string()])
                .status();
            assert!(kill.is_ok_and(|status| status.success()), "it can be killed");
        }
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for TableStage {
    fn drop(&mut self) {
        // A process asked to end has ended by now; others are killed here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often each store runs the same request, alternating with the others.
pub(super) struct Turns {
    pub(super) turns: usize,
    /// Untimed runs in advance.
    pub(super) warm: usize,
}

/// Runs a request on all stores in turns, in another order each time, and adds the answers to the
/// samples. A store that fails is excluded from then on.
pub(super) fn ask_all(
    stages: &mut Vec<TableStage>,
    samples: &mut Samples,
    turns: Turns,
    request: impl Fn(u64) -> Request,
) {
    for turn in 0..turns.warm + turns.turns {
        let asked = request(turn as u64);
        // Random, so that no store always follows the same one.
        Rng::new(turn as u64).shuffle(stages);
        stages.retain_mut(|stage| match stage.ask(&asked) {
            Ok(figures) => {
                if turn >= turns.warm {
                    samples.add(stage.entrant.name, figures);
                }
                true
            }
            Err(Failed) => false,
        });
    }
}
