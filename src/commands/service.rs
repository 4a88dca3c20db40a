//! `respondent service`: a unit of systemd or a job of launchd that runs the server from login on.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{sleep, timeout};

use super::background::INTERVAL;
use super::background::process_file::{ProcessFile, ServiceManager};
use super::invocation::shell_word;
use super::print_text;
use crate::config::{Config, Inputs, TOKEN_VARIABLE};
use crate::control::{ControlClient, ControlError};

/// In the first lines of a file that `install` wrote.
const MARK: &str =
    "Written by `respondent service install`. `respondent service remove` deletes it.";

const UNIT: &str = include_str!("../../packaging/systemd/respondent.service");
const JOB: &str = include_str!("../../packaging/launchd/respondent.plist");

/// The variables that apply to a server as flags do. A service does not have those of a shell.
const VARIABLES: [&str; 5] = [
    "RESPONDENT_CONFIG",
    "RESPONDENT_TOKEN_FILE",
    "RESPONDENT_LISTEN",
    "RESPONDENT_DATA_DIR",
    "RESPONDENT_LOG",
];

/// The variables that say where the folders of the user are. The server has to look where the other
/// commands do.
const FOLDERS: [&str; 2] = ["XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// How long the service may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(10);

/// What the service of this machine is.
struct UserService {
    manager: ServiceManager,
    /// The unit or the job.
    path: PathBuf,
    /// The file with the keys of providers.
    keys: PathBuf,
}

impl UserService {
    fn new(inputs: &Inputs) -> Self {
        let dirs = &inputs.dirs;
        let base = dirs.config.parent().unwrap_or(&dirs.config);
        let (manager, path) = if cfg!(target_os = "macos") {
            let path = dirs.home.join("Library/LaunchAgents/respondent.plist");
            (ServiceManager::Launchd, path)
        } else {
            let path = base.join("systemd/user/respondent.service");
            (ServiceManager::Systemd, path)
        };
        Self {
            manager,
            path,
            keys: dirs.config.join("keys.env"),
        }
    }

    /// The text of the file for a program and its arguments.
    fn text(&self, words: &[String]) -> String {
        match self.manager {
            ServiceManager::Systemd => unit(words, &self.keys),
            ServiceManager::Launchd => job(words, &self.keys),
        }
    }

    /// The commands that let the service begin.
    fn starting(&self) -> Vec<Vec<String>> {
        match self.manager {
            ServiceManager::Systemd => systemctl(&["daemon-reload", "enable", "restart"]),
            ServiceManager::Launchd => {
                let path = self.path.display().to_string();
                vec![words(&["launchctl", "bootstrap", &gui(), &path])]
            }
        }
    }

    /// The command that shows the end of its log.
    fn reading_log(&self) -> &'static str {
        match self.manager {
            ServiceManager::Systemd => "journalctl --user -u respondent -n 20",
            ServiceManager::Launchd => "tail -n 20 ~/Library/Logs/respondent.log",
        }
    }

    /// The commands that end it for good.
    fn ending(&self) -> Vec<Vec<String>> {
        match self.manager {
            ServiceManager::Systemd => systemctl(&["disable", "stop"]),
            ServiceManager::Launchd => {
                let job = format!("{}/respondent", gui());
                vec![words(&["launchctl", "bootout", &job])]
            }
        }
    }

    /// Whether there is a file of `install`. Fails if somebody else wrote it.
    fn is_installed(&self) -> anyhow::Result<bool> {
        match fs::read_to_string(&self.path) {
            Ok(text) if text.contains(MARK) => Ok(true),
            Ok(_) => anyhow::bail!(
                "{} was not written by `respondent service install`; move it elsewhere first",
                self.path.display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("{} cannot be read", self.path.display()))
            }
        }
    }
}

/// `respondent service install`: writes the file of the service and starts it. `dry_run` prints
/// what would be done.
pub async fn install(inputs: &Inputs, config: &Config, dry_run: bool) -> anyhow::Result<()> {
    let service = UserService::new(inputs);
    let is_installed = service.is_installed()?;
    let text = service.text(&command_line(inputs)?);
    let path = service.path.display();
    let commands = service.starting();
    if dry_run {
        return print_text(&format!(
            "This is a dry run: nothing was written.\n\nWould write {path}:\n\n{text}\nWould run:\n{}",
            lines(&commands)
        ));
    }
    let control = ControlClient::new(config);
    match control.check_health().await {
        Ok(_) if !is_installed || !is_service(config) => anyhow::bail!(
            "a server runs on {} already, so a service could not listen there: end it first, with \
             `respondent stop`",
            control.address()
        ),
        Ok(_) | Err(ControlError::NotRunning(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if is_installed && service.manager == ServiceManager::Launchd {
        run_all(&service.ending()).ok();
    }
    write(&service.path, &text)?;
    print_text(&format!("Wrote {path}.\n"))?;
    let keys = service.keys.display();
    let again = match service.manager {
        ServiceManager::Systemd => "systemctl --user restart respondent",
        ServiceManager::Launchd => "respondent service install",
    };
    let mut about_keys = format!(
        "A service does not have the keys of this shell. Write them into\n  {keys}\none \
         MOONSHOT_API_KEY=sk-... per line, and run:\n  chmod 600 {}\n  {again}\n",
        shell_word(&service.keys.to_string_lossy())
    );
    if inputs.environment.get(TOKEN_VARIABLE).is_some() {
        let _ = writeln!(
            about_keys,
            "{TOKEN_VARIABLE} of this shell belongs in that file, too."
        );
    }
    match run_all(&commands) {
        Ok(()) if answers(&control).await => {
            print_text(&format!("The service was started.\n\n{about_keys}"))
        }
        Ok(()) => {
            print_text(&about_keys)?;
            anyhow::bail!(
                "the service was started, but nothing answers on {} after {} s. Its log says why:\n  \
                 {}",
                control.address(),
                START_LIMIT.as_secs(),
                service.reading_log()
            )
        }
        Err(why) => {
            print_text(&about_keys)?;
            anyhow::bail!(
                "the service was not started: {why}. To start it, run:\n{}",
                lines(&commands).trim_end()
            )
        }
    }
}

/// Whether the server answers soon.
async fn answers(control: &ControlClient) -> bool {
    let answered = async {
        while control.check_health().await.is_err() {
            sleep(INTERVAL).await;
        }
    };
    timeout(START_LIMIT, answered).await.is_ok()
}

/// Whether the server of this data directory is a service.
fn is_service(config: &Config) -> bool {
    let found = ProcessFile::find(&config.server.data_dir).ok().flatten();
    found.is_some_and(|found| found.server.manager.is_some())
}

/// `respondent service remove`: ends the service and deletes its file and the folders that are
/// empty then.
pub fn remove(inputs: &Inputs, dry_run: bool) -> anyhow::Result<()> {
    let service = UserService::new(inputs);
    let path = service.path.display();
    if !service.is_installed()? {
        let of_package = match service.manager {
            ServiceManager::Systemd => {
                "If a package installed the service, end it with:\n  systemctl --user disable --now respondent\n"
            }
            ServiceManager::Launchd => "",
        };
        return print_text(&format!(
            "There is no service of `respondent service install`: {path} does not exist.\n{of_package}"
        ));
    }
    let mut commands = service.ending();
    if dry_run {
        return print_text(&format!(
            "This is a dry run: nothing was deleted.\n\nWould run:\n{}Would delete {path}.\n",
            lines(&commands)
        ));
    }
    let ended = run_all(&commands);
    let deleted = fs::remove_file(&service.path);
    deleted.with_context(|| format!("{path} cannot be deleted"))?;
    if let Some(folder) = service.path.parent() {
        let wants = folder.join("default.target.wants");
        // Only folders without files can be deleted in this way.
        for folder in [&wants, folder].into_iter().chain(folder.parent()) {
            fs::remove_dir(folder).ok();
        }
    }
    print_text(&format!("Deleted {path}.\n"))?;
    if service.manager == ServiceManager::Systemd {
        let reload = systemctl(&["daemon-reload"]);
        if ended.is_ok() {
            run_all(&reload).ok();
        }
        commands.extend(reload);
    }
    match ended {
        Ok(()) => print_text("The service has ended.\n"),
        Err(why) => anyhow::bail!(
            "the service was not ended: {why}. If it runs, run:\n{}",
            lines(&commands).trim_end()
        ),
    }
}

/// This program and the flags with which it was called, for any working directory.
fn command_line(inputs: &Inputs) -> anyhow::Result<Vec<String>> {
    let flags = &inputs.flags;
    let program = std::env::current_exe().context("this program cannot be found")?;
    let mut words = Vec::new();
    let folders = FOLDERS.map(|name| Some(format!("{name}={}", inputs.environment.get(name)?)));
    let folders: Vec<String> = folders.into_iter().flatten().collect();
    if !folders.is_empty() {
        words.push("/usr/bin/env".to_owned());
        words.extend(folders);
    }
    words.push(program.to_string_lossy().into_owned());
    let [config, token_file, listen, data_dir, log] =
        VARIABLES.map(|name| inputs.environment.get(name));
    for (flag, given, variable) in [
        ("--config", &flags.config, config),
        ("--data-dir", &flags.data_dir, data_dir),
        ("--token-file", &flags.token_file, token_file),
    ] {
        if let Some(path) = given.clone().or(variable.map(PathBuf::from)) {
            let path = absolute(path)?;
            words.extend([flag.to_owned(), path.to_string_lossy().into_owned()]);
        }
    }
    for (flag, given, variable) in [
        ("--listen", &flags.listen, listen),
        ("--log", &flags.log, log),
    ] {
        if let Some(text) = given.clone().or(variable) {
            words.extend([flag.to_owned(), text]);
        }
    }
    words.push("serve".to_owned());
    Ok(words)
}

/// The unit of systemd.
fn unit(words: &[String], keys: &Path) -> String {
    let words: Vec<String> = words.iter().map(|word| systemd_word(word)).collect();
    let keys = keys.to_string_lossy().replace('%', "%%");
    let lines = UNIT.lines().filter_map(|line| match line.split_once('=') {
        Some(("ExecSearchPath", _)) => None,
        Some(("ExecStart", _)) => Some(format!("ExecStart={}", words.join(" "))),
        Some(("EnvironmentFile", _)) => Some(format!("EnvironmentFile=-{keys}")),
        Some(_) | None => Some(line.to_owned()),
    });
    let lines: Vec<String> = lines.collect();
    format!("# {MARK}\n{}\n", lines.join("\n"))
}

/// A word of a command in a unit.
fn systemd_word(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = escaped.replace('%', "%%").replace('$', "$$");
    if escaped == word && !word.contains(char::is_whitespace) && !word.contains([';', '\'']) {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
}

/// The job of launchd.
fn job(words: &[String], keys: &Path) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    let xml = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        text.replace('>', "&gt;")
    };
    let start = xml(&format!("exec {} ", words.join(" ")));
    let keys = xml(&shell_word(&keys.to_string_lossy()));
    let text = JOB.replace("\"$HOME/.config/respondent/keys.env\"", &keys);
    let text = text.replace("exec respondent ", &start);
    text.replacen("<dict>", &format!("<!-- {MARK} -->\n<dict>"), 1)
}

fn systemctl(verbs: &[&str]) -> Vec<Vec<String>> {
    let command = |verb: &&str| match *verb {
        "daemon-reload" => words(&["systemctl", "--user", "daemon-reload"]),
        verb => words(&["systemctl", "--user", verb, "respondent"]),
    };
    verbs.iter().map(command).collect()
}

/// The domain of launchd with the jobs of this user.
fn gui() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Commands as lines for a shell.
fn lines(commands: &[Vec<String>]) -> String {
    let line = |words: &Vec<String>| {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        format!("  {}\n", words.join(" "))
    };
    commands.iter().map(line).collect()
}

/// Runs commands until one fails, and says why.
fn run_all(commands: &[Vec<String>]) -> Result<(), String> {
    for words in commands {
        let Some((program, arguments)) = words.split_first() else {
            continue;
        };
        let output = Command::new(program).args(arguments).output();
        let output = output.map_err(|error| format!("{program} cannot be run ({error})"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().next_back().unwrap_or("nothing");
            return Err(format!("`{}` said: {said}", words.join(" ")));
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    let written = made.and_then(|()| fs::write(path, text));
    written.with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        super::words(words)
    }

    #[test]
    fn a_unit_quotes_what_systemd_would_read_otherwise() {
        let words = line(&["/opt/my %h/respondent", "--config", "/a/$b\"c", "serve"]);
        let text = unit(&words, Path::new("/home/me/.config/respondent/keys.env"));
        let start = "\nExecStart=\"/opt/my %%h/respondent\" --config \"/a/$$b\\\"c\" serve\n";
        assert!(text.contains(start), "{text}");
        let keys = "\nEnvironmentFile=-/home/me/.config/respondent/keys.env\n";
        assert!(text.contains(keys), "{text}");
        assert!(!text.contains("ExecSearchPath"), "{text}");
        assert!(text.starts_with(&format!("# {MARK}\n[Unit]\n")), "{text}");
    }

    #[test]
    fn a_job_quotes_what_a_shell_and_xml_would_read_otherwise() {
        let words = line(&["/opt/a & b/respondent", "serve"]);
        let text = job(&words, Path::new("/Users/me/my keys.env"));
        let start = "exec '/opt/a &amp; b/respondent' serve >>\"$HOME/Library/Logs";
        assert!(text.contains(start), "{text}");
        let keys = "if [ -f '/Users/me/my keys.env' ]; then . '/Users/me/my keys.env'; fi";
        assert!(text.contains(keys), "{text}");
        assert_eq!(text.matches(MARK).count(), 1);
    }
}
