//! The text of an HTML page, without its tags, scripts and styles.

/// An excerpt does not need more bytes of text than this.
const MAX_TEXT_BYTES: usize = 96 * 1024;

/// Whether a text has HTML tags.
pub(super) fn is_tagged(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), b"</").is_some()
}

/// The text between the tags, with a heading as `# …`, a link as `[text](address)`, and a
/// line end where a block begins. A long text is cut.
pub(super) fn plain(html: &str) -> String {
    let mut page = HtmlText::default();
    let mut rest = html;
    while let Some(at) = memchr::memchr(b'<', rest.as_bytes()) {
        let (text, tagged) = rest.split_at_checked(at).unwrap_or((rest, ""));
        page.text(text);
        if page.out.len() > MAX_TEXT_BYTES {
            rest = "";
            break;
        }
        if let Some(comment) = tagged.strip_prefix("<!--") {
            rest = behind(comment, "-->");
            continue;
        }
        let inside = tagged.get(1..).unwrap_or_default();
        let is_tag = inside.starts_with(|first: char| {
            first.is_ascii_alphabetic() || matches!(first, '/' | '!' | '?')
        });
        let Some(end) = memchr::memchr(b'>', inside.as_bytes()).filter(|_| is_tag) else {
            page.text("<");
            rest = inside;
            continue;
        };
        let tag = inside.get(..end).unwrap_or_default();
        rest = inside.get(end + 1..).unwrap_or_default();
        let name = name(tag).to_ascii_lowercase();
        if matches!(
            name.as_str(),
            "script" | "style" | "svg" | "noscript" | "template" | "iframe"
        ) && !tag.ends_with('/')
        {
            rest = behind_element(rest, &name);
            continue;
        }
        page.tag(&name, tag);
    }
    page.text(rest);
    page.out
}

#[derive(Default)]
struct HtmlText {
    out: String,
    /// Where the text of the open link begins, and its address.
    link: Option<(usize, String)>,
}

impl HtmlText {
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first == '&'
                && let Some((character, behind)) = entity(rest)
            {
                self.out.push(character);
                rest = behind;
                continue;
            }
            if first.is_whitespace() {
                let gap = rest.len() - rest.trim_start().len();
                let lines = rest.get(..gap).is_some_and(|gap| gap.contains('\n'));
                self.gap(lines);
                rest = rest.trim_start();
                continue;
            }
            let end = rest
                .find(|next: char| next == '&' || next.is_whitespace())
                .filter(|end| *end > 0)
                .unwrap_or(
                    first
                        .len_utf8()
                        .max(if rest.contains(['&', ' ', '\n', '\t']) {
                            first.len_utf8()
                        } else {
                            rest.len()
                        }),
                );
            let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.out.push_str(word);
            rest = behind;
        }
    }

    fn gap(&mut self, line: bool) {
        if self.out.is_empty() || self.out.ends_with('\n') {
            return;
        }
        if line {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            self.out.push('\n');
        } else if !self.out.ends_with(' ') {
            self.out.push(' ');
        }
    }

    fn tag(&mut self, name: &str, tag: &str) {
        let (closes, name) = match name.strip_prefix('/') {
            Some(name) => (true, name),
            None => (false, name),
        };
        match name {
            "a" if closes => self.close_link(),
            "a" => {
                self.close_link();
                let address = address(tag).filter(|address| address.starts_with("http"));
                self.link = address.map(|address| (self.out.len(), address.to_owned()));
            }
            "h1" | "h2" | "h3" | "h4" | "title" => {
                self.gap(true);
                if !closes {
                    self.out.push_str("# ");
                }
            }
            "li" if !closes => {
                self.gap(true);
                self.out.push_str("- ");
            }
            "p" | "div" | "br" | "br/" | "ul" | "ol" | "li" | "tr" | "table" | "section"
            | "article" | "header" | "footer" | "nav" | "main" | "pre" | "blockquote" | "body"
            | "head" | "dt" | "dd" | "h5" | "h6" | "form" | "button" | "option" => self.gap(true),
            "td" | "th" => self.gap(false),
            _ => {}
        }
    }

    fn close_link(&mut self) {
        let Some((start, address)) = self.link.take() else {
            return;
        };
        let text = self.out.get(start..).unwrap_or_default().trim();
        if text.is_empty() {
            return;
        }
        let link = format!("[{}]({address})", text.replace('\n', " "));
        self.out.truncate(start);
        self.out.push_str(&link);
    }
}

fn name(tag: &str) -> &str {
    let end = tag.find(|byte: char| byte.is_whitespace());
    tag.get(..end.unwrap_or(tag.len()).min(24))
        .unwrap_or_default()
}

fn address(tag: &str) -> Option<&str> {
    let (_, rest) = tag.split_once("href=")?;
    let quote = rest.chars().next()?;
    if matches!(quote, '"' | '\'') {
        return rest.get(1..)?.split(quote).next();
    }
    rest.split([' ', '>']).next()
}

/// The character of an entity, and the text after it. Only the most common names are
/// known.
fn entity(text: &str) -> Option<(char, &str)> {
    let end = text.bytes().take(10).position(|byte| byte == b';')?;
    let (name, rest) = (text.get(1..end)?, text.get(end + 1..)?);
    let character = match name {
        "amp" => '&',
        "lt" => '‹',
        "gt" => '›',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(code.ok()?).filter(|character| !character.is_control())?
        }
    };
    Some((character, rest))
}

fn behind<'t>(text: &'t str, end: &str) -> &'t str {
    memchr::memmem::find(text.as_bytes(), end.as_bytes())
        .and_then(|at| text.get(at + end.len()..))
        .unwrap_or_default()
}

/// The text after the end tag of an element whose content is not shown.
fn behind_element<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest.as_bytes(), b"</") {
        rest = rest.get(at + 2..).unwrap_or_default();
        let own = rest
            .get(..name.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(name));
        if own {
            return behind(rest, ">");
        }
    }
    ""
}
