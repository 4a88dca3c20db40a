//! Outputs of an agent's tools, of every kind.

use std::fmt::Write as _;

use super::random::SeededRandom;
use super::text::{prose, word};

/// The output of a call.
#[derive(Clone, Debug)]
pub struct ToolOutput {
    /// What the tool printed.
    pub kind: ToolOutputKind,
    /// The text; for some outputs with the header that Codex writes above it.
    pub text: String,
}

/// The kinds of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOutputKind {
    /// A build with errors in its middle.
    Build,
    /// Matches of `rg`.
    Matches,
    /// Source code.
    Code,
    /// A test run with failures in its middle.
    Tests,
    /// One JSON document.
    Json,
    /// A web page as text.
    Page,
    /// A diff.
    Diff,
    /// A JavaScript bundle in one line.
    Minified,
    /// A log in Chinese.
    Chinese,
    /// JSON lines.
    JsonLines,
    /// Hexadecimal digits, as of an encoded file.
    Opaque,
}

impl ToolOutputKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Build,
        Self::Matches,
        Self::Code,
        Self::Tests,
        Self::Json,
        Self::Page,
        Self::Diff,
        Self::Minified,
        Self::Chinese,
        Self::JsonLines,
        Self::Opaque,
    ];
}

impl ToolOutput {
    /// About this many bytes of a kind; every other output has the header of Codex.
    pub fn new(random: &mut SeededRandom, kind: ToolOutputKind, bytes: usize) -> Self {
        let body = body(random, kind, bytes);
        let text = if random.below(2) == 0 {
            let header = header(random, bytes / 4);
            header + &body
        } else {
            body
        };
        Self { kind, text }
    }

    /// What Codex leaves of an output of far more than 10,000 tokens: about 40 KB, beginning and
    /// end.
    pub fn truncated_by_codex(random: &mut SeededRandom, kind: ToolOutputKind) -> Self {
        let original = 20_000 + random.below(900_000);
        let start = body(random, kind, 20_000);
        let end = body(random, kind, 20_000);
        let start = start
            .get(..start.floor_char_boundary(19_900))
            .unwrap_or_default();
        let end = end
            .get(..end.floor_char_boundary(19_900))
            .unwrap_or_default();
        let header = header(random, original);
        let text = format!(
            "{header}Warning: truncated output (original token count: {original})\nTotal output lines: {}\n\n{start}…{} tokens truncated…{end}",
            original / 9,
            original - 10_000,
        );
        Self { kind, text }
    }
}

fn header(random: &mut SeededRandom, tokens: usize) -> String {
    format!(
        "Chunk ID: {:06x}\nWall time: {}.{:04} seconds\nProcess exited with code {}\nOriginal token count: {tokens}\nOutput:\n",
        random.below(1 << 24),
        random.below(90),
        random.below(10_000),
        random.below(3) / 2,
    )
}

fn body(random: &mut SeededRandom, kind: ToolOutputKind, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 512);
    if kind == ToolOutputKind::Json {
        out.push_str("{\"items\": [");
    }
    let mut line = 0;
    while out.len() + 2 < bytes {
        line += 1;
        push_line(&mut out, random, kind, line);
    }
    if kind == ToolOutputKind::Json {
        out.push_str("{}]}");
    }
    out
}

/// Writing to a string cannot fail.
fn push_line(out: &mut String, random: &mut SeededRandom, kind: ToolOutputKind, line: usize) {
    let (a, b, n) = (word(random), word(random), random.below(100_000));
    let _ = match kind {
        ToolOutputKind::Build if line % 97 == 60 => writeln!(
            out,
            "error[E0{n:03}]: mismatched types: expected `{a}`, found `{b}`\n  --> src/{a}/{b}.rs:{line}:9"
        ),
        ToolOutputKind::Build => writeln!(
            out,
            "   Compiling {a}-{b} v0.{}.{line} (/home/me/project/{a})",
            n % 40
        ),
        ToolOutputKind::Matches => writeln!(out, "src/{a}/{b}.rs:{line}:    let {b} = {a}({n});"),
        ToolOutputKind::Code => writeln!(
            out,
            "    /// Returns the {a} of `{b}`.\n    pub fn {a}_{b}(&self, at: usize) -> Option<&str> {{\n        self.{b}.get(at + {n}).map(|it| it.as_str())\n    }}\n"
        ),
        ToolOutputKind::Tests if line % 131 == 77 => writeln!(
            out,
            "test {a}::{b} ... FAILED\nthread '{a}::{b}' panicked at tests/{a}.rs:{line}:5:\nassertion `left == right` failed\n  left: {n}\n right: {line}"
        ),
        ToolOutputKind::Tests => writeln!(out, "test {a}::{b}_{n} ... ok"),
        ToolOutputKind::Json => write!(
            out,
            "{{\"id\": {line}, \"name\": \"{a} {b}\", \"size\": {n}, \"tags\": [\"{a}\", \"{b}\"], \"nested\": {{\"path\": \"C:\\\\work\\\\{a}.txt\"}}}},\n  "
        ),
        ToolOutputKind::Page if line % 9 == 1 => writeln!(
            out,
            "\n## The {a} of {b}\nhttps://docs.example.org/{a}/{b}?page={n}\n"
        ),
        ToolOutputKind::Page => {
            let text = prose(random, 400);
            writeln!(out, "{text}")
        }
        ToolOutputKind::Diff if line % 40 == 1 => writeln!(
            out,
            "diff --git a/src/{a}.rs b/src/{a}.rs\n--- a/src/{a}.rs\n+++ b/src/{a}.rs\n@@ -{line},7 +{line},9 @@ fn {b}()"
        ),
        ToolOutputKind::Diff => writeln!(
            out,
            "{}    let {a} = {b}.get({n});",
            match line % 4 {
                2 => "+",
                3 => "-",
                _ => " ",
            }
        ),
        ToolOutputKind::Minified => write!(
            out,
            "function {}{n}(t,e){{var n=t.{a};return e&&(n=n.{b}({n})),n}}",
            a.chars().next().unwrap_or('f')
        ),
        ToolOutputKind::Chinese => writeln!(
            out,
            "2025-01-09 12:{:02} [信息] 第{line}行：正在处理文件 {a}.txt，已完成百分之{}，共{n}条记录。",
            line % 60,
            n % 100
        ),
        ToolOutputKind::JsonLines => writeln!(
            out,
            "{{\"ts\":{line},\"level\":\"info\",\"target\":\"{a}\",\"message\":\"{b} took {n} ms\"}}"
        ),
        ToolOutputKind::Opaque => {
            for _ in 0..12 {
                let _ = write!(out, "{:012X}", random.next_u64() >> 16);
            }
            Ok(())
        }
    };
}
