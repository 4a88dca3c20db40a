//! Tables and listings as commands print them.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene},
};

/// The table of a cluster's pods or of a machine's processes.
pub(crate) struct Table {
    pods: bool,
}

impl Table {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            pods: scene.dice.one_in(2),
        }
    }

    fn pod(
        name: &str,
        ready: &str,
        state: &str,
        restarts: usize,
        age: usize,
        node: &str,
    ) -> String {
        format!(
            "{name:<44} {ready:<6} {state:<18} {restarts:<9} {age}d     10.42.{}.{:<4} {node}",
            age % 8,
            age * 7 % 250
        )
    }

    fn process(scene: &mut Scene, user: &str, cpu: usize, memory: usize, command: &str) -> String {
        let pid = scene.number(300, 64_000);
        let (hour, minute) = (scene.number(0, 23), scene.number(10, 59));
        format!(
            "{user:<10} {pid:>6} {:>4}.{} {:>4}.{} {:>9} {:>7} ?        S    {hour:02}:{minute} {command}",
            cpu / 10,
            cpu % 10,
            memory / 10,
            memory % 10,
            memory * 4_117 + 90_211,
            memory * 911 + 4_100,
        )
    }
}

impl Generator for Table {
    fn head(&mut self, _: &mut Scene) -> String {
        if self.pods {
            format!(
                "{:<44} {:<6} {:<18} {:<9} AGE     IP             NODE\n",
                "NAME", "READY", "STATUS", "RESTARTS"
            )
        } else {
            "USER          PID   %CPU   %MEM       VSZ     RSS TTY      STAT START COMMAND\n".into()
        }
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let (service, module, user) = (scene.service(), scene.module(), scene.user());
        if self.pods {
            let name = format!(
                "{service}-{module}-{}-{}",
                scene.dice.hex(9),
                scene.dice.hex(5)
            );
            let restarts = if scene.dice.one_in(5) {
                scene.number(1, 6)
            } else {
                0
            };
            let (age, node) = (scene.number(1, 90), scene.number(1, 24));
            let node = format!("worker-{node}");
            return match scene.dice.below(30) {
                0 => Self::pod(&name, "0/1", "Completed", 0, age, &node),
                1 => Self::pod(&name, "0/1", "Error", restarts, age, &node),
                2 => Self::pod(&name, "0/1", "Pending", 0, 0, "<none>"),
                3 => Self::pod(&name, "2/2", "Running", restarts, age, &node),
                _ => Self::pod(&name, "1/1", "Running", restarts, age, &node),
            };
        }
        let (cpu, memory) = (scene.number(0, 31), scene.number(0, 24));
        let command = match scene.dice.below(8) {
            0..=3 => format!(
                "/usr/bin/{service} --module {module} --listen 127.0.0.1:{}",
                scene.number(8000, 8999)
            ),
            4 => format!("[kworker/{}:{}-{module}]", cpu % 8, memory % 4),
            5 => format!("python3 /srv/{service}/{module}.py --user {user}"),
            6 => format!("postgres: {service} {user} idle"),
            _ => format!("nginx: worker process for {service}"),
        };
        let owner = if scene.dice.one_in(3) { user } else { service };
        Self::process(scene, &owner, cpu, memory, &command)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (service, name, choice) = (scene.service(), scene.dice.name(), scene.dice.below(3));
        let number = scene.number(20_000, 60_000).to_string();
        if self.pods {
            let pod = format!(
                "{service}-{name}-{}-{}",
                scene.dice.hex(9),
                scene.dice.hex(5)
            );
            let states = [
                "CrashLoopBackOff",
                "OOMKilled",
                "ImagePullBackOff",
                "Evicted",
            ];
            return match (sort, choice) {
                (NeedleSort::Failure, _) => {
                    let state = scene.dice.pick(&states).to_owned();
                    let text = Self::pod(&pod, "0/1", &state, 3, 2, "worker-4");
                    Needle::new(text, [&pod, &state], &name)
                }
                (NeedleSort::Odd, 0) => {
                    let text = Self::pod(
                        &pod,
                        "1/1",
                        "Running",
                        number.parse().unwrap_or(20_000),
                        40,
                        "worker-4",
                    );
                    Needle::new(text, [&pod, &number], &name)
                }
                (NeedleSort::Odd, _) => {
                    let node = format!("laptop-of-{name}");
                    let text = Self::pod(&pod, "1/1", "Running", 0, 40, &node);
                    Needle::new(text, [&pod, &node], &name)
                }
                (NeedleSort::Instruction, _) => {
                    let words = [
                        "do-not-evict",
                        "never-restart",
                        "dont-delete",
                        "do-not-scale",
                    ];
                    let pod = format!("{}-{name}-{number}", scene.dice.pick(&words));
                    let text = Self::pod(&pod, "1/1", "Running", 0, 40, "worker-4");
                    Needle::new(text, [&pod], &name)
                }
            };
        }
        let (cpu, command) = match (sort, choice) {
            (NeedleSort::Failure, 0) => (0, format!("[{service}-{name}] <defunct {number}>")),
            (NeedleSort::Failure, _) => (
                0,
                format!("/usr/bin/{service} --report-crash {name}-{number}"),
            ),
            (NeedleSort::Odd, 0) => (
                9_990,
                format!("/usr/bin/{service} --module {name} --listen 127.0.0.1:{number}"),
            ),
            (NeedleSort::Odd, _) => (4, format!("/home/{name}/.cache/miner --wallet {number}")),
            (NeedleSort::Instruction, _) => (
                1,
                format!("/usr/bin/{service} --note do-not-kill-before-{name}-{number}"),
            ),
        };
        let text = Self::process(scene, &service, cpu, 3, &command);
        Needle::new(text, [&command], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        if self.pods {
            "kubectl get pods -A -o wide"
        } else {
            "ps auxww"
        }
        .into()
    }
}

/// A long listing of files.
pub(crate) struct Listing;

impl Listing {
    fn entry(scene: &mut Scene, mode: &str, owner: &str, size: usize, name: &str) -> String {
        let (day, hour) = (scene.number(1, 28), scene.number(10, 23));
        format!("{mode} 1 {owner:<8} staff {size:>10} Mar {day:>2} {hour}:07 {name}")
    }
}

impl Generator for Listing {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let (service, module, noun) = (scene.service(), scene.module(), scene.noun());
        if line.is_multiple_of(37) {
            return format!(
                "\n./{service}/{module}/{noun}:\ntotal {}",
                scene.number(40, 900)
            );
        }
        let (user, size) = (scene.user(), scene.number(200, 90_000));
        match scene.dice.below(12) {
            0 => Self::entry(scene, "drwxr-xr-x", "deploy", 4096, &module),
            1 => Self::entry(scene, "-rwxr-xr-x", "deploy", size, &format!("{module}.sh")),
            2 => Self::entry(
                scene,
                "lrwxrwxrwx",
                "deploy",
                18,
                &format!("latest -> {noun}.{size}.log"),
            ),
            3 => Self::entry(scene, "-rw-r--r--", "deploy", 0, &format!("{noun}.error")),
            4..=6 => Self::entry(scene, "-rw-r--r--", "deploy", size, &format!("{user}.yaml")),
            _ => Self::entry(
                scene,
                "-rw-r--r--",
                "deploy",
                size,
                &format!("{noun}_{module}.{line}.log"),
            ),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, choice) = (scene.dice.name(), scene.dice.below(3));
        let number = scene.number(1_000, 9_999).to_string();
        let words: &[&str] = match sort {
            NeedleSort::Failure => &["core", "crash", "corrupt", "lost+found"],
            NeedleSort::Odd => &["backup", "old", "private", "x"],
            NeedleSort::Instruction => &[
                "DO_NOT_DELETE",
                "never-commit",
                "do-not-open",
                "NOT-FOR-RELEASE",
            ],
        };
        let word = scene.dice.pick(words).to_owned();
        let file = match sort {
            NeedleSort::Instruction => format!("{word}.{name}.{number}.txt"),
            NeedleSort::Failure => format!("{word}.{name}.{number}"),
            NeedleSort::Odd => format!("{name}_{word}.{number}"),
        };
        let (mode, owner, size) = match (sort, choice) {
            (NeedleSort::Odd, 0) => ("-rwsr-xr-x", "root", 90_211),
            (NeedleSort::Odd, 1) => ("-rw-rw-rw-", "nobody", 5_114),
            (NeedleSort::Odd, _) => ("-rw-r--r--", "deploy", 48_318_382_080),
            _ => ("-rw-r--r--", "deploy", 4_096),
        };
        let text = Self::entry(scene, mode, owner, size, &file);
        Needle::new(text, [&file], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        "ls -lR .".into()
    }
}
