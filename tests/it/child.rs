//! This program as a child process of a test, for what is killed or counted from outside. The
//! standard harness runs nothing but tests, so the child runs one that does nothing in the parent.
use std::env;
use std::process::Command;

use crate::{counted, store};

/// The variable that says what the child does.
const VARIABLE: &str = "RESPONDENT_TEST_CHILD";

/// What a child does, in its working directory.
#[derive(Clone, Copy, Debug)]
pub enum Child {
    /// Commits artifacts until it is killed.
    CommitsArtifacts,
    /// Commits one large artifact.
    CommitsLargeArtifact,
    /// Serves, and counts its bytes.
    Serves,
}

impl Child {
    const ALL: [Self; 3] = [
        Self::CommitsArtifacts,
        Self::CommitsLargeArtifact,
        Self::Serves,
    ];

    /// The child's output begins with lines of the harness.
    pub fn command(self) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "child::a_child_does_its_work", "--nocapture"])
            .args(["--quiet", "--test-threads=2"])
            .envs([self.variable()]);
        command
    }

    /// The variable that must be set in the environment of the command.
    pub fn variable(self) -> (&'static str, String) {
        (VARIABLE, format!("{self:?}"))
    }
}

#[test]
fn a_child_does_its_work() {
    let Ok(name) = env::var(VARIABLE) else {
        return;
    };
    let child = Child::ALL
        .into_iter()
        .find(|child| child.variable().1 == name);
    let folder = env::current_dir().unwrap();
    match child.unwrap() {
        Child::CommitsArtifacts => store::commit_until_killed(&folder),
        Child::CommitsLargeArtifact => store::large::commit(&folder),
        Child::Serves => counted::serve(),
    }
}
