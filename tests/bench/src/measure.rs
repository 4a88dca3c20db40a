//! Figures from the kernel about a process and the machine.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context;

/// The CPU time that a process has used up to a moment.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// The CPU time of each living task in ns, from `/proc/<pid>/task/*/schedstat`.
    tasks: BTreeMap<String, u64>,
    /// The CPU time of the whole process including ended tasks, in ns with steps of 10 ms, from
    /// `/proc/<pid>/stat`.
    total: u64,
}

/// `/proc/<pid>/stat` counts in ticks of this many ns (`USER_HZ` is 100 everywhere).
const TICK: u64 = 10_000_000;

impl Cpu {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let mut tasks = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            // A task may end between the listing and the read.
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let ran = text.split(' ').next().and_then(|ns| ns.parse().ok());
            if let Some(ran) = ran {
                tasks.insert(task.file_name().to_string_lossy().into_owned(), ran);
            }
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let total = ticks(&stat).context("unreadable stat")? * TICK;
        Ok(Self { tasks, total })
    }

    /// The CPU time from `before` to `self`, ns.
    ///
    /// The sum over the tasks is exact but lacks tasks that have ended; the total of the process
    /// includes these but has steps of 10 ms. So the sum is used, unless a task has ended, or the
    /// total exceeds the sum by more than its steps explain (a task started and ended in between).
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let total = self.total.saturating_sub(before.total);
        let sum = |cpu: &Self| cpu.tasks.values().sum::<u64>();
        let exact = sum(self).saturating_sub(sum(before));
        let gone = before
            .tasks
            .keys()
            .any(|task| !self.tasks.contains_key(task));
        if gone || self.tasks.is_empty() || total > exact + 2 * TICK {
            total
        } else {
            exact
        }
    }
}

/// Waits until a process is idle and returns its CPU time, so that work after the last byte of the
/// response counts as well.
///
/// A process is idle if it uses less than 2 % of a CPU for 50 ms. The wait ends after 20 s.
pub(crate) async fn when_idle(pid: u32) -> anyhow::Result<Cpu> {
    const INTERVAL: Duration = Duration::from_millis(50);
    let mut last = Cpu::of(pid)?;
    for _ in 0..400 {
        tokio::time::sleep(INTERVAL).await;
        let now = Cpu::of(pid)?;
        if now.since(&last) < 1_000_000 {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

/// The sum of the user and system ticks, fields 14 and 15. They are counted from the end of the
/// name, which may contain spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The resident memory of a process, in KB of 1024 bytes.
pub(crate) fn rss_kb(pid: u32) -> anyhow::Result<u64> {
    field(&format!("/proc/{pid}/status"), "VmRSS")
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .context("no VmRSS")
}

/// Runs `work`, and returns its result and the highest RSS of the process in KB. The RSS is sampled
/// every 50 ms.
pub(crate) async fn with_peak_rss<T>(pid: u32, work: impl Future<Output = T>) -> (T, u64) {
    let mut work = std::pin::pin!(work);
    let mut samples = tokio::time::interval(Duration::from_millis(50));
    let mut peak = 0;
    loop {
        tokio::select! {
            result = &mut work => return (result, peak),
            _ = samples.tick() => peak = peak.max(rss_kb(pid).unwrap_or(0)),
        }
    }
}

/// The nearest-rank quantile, given in thousandths; 0 if there are no values.
pub(crate) fn quantile(values: &mut [u64], thousandths: usize) -> u64 {
    values.sort_unstable();
    let rank = (values.len() * thousandths).div_ceil(1000).max(1);
    values.get(rank - 1).copied().unwrap_or(0)
}

/// A count or a time as a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and times stay far below 2^53"
)]
pub(crate) fn to_f64(number: u64) -> f64 {
    number as f64
}

/// One line with the cores, processor, kernel, date and load of the machine.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let date = std::process::Command::new("date")
        .args(["-u", "+%F %H:%M UTC"])
        .output()
        .map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned())
        .unwrap_or_default();
    let (kernel, load) = (kernel.trim(), load.join(" "));
    format!("{cores} cores, {model}, Linux {kernel}; {date}; loadavg {load}")
}

/// The value of the first line `name: value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(tasks: &[(&str, u64)], total: u64) -> Cpu {
        let tasks = tasks.iter().map(|(id, ns)| ((*id).to_owned(), *ns));
        Cpu {
            tasks: tasks.collect(),
            total,
        }
    }

    #[test]
    fn ended_tasks_are_counted() {
        let before = cpu(&[("1", 100), ("2", 50)], TICK);
        assert_eq!(
            cpu(&[("1", 300), ("2", 50), ("3", 7)], TICK).since(&before),
            207
        );
        assert_eq!(cpu(&[("1", 300)], 2 * TICK).since(&before), TICK);
        let ended_between = cpu(&[("1", 300), ("2", 50)], 5 * TICK);
        assert_eq!(ended_between.since(&before), 4 * TICK);
    }

    #[test]
    fn a_name_with_spaces_does_not_shift_the_fields() {
        let stat = "1 (a ) b) S 1 1 1 0 -1 4194304 5 6 7 8 30 12 0 0 20 0 3 0";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn quantiles_are_nearest_rank() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut values, 500), 50);
        assert_eq!(quantile(&mut values, 990), 99);
        assert_eq!(quantile(&mut [], 500), 0);
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();
        assert!(rss_kb(pid).unwrap() > 0);
        assert!(!Cpu::of(pid).unwrap().tasks.is_empty());
    }
}
