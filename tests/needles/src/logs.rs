//! Logs of servers, and of a machine's journal.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, time_of_day},
};

/// The log of some services, with warnings and errors that are routine.
pub(crate) struct ServerLog;

impl ServerLog {
    fn line(scene: &mut Scene, line: usize, level: &str, text: &str) -> String {
        let (service, module) = (scene.service(), scene.module());
        format!(
            "2026-04-17T{}Z {level:<5} [{service}] {module}: {text}",
            time_of_day(line)
        )
    }
}

impl Generator for ServerLog {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        if scene.is_one_off(110) {
            let (user, number) = (scene.user(), scene.number(2, 64));
            let text = match scene.dice.below(5) {
                0 => format!("configuration read again, {number} keys"),
                1 => format!("worker pool has {number} threads"),
                2 => format!("{user} joined the cluster"),
                3 => format!("log rotated, {number} files kept"),
                _ => format!("slow start finished after {number} s"),
            };
            return Self::line(scene, line, "INFO", &text);
        }
        let (user, id) = (scene.user(), scene.dice.hex(8));
        let (noun, ms) = (scene.noun(), scene.number(2, 900));
        match scene.dice.below(40) {
            0..=13 => Self::line(
                scene,
                line,
                "INFO",
                &format!("GET /v1/{noun}s/{ms} 200 in {ms} ms id={id}"),
            ),
            14..=20 => Self::line(
                scene,
                line,
                "INFO",
                &format!("POST /v1/{noun}s 201 in {ms} ms id={id} user={user}"),
            ),
            21..=26 => Self::line(
                scene,
                line,
                "DEBUG",
                &format!("cache hit for {noun}:{id}, age {ms} s"),
            ),
            27..=30 => Self::line(
                scene,
                line,
                "INFO",
                &format!("user {user} signed in from 10.4.{}.{}", ms % 200, ms % 250),
            ),
            31..=33 => Self::line(
                scene,
                line,
                "DEBUG",
                &format!("took job {id} from queue {noun}, {ms} left"),
            ),
            34..=35 => Self::line(
                scene,
                line,
                "WARN",
                &format!("retry 1 of 3 for {noun} {id}: upstream answered 503"),
            ),
            36 => Self::line(
                scene,
                line,
                "WARN",
                &format!("slow query on {noun}s: {} ms", ms + 1000),
            ),
            37 => Self::line(
                scene,
                line,
                "ERROR",
                &format!("GET /v1/{noun}s/{ms} 404 in {ms} ms id={id}"),
            ),
            38 => Self::line(
                scene,
                line,
                "INFO",
                &format!("GET /healthz 200 in {} ms", ms % 5),
            ),
            _ => Self::line(
                scene,
                line,
                "INFO",
                &format!("stored {ms} rows of {noun} in batch {id}"),
            ),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        if sort == NeedleSort::Odd && scene.dice.one_in(4) {
            // The shape of a common line, and a number that no other has.
            let (noun, id) = (scene.noun(), scene.dice.hex(8));
            let slow = scene.number(200_000, 990_000).to_string();
            let text = format!(
                "POST /v1/{noun}s 201 in {slow} ms id={id} user={}",
                scene.user()
            );
            let text = Self::line(scene, line, "INFO", &text);
            return Needle::new(text, [&slow, &id], &id);
        }
        let levels: &[&str] = match sort {
            NeedleSort::Failure => &["ERROR", "WARN", "INFO"],
            NeedleSort::Odd => &["INFO", "DEBUG"],
            NeedleSort::Instruction => &["WARN", "INFO"],
        };
        let level = scene.dice.pick(levels).to_owned();
        let phrase = scene.phrase(sort);
        phrase.within(Self::line(scene, line, &level, &phrase.text))
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat /var/log/{}/current.log", scene.service())
    }
}

/// The journal of a machine.
pub(crate) struct Journal;

impl Journal {
    fn line(scene: &mut Scene, line: usize, unit: &str, text: &str) -> String {
        let clock = time_of_day(line);
        let clock = clock.split('.').next().unwrap_or_default();
        format!(
            "Apr 17 {clock} node-7 {unit}[{}]: {text}",
            scene.number(300, 9_000)
        )
    }
}

impl Generator for Journal {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let (service, user, number) = (scene.service(), scene.user(), scene.number(10, 900));
        if scene.is_one_off(95) {
            let text = match scene.dice.below(4) {
                0 => format!("Detected architecture x86-64, {number} units loaded."),
                1 => format!("Time has been changed by {number} ms."),
                2 => format!("Reached target {user}.target."),
                _ => format!("Listening on {user}.socket."),
            };
            return Self::line(scene, line, "systemd", &text);
        }
        match scene.dice.below(24) {
            0..=4 => Self::line(
                scene,
                line,
                "systemd",
                &format!("Started {service}.service."),
            ),
            5..=7 => Self::line(
                scene,
                line,
                "systemd",
                &format!("{service}.service: Deactivated successfully."),
            ),
            8..=11 => Self::line(
                scene,
                line,
                "sshd",
                &format!(
                    "Accepted publickey for {user} from 10.9.{}.7 port 4{number}",
                    number % 90
                ),
            ),
            12..=13 => Self::line(
                scene,
                line,
                "sshd",
                &format!(
                    "Failed password for invalid user {user} from 10.2.0.{} port 5{number}",
                    number % 250
                ),
            ),
            14..=16 => Self::line(
                scene,
                line,
                "CRON",
                &format!("({user}) CMD (/usr/local/bin/{service} --sweep)"),
            ),
            17..=18 => Self::line(
                scene,
                line,
                "kernel",
                &format!("[{number}.{line:06}] eth0: link is up at 1000 Mbps"),
            ),
            19..=20 => Self::line(
                scene,
                line,
                &service,
                &format!("accepted connection {number} of {user}"),
            ),
            21 => Self::line(
                scene,
                line,
                "dhclient",
                &format!(
                    "bound to 10.1.0.{} -- renewal in {number} seconds.",
                    number % 250
                ),
            ),
            _ => Self::line(
                scene,
                line,
                "systemd",
                &format!("{service}.service: Consumed {number}ms CPU time."),
            ),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let unit = scene.service();
        let unit = if scene.dice.one_in(2) {
            "kernel".into()
        } else {
            unit
        };
        let phrase = scene.phrase(sort);
        phrase.within(Self::line(scene, line, &unit, &phrase.text))
    }

    fn command(&mut self, _: &mut Scene) -> String {
        "journalctl --no-pager --since today".into()
    }
}
