//! Logs whose entries have stack traces below them, and lists of settings and measurements that
//! have a line each.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, time_of_day},
};

/// How a language writes the trace of an exception.
#[derive(Clone, Copy)]
enum Language {
    Java,
    Python,
    Go,
}

/// A log with stack traces.
#[derive(Clone, Copy)]
pub(crate) struct TraceLog {
    language: Language,
}

/// Exceptions that occur again and again.
const USUAL: [&str; 4] = [
    "cart is locked by another request",
    "upstream answered 503, giving up",
    "no such coupon",
    "client closed the connection",
];

impl TraceLog {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        let languages = [Language::Java, Language::Python, Language::Go];
        let place = scene.dice.below(languages.len());
        let language = languages.get(place).copied().unwrap_or(Language::Java);
        Self { language }
    }

    fn frames(self, scene: &mut Scene, count: usize) -> Vec<String> {
        let frame = |scene: &mut Scene| {
            let (module, verb, line) = (scene.module(), scene.verb(), scene.number(10, 400));
            match self.language {
                Language::Java => {
                    format!("\tat org.example.{module}.Handler.{verb}(Handler.java:{line})")
                }
                Language::Python => format!(
                    "  File \"/srv/app/{module}.py\", line {line}, in {verb}\n    return self.{verb}(request)"
                ),
                Language::Go => format!(
                    "example.org/shop/{module}.{verb}(0xc000{line})\n\t/srv/shop/{module}/{verb}.go:{line} +0x1d"
                ),
            }
        };
        (0..count).map(|_| frame(scene)).collect()
    }

    /// The entry with this exception. Something may stand in the middle of its trace.
    fn entry(
        self,
        scene: &mut Scene,
        line: usize,
        what: &str,
        odd: Option<&str>,
    ) -> (String, String) {
        let id = scene.dice.hex(9);
        let noun = scene.noun();
        let count = scene.number(5, 14);
        let mut frames = self.frames(scene, count);
        frames.extend(odd.map(str::to_owned));
        let more = self.frames(scene, 3).join("\n");
        let frames = frames.join("\n");
        let clock = time_of_day(line);
        let trace = match self.language {
            Language::Java => format!(
                "java.lang.IllegalStateException: {noun} was not handled\n{frames}\nCaused by: org.example.ShopException: {what}\n{more}\n\t... 42 more"
            ),
            Language::Python => {
                format!("Traceback (most recent call last):\n{frames}\n{more}\nShopError: {what}")
            }
            Language::Go => format!(
                "panic: {what} [recovered]\n\ngoroutine {line} [running]:\n{frames}\n{more}"
            ),
        };
        let text = format!("2026-04-17T{clock} ERROR request {id} failed on {noun}\n{trace}");
        (text, id)
    }
}

impl Generator for TraceLog {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let (noun, user, ms) = (scene.noun(), scene.user(), scene.number(2, 400));
        let clock = time_of_day(line);
        if scene.dice.one_in(12) {
            let what = scene.dice.skewed(&USUAL).to_owned();
            return self.entry(scene, line, &what, None).0;
        }
        if scene.is_one_off(120) {
            return format!("2026-04-17T{clock} INFO reloaded {noun} for {user}");
        }
        match scene.dice.below(9) {
            0 => format!("2026-04-17T{clock} WARN {noun} is slow: {ms} ms"),
            1..=3 => format!("2026-04-17T{clock} INFO {user} read {ms} rows of {noun}"),
            _ => format!(
                "2026-04-17T{clock} INFO request {} for {noun} took {ms} ms",
                scene.dice.hex(9)
            ),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        if sort == NeedleSort::Odd && scene.dice.one_in(2) {
            let (name, number) = (scene.dice.name(), scene.number(1_000, 9_000));
            let frame = match self.language {
                Language::Java => {
                    format!("\tat net.{name}.shim.Agent.intercept(Agent.java:{number})")
                }
                Language::Python => {
                    format!("  File \"/tmp/{name}/patch.py\", line {number}, in wrapped")
                }
                Language::Go => format!("{name}.net/shim.Intercept(0xc000{number})"),
            };
            let what = scene.dice.pick(&USUAL).to_owned();
            let (text, id) = self.entry(scene, line, &what, Some(&frame));
            return Needle::new(text, [frame.trim_start(), &id], &name);
        }
        let phrase = scene.phrase(sort);
        let (text, id) = self.entry(scene, line, &phrase.text, None);
        let mut needle = phrase.within(text);
        needle.evidence.push(id);
        needle
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat logs/{}.log", scene.service())
    }
}

/// Parts of the keys of usual settings.
const TROUBLE: [&str; 5] = ["error", "fail", "panic", "reject", "timeout"];

/// A list of settings or measurements, each on a line and with a key of its own.
#[derive(Clone, Copy)]
pub(crate) enum KeyList {
    Kernel,
    Environment,
    Metrics,
}

impl KeyList {
    fn key(self, scene: &mut Scene) -> String {
        let (service, module, noun, verb) =
            (scene.service(), scene.module(), scene.noun(), scene.verb());
        match self {
            Self::Kernel => {
                let ends = [
                    "max",
                    "min",
                    "timeout",
                    "on_error",
                    "panic_limit",
                    "retries",
                    "hard_fail",
                ];
                let end = scene.dice.pick(&ends);
                format!("{service}.{module}.{noun}_{verb}_{end}").replace('-', "_")
            }
            Self::Environment => {
                let ends = [
                    "URL",
                    "LIMIT",
                    "ON_ERROR",
                    "TIMEOUT_MS",
                    "FAIL_FAST",
                    "SECRET_REF",
                ];
                let end = scene.dice.pick(&ends);
                format!("{service}_{module}_{noun}_{end}")
                    .replace('-', "_")
                    .to_uppercase()
            }
            Self::Metrics => {
                let service = service.replace('-', "_");
                let what = scene
                    .dice
                    .pick(&["errors", "requests", "rejected", "bytes"]);
                format!(
                    "{service}_{module}_{what}_total{{host=\"node-{line}\",verb=\"{verb}\",code=\"{code}\"}}",
                    line = scene.number(1, 40),
                    code = scene.dice.pick(&["200", "404", "500"])
                )
            }
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Kernel => " = ",
            Self::Environment => "=",
            Self::Metrics => " ",
        }
    }

    fn value(self, scene: &mut Scene, key: &str) -> String {
        let number = scene.number(0, 40);
        match self {
            Self::Metrics => scene.number(0, 9_000).to_string(),
            Self::Environment if key.ends_with("URL") => {
                format!("http://{}.internal:80{number:02}", scene.service())
            }
            Self::Environment if key.ends_with("REF") => format!("vault:{}", scene.module()),
            Self::Environment if key.ends_with("FAST") => (!number.is_multiple_of(3)).to_string(),
            _ if key.ends_with("error") || key.ends_with("ERROR") => {
                scene.dice.skewed(&["retry", "abort", "skip"]).to_owned()
            }
            _ => (number * [1, 10, 512].get(number % 3).unwrap_or(&1)).to_string(),
        }
    }
}

impl Generator for KeyList {
    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let key = self.key(scene);
        let comment = scene.dice.one_in(30) || scene.is_one_off(45);
        if comment && !matches!(self, Self::Kernel) {
            return format!(
                "# {} of the {} {}",
                scene.noun(),
                scene.adjective(),
                scene.noun()
            );
        }
        let value = self.value(scene, &key);
        format!("{key}{}{value}", self.sign())
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let name = scene.dice.name();
        let mut key = self.key(scene);
        // Of an odd value not even the key tells of trouble.
        while TROUBLE.iter().any(|word| key.to_lowercase().contains(word)) {
            key = self.key(scene);
        }
        let phrase = scene.phrase(sort);
        let value = match (sort, scene.dice.below(4)) {
            (NeedleSort::Odd, 0) => scene.number(70_000_000, 990_000_000).to_string(),
            (NeedleSort::Odd, 1) if !matches!(self, Self::Metrics) => format!("/opt/{name}/hook"),
            (NeedleSort::Odd, 2) if !matches!(self, Self::Metrics) => name.clone(),
            (NeedleSort::Odd, _) if matches!(self, Self::Metrics) => {
                let key = key.replace("verb=", &format!("{name}=\"1\",verb="));
                return Needle::new(format!("{key} 3"), [&key], &name);
            }
            (NeedleSort::Failure | NeedleSort::Odd, 3) if matches!(self, Self::Kernel) => {
                format!("({})", phrase.text)
            }
            _ => return phrase.within(format!("# {}", phrase.text)),
        };
        let text = format!("{key}{}{value}", self.sign());
        Needle::new(text.clone(), [&text], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        match self {
            Self::Kernel => "sysctl -a",
            Self::Environment => "cat .env",
            Self::Metrics => "curl -s localhost:9090/metrics",
        }
        .into()
    }
}
