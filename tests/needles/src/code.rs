//! Source code, and differences between its versions.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, capitalized},
};

/// A language of source code.
#[derive(Clone, Copy)]
enum Syntax {
    Rust,
    Python,
    Script,
}

impl Syntax {
    fn any(scene: &mut Scene) -> Self {
        match scene.dice.below(3) {
            0 => Self::Rust,
            1 => Self::Python,
            _ => Self::Script,
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Rust => "rs",
            Self::Python => "py",
            Self::Script => "ts",
        }
    }

    fn comment(self, text: &str) -> String {
        match self {
            Self::Rust | Self::Script => format!("// {text}"),
            Self::Python => format!("# {text}"),
        }
    }

    fn function(self, scene: &mut Scene, extra: Option<&str>) -> String {
        let (verb, noun, module) = (scene.verb(), scene.noun(), scene.module());
        let (local, field, number) = (scene.noun(), scene.adjective(), scene.number(2, 90));
        let class = capitalized(&module);
        let comment = format!(
            "{}s the {field} {noun} of the {module}.",
            capitalized(&verb)
        );
        let mut body = match self {
            Self::Rust => vec![
                format!("let {local} = self.{module}.{verb}(&{noun})?;"),
                format!(
                    "if {local}.len() > {number} {{\n        return Err({class}Error::TooLong({local}.len()));\n    }}"
                ),
                format!("self.{noun}s.push({local});"),
                format!("debug!(\"{verb} {noun}: {{}}\", self.{noun}s.len());"),
            ],
            Self::Python => vec![
                format!("{local} = self.{module}.{verb}({noun})"),
                format!(
                    "if len({local}) > {number}:\n        raise ValueError(\"{noun} is too long\")"
                ),
                format!("self.{noun}s.append({local})"),
                format!("log.debug(\"{verb} %s\", {local})"),
            ],
            Self::Script => vec![
                format!("const {local} = this.{module}.{verb}({noun});"),
                format!(
                    "if ({local}.length > {number}) {{\n      throw new RangeError(\"{noun} is too long\");\n    }}"
                ),
                format!("this.{noun}s.push({local});"),
                format!("log.debug(`{verb} ${{{local}}}`);"),
            ],
        };
        let dropped = scene.dice.below(body.len() + 1);
        if dropped < body.len() {
            body.remove(dropped);
        }
        match scene.dice.below(30) {
            0 => body.push(self.comment(&format!("TODO: {verb} the {noun} only once"))),
            1..=3 => body.push(self.comment(&scene.sentence())),
            _ => {}
        }
        if let Some(extra) = extra {
            let place = scene.dice.below(body.len() + 1);
            body.insert(place, extra.to_owned());
        }
        let indent = if matches!(self, Self::Script) {
            "\n      "
        } else {
            "\n    "
        };
        let body = body.join(indent);
        let suffix = scene.number(1, 400);
        match self {
            Self::Rust => format!(
                "/// {comment}\npub(crate) fn {verb}_{noun}_{suffix}(&mut self, {noun}: &{class}) -> Result<(), {class}Error> {{\n    {body}\n    Ok(())\n}}\n"
            ),
            Self::Python => format!(
                "def {verb}_{noun}_{suffix}(self, {noun}: {class}) -> None:\n    \"\"\"{comment}\"\"\"\n    {body}\n"
            ),
            Self::Script => format!(
                "  /** {comment} */\n  {verb}{}{suffix}({noun}: {class}): void {{\n      {body}\n  }}\n",
                capitalized(&noun)
            ),
        }
    }

    /// A statement that tells something of this sort.
    fn telling(self, scene: &mut Scene, sort: NeedleSort) -> Needle {
        let (name, number) = (scene.dice.name(), scene.number(10_000, 99_999).to_string());
        let choice = scene.dice.below(4);
        let text = match (sort, self, choice) {
            (NeedleSort::Odd, Self::Rust, 0 | 1) => {
                format!("let {name} = Ipv4Addr::from_bits(0x{number}).to_string();")
            }
            (NeedleSort::Odd, Self::Python, 0 | 1) => {
                format!("{name} = os.environ[\"{}_{number}\"]", name.to_uppercase())
            }
            (NeedleSort::Odd, Self::Script, 0 | 1) => {
                format!("const {name} = window.localStorage.getItem(\"{name}.{number}\");")
            }
            (NeedleSort::Odd, Self::Rust, 2) => {
                format!("std::process::Command::new(\"/opt/{name}/bin/{number}\").spawn()?;")
            }
            (NeedleSort::Odd, Self::Python, 2) => {
                format!("subprocess.run([\"/opt/{name}/bin/{number}\"])")
            }
            (NeedleSort::Odd, Self::Script, 2) => {
                format!("fetch(\"https://{name}.example.net/collect/{number}\");")
            }
            (NeedleSort::Failure, Self::Rust, 0) => {
                format!("unreachable!(\"{name} in state {number}\");")
            }
            (NeedleSort::Failure, Self::Rust, 1) => {
                format!("unsafe {{ {name}_ptr.add({number}).write(0) }};")
            }
            (NeedleSort::Failure, Self::Python, 0) => {
                format!("assert False, \"{name} in state {number}\"")
            }
            (NeedleSort::Failure, Self::Script, 0) => {
                format!("throw new Error(\"{name} in state {number}\");")
            }
            _ => {
                let phrase = scene.phrase(sort);
                let label = match sort {
                    NeedleSort::Failure => "FIXME: ",
                    NeedleSort::Odd | NeedleSort::Instruction => "",
                };
                return phrase.within(self.comment(&format!("{label}{}", phrase.text)));
            }
        };
        Needle {
            evidence: vec![text.clone()],
            text,
            subject: name,
        }
    }
}

/// A long file of source code.
pub(crate) struct SourceCode {
    syntax: Syntax,
    path: String,
}

impl SourceCode {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        let syntax = Syntax::any(scene);
        Self {
            syntax,
            path: scene.path(syntax.extension()),
        }
    }
}

impl Generator for SourceCode {
    fn head(&mut self, _: &mut Scene) -> String {
        match self.syntax {
            Syntax::Rust => "//! Generated bindings.\n\nuse std::net::Ipv4Addr;\n\n",
            Syntax::Python => "import logging\nimport os\n\nlog = logging.getLogger(__name__)\n\n",
            Syntax::Script => "import { log } from \"./log\";\n\nexport class Store {\n",
        }
        .into()
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        if scene.is_one_off(260) {
            let user = scene.user();
            let remark = self
                .syntax
                .comment(&format!("{user} asked for this order."));
            return self.syntax.function(scene, Some(&remark));
        }
        self.syntax.function(scene, None)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let needle = self.syntax.telling(scene, sort);
        let text = self.syntax.function(scene, Some(&needle.text));
        Needle { text, ..needle }
    }

    fn command(&mut self, _: &mut Scene) -> String {
        format!("cat {}", self.path)
    }
}

/// The difference of a change that renames something everywhere.
pub(crate) struct Diff {
    syntax: Syntax,
    old: String,
    new: String,
}

impl Diff {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            syntax: Syntax::any(scene),
            old: scene.dice.name(),
            new: scene.dice.name(),
        }
    }

    fn statement(&self, scene: &mut Scene, name: &str) -> String {
        let (module, verb, noun) = (scene.module(), scene.verb(), scene.noun());
        if scene.dice.one_in(14) {
            return format!("    {}", self.syntax.comment(&scene.sentence()));
        }
        let end = if matches!(self.syntax, Syntax::Python) {
            ""
        } else {
            ";"
        };
        match scene.dice.below(3) {
            0 => format!("    {module}.{verb}({name}.{noun}){end}"),
            1 => format!(
                "    {name}.{verb}_{noun}({module}, {}){end}",
                scene.number(1, 90)
            ),
            _ => format!("    {noun} = {name}.{module}.{verb}(){end}"),
        }
    }

    fn file(&self, scene: &mut Scene, extra: Option<&str>) -> String {
        let path = scene.path(self.syntax.extension());
        let (one, two) = (scene.dice.hex(7), scene.dice.hex(7));
        let mut lines = vec![
            format!("diff --git a/{path} b/{path}"),
            format!("index {one}..{two} 100644"),
            format!("--- a/{path}\n+++ b/{path}"),
        ];
        let hunks = scene.number(1, 4);
        let chosen = scene.dice.below(hunks);
        for hunk in 0..hunks {
            let line = scene.number(3, 900);
            lines.push(format!("@@ -{line},7 +{line},7 @@"));
            lines.extend((0..3).map(|_| self.unchanged(scene)));
            let changed = self.statement(scene, "\u{1}");
            lines.push(format!("-{}", changed.replace('\u{1}', &self.old)));
            lines.push(format!("+{}", changed.replace('\u{1}', &self.new)));
            if hunk == chosen {
                lines.extend(extra.map(str::to_owned));
            }
            lines.extend((0..3).map(|_| self.unchanged(scene)));
        }
        lines.join("\n")
    }

    fn unchanged(&self, scene: &mut Scene) -> String {
        let name = format!("{}_{}", scene.module(), scene.noun());
        format!(" {}", self.statement(scene, &name))
    }
}

impl Generator for Diff {
    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        self.file(scene, None)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, number) = (scene.dice.name(), scene.number(10_000, 99_999).to_string());
        let (extra, evidence) = match (sort, scene.dice.below(3)) {
            (NeedleSort::Failure, 0) => (
                format!(
                    "<<<<<<< HEAD\n    keep_{name}({number})\n=======\n    drop_{name}()\n>>>>>>> {name}"
                ),
                format!("keep_{name}({number})"),
            ),
            (NeedleSort::Odd, 0) => (
                format!("-    {name}_limit = 512\n+    {name}_limit = {number}"),
                format!("{name}_limit = {number}"),
            ),
            (NeedleSort::Odd, 1) => (
                format!("+    allow_from(\"{name}.example.net\", {number})"),
                format!("allow_from(\"{name}.example.net\", {number})"),
            ),
            _ => {
                let needle = self.syntax.telling(scene, sort);
                let sign = if scene.dice.one_in(3) { '-' } else { '+' };
                let extra = format!("{sign}    {}", needle.text);
                let text = self.file(scene, Some(&extra));
                return Needle { text, ..needle };
            }
        };
        Needle::new(self.file(scene, Some(&extra)), [&evidence], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        "git diff main".into()
    }
}
