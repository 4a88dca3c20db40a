//! Hits of a search in files, and minified scripts.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene},
};

/// The hits of a word in many files.
pub(crate) struct Hits {
    word: String,
}

impl Hits {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            word: format!("{}_{}", scene.verb(), scene.module()),
        }
    }
}

impl Generator for Hits {
    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let (path, line) = (scene.path("rs"), scene.number(2, 1_400));
        let (module, noun, word) = (scene.module(), scene.noun(), &self.word);
        if scene.is_one_off(80) {
            let user = scene.user();
            return format!("tests/{user}.rs:{line}:    // {user} calls {word} twice");
        }
        match scene.dice.below(14) {
            0..=6 => format!("{path}:{line}:    let {noun} = {module}.{word}(&{noun})?;"),
            7..=9 => format!(
                "{path}:{line}:        self.{module}.{word}({});",
                scene.number(1, 90)
            ),
            10 => format!("{path}:{line}:use crate::{module}::{word};"),
            11 => format!(
                "tests/{module}.rs:{line}:    assert_eq!({word}(\"{noun}\"), {});",
                scene.number(1, 90)
            ),
            12 => format!("{path}:{line}:        log::error!(\"{word}: {{error}}\");"),
            _ => format!("docs/{module}.md:{line}:The {noun} is what `{word}` returns."),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, number) = (scene.dice.name(), scene.number(10_000, 99_999).to_string());
        let (module, line, word) = (scene.module(), scene.number(2, 1_400), &self.word);
        if sort == NeedleSort::Odd && !scene.dice.one_in(3) {
            let (text, evidence) = match scene.dice.below(3) {
                0 => (
                    format!("deploy/{name}.env:{line}:{}={number}", word.to_uppercase()),
                    format!("={number}"),
                ),
                1 => (
                    format!("src/{module}/{name}.rs:{line}:    {word}_unchecked({number});"),
                    format!("{word}_unchecked({number})"),
                ),
                _ => (
                    format!(
                        "vendor/{name}/lib.c:{line}:static int {word}(void *p) {{ return {number}; }}"
                    ),
                    format!("return {number};"),
                ),
            };
            return Needle::new(text, [&name, &evidence], &name);
        }
        let phrase = scene.phrase(sort);
        let text = format!(
            "src/{module}/{name}.rs:{line}:    // {word}: {}",
            phrase.text
        );
        phrase.within(text)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        format!("grep -rn {} .", self.word)
    }
}

/// A script without line ends.
pub(crate) struct Minified;

impl Minified {
    fn short(scene: &mut Scene) -> String {
        const LETTERS: [&str; 12] = ["a", "b", "c", "d", "e", "n", "o", "r", "s", "t", "u", "x"];
        let (one, two) = (scene.dice.pick(&LETTERS), scene.dice.below(40));
        if two < 12 {
            one.to_owned()
        } else {
            format!("{one}{two}")
        }
    }
}

impl Generator for Minified {
    fn head(&mut self, _: &mut Scene) -> String {
        "/*! shop v4.2.1 | MIT */!function(e,t){\"use strict\";".into()
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let (f, a, b) = (Self::short(scene), Self::short(scene), Self::short(scene));
        let (verb, noun, number) = (scene.verb(), scene.noun(), scene.number(1, 990));
        if scene.is_one_off(80) {
            return format!("{f}.version=\"{}.{number}\";", scene.user());
        }
        match scene.dice.below(12) {
            10 => format!("{f}.log(\"{noun} {verb} {number}\");"),
            11 => format!("{a}.warn(\"slow {noun}\",{b});"),
            0..=2 => format!(
                "function {f}({a},{b}){{return {a}.{verb}?{b}[{number}]:{a}.{noun}({b},{number})}}"
            ),
            3..=4 => format!("var {f}={a}.{noun}({number}),{b}={f}&&{f}.{verb};"),
            5..=6 => format!(
                "{a}.prototype.{verb}=function({b}){{var {f}=this.{noun};return null==={b}?{f}:{b}}};"
            ),
            7 => format!(
                "Object.defineProperty({a},\"{noun}\",{{get:function(){{return {b}.{verb}}}}});"
            ),
            8 => format!("if({number}!==typeof {a})throw new TypeError(\"{noun}\");"),
            _ => format!("{a}.exports={{{verb}:{f},{noun}:\"{noun}-{verb}\"}};"),
        }
    }

    fn between(&self) -> &'static str {
        ""
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        "}(window,document);".into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (f, a) = (Self::short(scene), Self::short(scene));
        let (name, number) = (scene.dice.name(), scene.number(10_000, 99_999).to_string());
        let (text, evidence) = match (sort, scene.dice.below(3)) {
            (NeedleSort::Odd, 0) => {
                let url = format!("https://{name}.example.net/v{number}/ingest");
                (
                    format!(
                        "function {f}({a}){{return fetch(\"{url}\",{{method:\"POST\",body:{a}}})}}"
                    ),
                    url,
                )
            }
            (NeedleSort::Odd, 1) => {
                let key = format!("pk_live_{name}{number}");
                (format!("var {f}={{key:\"{key}\"}};"), key)
            }
            (NeedleSort::Failure, 0) => {
                let message = format!("{name} in state {number}");
                (format!("default:throw Error(\"{message}\")"), message)
            }
            _ => {
                let phrase = scene.phrase(sort);
                let text = match sort {
                    NeedleSort::Instruction => format!("{f}.warn(\"{}\");", phrase.text),
                    NeedleSort::Failure | NeedleSort::Odd => {
                        format!("{f}.log(\"{}\");", phrase.text)
                    }
                };
                return phrase.within(text);
            }
        };
        Needle::new(text, [&evidence], &name)
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat dist/{}.min.js", scene.service())
    }
}
