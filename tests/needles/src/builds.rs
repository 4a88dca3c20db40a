//! Output of builds, of test runners, and dumps of threads.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, capitalized},
};

/// A build with cargo or make, with many warnings of the same few kinds.
pub(crate) struct BuildLog {
    cargo: bool,
}

impl BuildLog {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            cargo: scene.dice.one_in(2),
        }
    }

    fn cargo_unit(scene: &mut Scene) -> String {
        let (one, two, version) = (scene.module(), scene.user(), scene.version());
        let (file, line) = (scene.path("rs"), scene.number(4, 900));
        if scene.is_one_off(80) {
            return match scene.dice.below(3) {
                0 => format!("     Locking {line} packages to the latest compatible versions"),
                1 => format!("    Updating the index of {two}"),
                _ => format!("       Dirty {one}-{two} v{version}: the file `{file}` has changed"),
            };
        }
        match scene.dice.below(16) {
            0..=6 => format!("   Compiling {one}-{two} v{version}"),
            7..=9 => format!("       Fresh {one}-{two} v{version}"),
            10..=11 => format!("  Downloaded {one}-{two} v{version}"),
            12..=13 => format!("    Checking {one}-{two} v{version} (/build/crates/{one}-{two})"),
            14 => format!(
                "warning: unused variable: `{two}`\n   --> crates/{one}/{file}:{line}:13\n    |\n{line:<3} |     let {two} = {one}.next();\n    |         ^ help: if this is intentional, prefix it with an underscore: `_{two}`\n"
            ),
            _ => format!(
                "warning: field `{one}` is never read\n   --> crates/{one}/{file}:{line}:5\n    |\n{line:<3} |     {one}: u64,\n    |     ^^^^^\n"
            ),
        }
    }

    fn make_unit(scene: &mut Scene) -> String {
        let (one, two) = (scene.module(), scene.user());
        let (dir, line) = (scene.module(), scene.number(4, 900));
        if scene.is_one_off(90) {
            return match scene.dice.below(3) {
                0 => format!("make[1]: Entering directory '/build/{dir}'"),
                1 => format!("  GEN     include/{two}.h"),
                _ => format!("checking whether {two} has {one}... yes"),
            };
        }
        match scene.dice.below(16) {
            0..=7 => format!(
                "cc -O2 -Wall -Iinclude -c -o build/{dir}/{one}_{two}.o {dir}/{one}_{two}.c"
            ),
            8..=9 => format!("  CC      {dir}/{one}_{two}.o"),
            10 => format!("  AR      lib{dir}.a"),
            11 => format!("  LD      {dir}/{two}"),
            12..=13 => format!(
                "{dir}/{one}_{two}.c:{line}:9: warning: unused parameter '{one}' [-Wunused-parameter]"
            ),
            14 => format!(
                "{dir}/{one}.c:{line}:21: warning: comparison of integer expressions of different signedness [-Wsign-compare]\n  {line} |   if ({one} < {dir}_len)"
            ),
            _ => format!("install -m 644 {dir}/{one}.h build/include/"),
        }
    }
}

impl Generator for BuildLog {
    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        if self.cargo {
            Self::cargo_unit(scene)
        } else {
            Self::make_unit(scene)
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, module) = (scene.dice.name(), scene.module());
        let number = scene.number(1000, 9000).to_string();
        let kind = capitalized(&name);
        let build = scene.dice.below(3);
        let (text, evidence) = match (sort, self.cargo, build) {
            (NeedleSort::Failure, true, 0) => (
                format!(
                    "error[E0277]: `{kind}` cannot be sent between threads safely\n   --> crates/{module}/src/{name}.rs:{number}:9"
                ),
                [
                    format!("`{kind}` cannot be sent"),
                    format!("{name}.rs:{number}"),
                ],
            ),
            (NeedleSort::Failure, true, 1) => (
                format!(
                    "error: linking with `cc` failed: exit status: 1\n  = note: undefined reference to `{name}_{number}'"
                ),
                [
                    "linking with `cc` failed".into(),
                    format!("`{name}_{number}'"),
                ],
            ),
            (NeedleSort::Failure, false, 0) => (
                format!(
                    "{module}/{name}.c:{number}:14: error: conflicting types for '{name}_open'"
                ),
                [
                    format!("{name}.c:{number}"),
                    format!("conflicting types for '{name}_open'"),
                ],
            ),
            (NeedleSort::Failure, false, 1) => (
                format!("make[2]: *** [Makefile:{number}: {name}.o] Segmentation fault"),
                [
                    format!("Makefile:{number}: {name}.o"),
                    "Segmentation fault".into(),
                ],
            ),
            (NeedleSort::Odd, true, 0) => (
                format!("   Compiling {module}-{name} v0.0.0 (/home/{name}/patched-{number})"),
                [
                    format!("{module}-{name} v0.0.0"),
                    format!("patched-{number}"),
                ],
            ),
            (NeedleSort::Odd, false, 0) => (
                format!(
                    "cc -O0 -g3 -Iinclude -c -o build/{module}/{name}_{number}.o {module}/{name}_{number}.c"
                ),
                ["-O0 -g3".into(), format!("{name}_{number}.c")],
            ),
            _ => {
                let phrase = scene.phrase(sort);
                let lead = scene
                    .dice
                    .pick(&["note: ", "  = note: ", "", "# "])
                    .to_owned();
                return phrase.within(format!("{lead}{}", phrase.text));
            }
        };
        let [one, two] = &evidence;
        Needle::new(text, [one, two], &name)
    }

    fn tail(&mut self, scene: &mut Scene) -> String {
        let seconds = scene.number(30, 300);
        if self.cargo {
            format!(
                "\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in {seconds}.20s\n"
            )
        } else {
            format!("\nmake: Leaving directory '/build'\nreal {seconds}.12\n")
        }
    }

    fn command(&mut self, _: &mut Scene) -> String {
        if self.cargo {
            "cargo build --workspace"
        } else {
            "make -j8 all"
        }
        .into()
    }
}

/// A runner whose log has a line for each test.
#[derive(Clone, Copy)]
enum Runner {
    Cargo,
    Pytest,
    Jest,
}

/// The log of some thousand tests.
pub(crate) struct TestLog {
    runner: Runner,
}

impl TestLog {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        let runner = match scene.dice.below(3) {
            0 => Runner::Cargo,
            1 => Runner::Pytest,
            _ => Runner::Jest,
        };
        Self { runner }
    }

    fn title(scene: &mut Scene) -> String {
        let (verb, adjective, noun) = (scene.verb(), scene.adjective(), scene.noun());
        match scene.dice.below(3) {
            0 => format!("{verb}s_an_{adjective}_{noun}"),
            1 => format!("{noun}_is_{adjective}_after_{verb}"),
            _ => format!("{verb}_{noun}_{}", scene.number(1, 40)),
        }
    }
}

impl Generator for TestLog {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let (module, title, ms) = (scene.module(), Self::title(scene), scene.number(1, 90));
        let percent = line / 40 % 100;
        if scene.is_one_off(70) {
            let user = scene.user();
            return match scene.dice.below(3) {
                0 => format!(
                    "     Running tests/{user}.rs (target/debug/deps/{user}-{})",
                    scene.dice.hex(16)
                ),
                1 => format!("using fixture {user} with {ms} rows"),
                _ => format!("database {user} created in {ms} ms"),
            };
        }
        match (self.runner, scene.dice.below(30)) {
            (Runner::Cargo, 0) => format!("test {module}::error::{title}_fails ... ok"),
            (Runner::Cargo, 1) => format!("test {module}::{title} ... ignored, needs a network"),
            (Runner::Cargo, _) => format!("test {module}::{title} ... ok"),
            (Runner::Pytest, 0) => {
                format!("tests/test_{module}.py::test_{title}_raises_error PASSED [{percent:>3}%]")
            }
            (Runner::Pytest, 1) => {
                format!("tests/test_{module}.py::test_{title} SKIPPED (no display) [{percent:>3}%]")
            }
            (Runner::Pytest, _) => {
                format!("tests/test_{module}.py::test_{title} PASSED [{percent:>3}%]")
            }
            (Runner::Jest, 0) => format!("PASS src/{module}/{title}.test.ts"),
            (Runner::Jest, 1) => format!(
                "    ✓ throws an error when {} ({ms} ms)",
                title.replace('_', " ")
            ),
            (Runner::Jest, 2) => format!("    ○ skipped {}", title.replace('_', " ")),
            (Runner::Jest, _) => format!("    ✓ {} ({ms} ms)", title.replace('_', " ")),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let (module, name) = (scene.module(), scene.dice.name());
        let number = scene.number(100_000, 900_000).to_string();
        let percent = line / 40 % 100;
        let (title, spaced) = (format!("{name}_{number}"), format!("{name} {number}"));
        let text = match (sort, self.runner, scene.dice.below(3)) {
            (NeedleSort::Failure, Runner::Cargo, 0 | 1) => {
                format!("test {module}::{title} ... FAILED")
            }
            (NeedleSort::Failure, Runner::Pytest, 0 | 1) => {
                format!("tests/test_{module}.py::test_{title} FAILED [{percent:>3}%]")
            }
            (NeedleSort::Failure, Runner::Jest, 0 | 1) => format!("    ✕ {spaced} (31 ms)"),
            (NeedleSort::Odd, Runner::Cargo, 0) => {
                format!("test {module}::{title} ... ok <91.204s>")
            }
            (NeedleSort::Odd, Runner::Pytest, 0) => {
                format!("tests/test_{module}.py::test_{title} XPASS [{percent:>3}%]")
            }
            (NeedleSort::Odd, Runner::Jest, 0) => format!("    ✎ todo {spaced}"),
            _ => {
                let phrase = scene.phrase(sort);
                return phrase.within(phrase.text.clone());
            }
        };
        match self.runner {
            Runner::Jest => Needle::new(text, [&spaced], &name),
            Runner::Cargo | Runner::Pytest => Needle::new(text, [&title], &name),
        }
    }

    fn command(&mut self, _: &mut Scene) -> String {
        match self.runner {
            Runner::Cargo => "cargo test --workspace",
            Runner::Pytest => "pytest -v",
            Runner::Jest => "npx jest --verbose",
        }
        .into()
    }
}

/// A dump of all threads of a process.
pub(crate) struct StackDump;

impl StackDump {
    fn frame(scene: &mut Scene) -> String {
        let (one, two, verb) = (scene.module(), scene.module(), scene.verb());
        let class = capitalized(&two);
        format!(
            "\tat org.example.{one}.{class}.{verb}({class}.java:{})",
            scene.number(10, 900)
        )
    }

    fn thread(scene: &mut Scene, state: &str, odd: Option<&str>) -> String {
        let service = scene.service();
        let (number, address) = (scene.number(1, 90), scene.dice.hex(12));
        let mut frames: Vec<String> = (0..scene.number(4, 12))
            .map(|_| Self::frame(scene))
            .collect();
        if let Some(odd) = odd {
            let place = scene.dice.below(frames.len());
            frames.insert(place, odd.to_owned());
        }
        format!(
            "\"{service}-worker-{number}\" #{number} prio=5 tid=0x{address} {state}\n   java.lang.Thread.State: {state}\n{}\n",
            frames.join("\n")
        )
    }
}

impl Generator for StackDump {
    fn head(&mut self, _: &mut Scene) -> String {
        "2026-04-17 12:00:09\nFull thread dump OpenJDK 64-Bit Server VM (21.0.2+13 mixed mode):\n\n"
            .into()
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let address = scene.dice.hex(12);
        if scene.is_one_off(600) {
            let user = scene.user();
            return Self::thread(
                scene,
                "RUNNABLE",
                Some(&format!("\t- eliminated <owner is {user}>")),
            );
        }
        match scene.dice.below(5) {
            0 => Self::thread(scene, "RUNNABLE", None),
            1 => Self::thread(
                scene,
                "TIMED_WAITING",
                Some(&format!("\t- waiting on <0x{address}>")),
            ),
            2 => Self::thread(
                scene,
                "WAITING",
                Some(&format!("\t- parking to wait for <0x{address}>")),
            ),
            3 => Self::thread(
                scene,
                "WAITING",
                Some(&format!("\t- locked <0x{address}> (a java.lang.Object)")),
            ),
            _ => Self::thread(scene, "TIMED_WAITING", None),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, number) = (scene.dice.name(), scene.number(2000, 9000).to_string());
        let class = capitalized(&name);
        let (state, line, evidence) = match (sort, scene.dice.below(3)) {
            (NeedleSort::Failure, 0 | 1) => {
                let line =
                    format!("\t- waiting to lock <0x{number}{name}> held by \"{name}-{number}\"");
                ("BLOCKED", line, format!("held by \"{name}-{number}\""))
            }
            (NeedleSort::Odd, 0 | 1) => {
                let line =
                    format!("\tat com.{name}.agent.{class}Hook.enter({class}Hook.java:{number})");
                ("RUNNABLE", line, format!("{class}Hook.java:{number}"))
            }
            _ => {
                let phrase = scene.phrase(sort);
                let line = format!("\t- note: {}", phrase.text);
                return phrase.within(Self::thread(scene, "RUNNABLE", Some(&line)));
            }
        };
        Needle::new(Self::thread(scene, state, Some(&line)), [&evidence], &name)
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("jstack {}", scene.number(300, 9000))
    }
}
