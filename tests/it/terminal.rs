//! What the program shows on a terminal, and what in a pipe.
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::proxy::Setup;

const UNUSED_URL: &str = "http://127.0.0.1:1/v1";

/// What the program writes to a terminal as its standard output, up to `end`.
async fn on_terminal(setup: &Setup, folder: &Path, end: &'static str) -> String {
    let (mut controller, output) = terminal();
    let setup = setup.clone().env("TERM", "xterm");
    let mut child = setup.command(folder).stdout(output).spawn().unwrap();
    let read = move || {
        let mut shown = String::new();
        while !shown.contains(end) && read_more(&mut controller, &mut shown) {}
        shown
    };
    let shown = tokio::task::spawn_blocking(read).await.unwrap();
    // The next one in this folder finds the data in use until this one has ended.
    child.start_kill().ok();
    child.wait().await.unwrap();
    assert!(shown.contains(end), "{shown:?}");
    shown
}

/// All that a program shows on its terminal until it ends. `each` sees what was shown so far.
pub async fn on_whole_terminal(setup: &Setup, folder: &Path, mut each: impl FnMut(&str)) -> String {
    let (mut controller, output) = terminal();
    let [input, errors] = [(); 2].map(|()| output.try_clone().unwrap());
    let mut command = setup.command(folder);
    let mut child = command
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .spawn()
        .unwrap();
    // It has copies of the terminal, which would stay open.
    drop(command);
    let mut shown = String::new();
    while read_more(&mut controller, &mut shown) {
        each(&shown);
    }
    child.wait().await.unwrap();
    shown
}

/// A terminal: its controller, and what a program has as its input and output.
fn terminal() -> (File, File) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let terminal = open(name, flags, Mode::empty()).unwrap();
    (controller.into(), terminal.into())
}

/// Waits for more on a terminal. When the program has ended, reading fails or returns nothing,
/// depending on the system.
fn read_more(controller: &mut File, shown: &mut String) -> bool {
    let mut buffer = [0; 4096];
    let Ok(length @ 1..) = controller.read(&mut buffer) else {
        return false;
    };
    *shown += &String::from_utf8_lossy(&buffer[..length]);
    true
}

/// Promise: On a terminal the labels of the banner and of `check` have a colour, unless `--color`
/// or `NO_COLOR` forbids it. A pipe gets no colour unless `--color always` asks for it.
#[kit::test]
async fn labels_have_a_colour_on_a_terminal_alone() {
    for (command, label, end) in [
        ("serve", "Status", "Ctrl-C to stop"),
        ("check", "listen", "No provider was asked."),
    ] {
        let setup = Setup::new().arg(command);
        let folder = setup.folder(UNUSED_URL);
        let colored = format!("  \u{1b}[36m{label}\u{1b}[0m  ");
        let shown = on_terminal(&setup, folder.path(), end).await;
        assert!(shown.contains(&colored), "{shown:?}");
        for plain in [
            setup.clone().env("NO_COLOR", "1"),
            setup.clone().arg("--color").arg("never"),
        ] {
            let shown = on_terminal(&plain, folder.path(), end).await;
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }
    let check = Setup::new().arg("check").env("TERM", "xterm");
    let folder = check.folder(UNUSED_URL);
    let (_, shown, _) = check.run(folder.path()).await;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let (_, shown, _) = check.arg("--color=always").run(folder.path()).await;
    assert!(shown.contains("  \u{1b}[36mlisten\u{1b}[0m  "), "{shown:?}");
}

/// Promise: The banner and the report of `check` have lines of at most 80 columns; only a word that
/// is longer, such as a path, has a longer line of its own.
#[kit::test]
async fn the_configuration_is_reported_in_lines_that_fit_a_terminal() {
    let room = "r".repeat(60);
    let long = "l".repeat(90);
    for (data, capture) in [(&room, "failures"), (&long, "all")] {
        let others = (0..12).map(|number| format!("\"up/model-{number}\""));
        let others: Vec<String> = others.collect();
        let setup = Setup::new()
            .arg("check")
            .server(&format!("data_dir = \"/{data}\""))
            .tables(&format!(
                "[capture]\nmode = \"{capture}\"\n[routing.fallbacks]\n\"*\" = [{}]",
                others.join(", ")
            ));
        let (code, shown, err) = setup.run(setup.folder(UNUSED_URL).path()).await;
        assert_eq!(code, 0, "{err}");
        for folder in ["bundles", "artifacts"] {
            let line = format!("             /{data}/{folder}\n");
            assert!(shown.contains(&line), "{shown}");
        }
        let is_too_long = |line: &&str| {
            let (_, text) = line.split_at_checked(13).unwrap_or_default();
            line.chars().count() > 80 && text.contains(' ')
        };
        assert_eq!(shown.lines().find(is_too_long), None);
    }
}
