//! Web pages, documents, prose, and results of a web search.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, capitalized},
};

/// A page of a manual or a shop.
pub(crate) struct HtmlPage {
    manual: bool,
}

impl HtmlPage {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            manual: scene.dice.one_in(2),
        }
    }

    fn block(&self, scene: &mut Scene, extra: &str) -> String {
        let (noun, module) = (scene.noun(), scene.module());
        let (class, id) = (scene.dice.hex(6), scene.number(1, 9_000));
        if self.manual {
            let text = scene.paragraph();
            return format!(
                "<section id=\"{module}-{id}\" class=\"s-{class}\">\n<h3>{} of the {module}</h3>\n<p>{text}</p>\n<ul><li><code>{module}.{noun}</code> &ndash; {}</li><li><a href=\"/manual/{module}#{noun}\">{noun}</a></li></ul>{extra}\n</section>",
                capitalized(&noun),
                scene.sentence(),
            );
        }
        let sentence = scene.sentence();
        format!(
            "<div class=\"card c-{class}\" data-id=\"{id}\"><a href=\"/{module}/{noun}-{id}\"><img src=\"/img/{class}.webp\" alt=\"{noun}\" loading=\"lazy\"></a><h4>{} {noun}</h4><p class=\"text\">{sentence}</p><span class=\"price\">{}.{:02} EUR</span>{extra}<button type=\"button\" class=\"b-{class}\">Add</button></div>",
            capitalized(&scene.adjective()),
            scene.number(3, 190),
            id % 100,
        )
    }
}

impl Generator for HtmlPage {
    fn head(&mut self, scene: &mut Scene) -> String {
        let title = if self.manual { "Manual" } else { "Shop" };
        let styles: Vec<String> = (0..60)
            .map(|_| {
                format!(
                    ".b-{}{{color:#{};margin:{}px}}",
                    scene.dice.hex(6),
                    scene.dice.hex(6),
                    scene.number(0, 30)
                )
            })
            .collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{}</style></head>\n<body><nav><a href=\"/\">Home</a> <a href=\"/help\">Help</a></nav>\n<main>\n",
            styles.join("")
        )
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let extra = match scene.dice.below(18) {
            0 => format!("<p class=\"hint\">{}</p>", scene.sentence()),
            1 => format!("<span class=\"fact\">{}</span>", scene.noun()),
            2 => format!(
                "<div class=\"note\"><strong>{}</strong></div>",
                scene.sentence()
            ),
            _ if scene.is_one_off(800) => format!("<p class=\"by\">Seen by {}</p>", scene.user()),
            _ => String::new(),
        };
        self.block(scene, &extra)
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        "\n</main>\n<footer><p>All prices include tax.</p></footer></body></html>\n".into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let phrase = scene.phrase(sort);
        let text = capitalized(&phrase.text);
        let extra = match (sort, scene.dice.below(3)) {
            (_, 0) => format!("<p>{text}.</p>"),
            (NeedleSort::Odd, _) => format!("<span class=\"fact\">{text}</span>"),
            (_, 1) => format!("<div class=\"note\"><strong>{text}.</strong></div>"),
            _ => format!("<p class=\"hint\">{text}.</p>"),
        };
        Needle {
            evidence: vec![text],
            ..phrase.within(self.block(scene, &extra))
        }
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("curl -s http://127.0.0.1:8080/{}", scene.module())
    }
}

/// The reference of a program in Markdown.
pub(crate) struct Markdown;

impl Markdown {
    fn section(scene: &mut Scene, line: usize, extra: &str) -> String {
        let (module, noun, verb) = (scene.module(), scene.noun(), scene.verb());
        let seconds = scene.number(1, 12) * 5;
        let heading = format!("## {} the {noun} of the {module}", capitalized(&verb));
        match line % 3 {
            0 => format!(
                "{heading}\n\n{}\n\n- `{module}.{noun}`: {} (default: {seconds})\n- `{module}.{verb}`: {} (default: {seconds}){extra}\n",
                scene.paragraph(),
                scene.sentence(),
                scene.sentence()
            ),
            1 => format!(
                "{heading}\n\n{}{extra}\n\n```sh\nshopctl {module} {verb} --{noun} {seconds}\n```\n",
                scene.paragraph()
            ),
            _ => format!(
                "{heading}\n\n{}{extra}\n\n| option | meaning | default |\n|---|---|---|\n| `{noun}` | {} | {seconds} |\n| `{verb}` | {} | on |\n",
                scene.paragraph(),
                scene.sentence(),
                scene.sentence()
            ),
        }
    }
}

impl Generator for Markdown {
    fn head(&mut self, scene: &mut Scene) -> String {
        format!("# Reference\n\n{}\n\n", scene.paragraph())
    }

    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let extra = match scene.dice.below(18) {
            0 => format!("\n\n**Note:** {}", scene.sentence()),
            1 => format!("\n\nKnown issue: {}", scene.sentence()),
            2 => format!("\n\n{}", scene.sentence()),
            _ if scene.is_one_off(700) => {
                format!("\n\n> {} asked for this.", capitalized(&scene.user()))
            }
            _ => String::new(),
        };
        Self::section(scene, line, &extra)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        if sort == NeedleSort::Odd && scene.dice.one_in(2) {
            let (name, number) = (
                scene.dice.name(),
                scene.number(100_000, 900_000).to_string(),
            );
            let extra = format!(
                "\n- `{name}.ceiling`: {} (default: {number})",
                scene.sentence()
            );
            let text = Self::section(scene, line - line % 3, &extra);
            return Needle::new(text, [&format!("{name}.ceiling"), &number], &name);
        }
        let phrase = scene.phrase(sort);
        let text = capitalized(&phrase.text);
        let extra = match (sort, scene.dice.below(3)) {
            (NeedleSort::Failure, 0) => format!("\n\nKnown issue: {text}."),
            (NeedleSort::Instruction, 0) => format!("\n\n**Note:** {text}."),
            (_, 1) => format!(" {text}."),
            _ => format!("\n\n{text}."),
        };
        Needle {
            evidence: vec![text],
            ..phrase.within(Self::section(scene, line, &extra))
        }
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat docs/{}.md", scene.service())
    }
}

/// A report in paragraphs.
pub(crate) struct Prose;

impl Generator for Prose {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let paragraph = scene.paragraph();
        let text = if scene.is_one_off(350) {
            let (user, year) = (capitalized(&scene.user()), scene.number(1890, 1960));
            format!("{paragraph} {user} was there in {year}.")
        } else {
            paragraph
        };
        if line.is_multiple_of(17) {
            format!("Chapter {}\n\n{text}\n", line / 17 + 1)
        } else {
            format!("{text}\n")
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let phrase = scene.phrase(sort);
        let text = capitalized(&phrase.text);
        let (before, after) = (scene.paragraph(), scene.paragraph());
        Needle {
            evidence: vec![text.clone()],
            ..phrase.within(format!("{before} {text}. {after}\n"))
        }
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat notes/{}.txt", scene.noun())
    }
}

/// The results of a web search.
pub(crate) struct SearchResults;

impl SearchResults {
    fn result(scene: &mut Scene, line: usize, snippet: &str, host: Option<&str>) -> String {
        let (module, noun, adjective) = (scene.module(), scene.noun(), scene.adjective());
        let user = scene.user();
        let host = host.map_or_else(|| format!("{user}.example.org"), str::to_owned);
        format!(
            "[{}] {} {noun} of the {module}\nhttps://{host}/{module}/{noun}-{line}\n{snippet}\n",
            line + 1,
            capitalized(&adjective),
        )
    }
}

impl Generator for SearchResults {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let snippet = format!("{} {}", scene.sentence(), scene.sentence());
        Self::result(scene, line, &snippet, None)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let phrase = scene.phrase(sort);
        let text = capitalized(&phrase.text);
        let snippet = format!("{} {text}. {}", scene.sentence(), scene.sentence());
        Needle {
            evidence: vec![text],
            ..phrase.within(Self::result(scene, line, &snippet, None))
        }
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("web_search \"{} {}\"", scene.module(), scene.noun())
    }
}
