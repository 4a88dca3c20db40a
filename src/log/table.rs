//! Tables for the terminal.

use anstyle::Style;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::SafeText;
use crate::net::LOCAL_OWNER;

/// The columns of a terminal of the usual size. Tables for people are no wider.
pub const TERMINAL_WIDTH: u16 = 80;

/// The rows below the names of the columns, a line each, with two spaces between the columns. A
/// column has a name, an alignment and the characters that it takes at least. One without any text
/// is left out.
pub fn table<const N: usize>(
    columns: [(&str, CellAlignment, u16); N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut has_text = [false; N];
    let rows: Vec<[String; N]> = rows.collect();
    for row in &rows {
        for (has_text, cell) in has_text.iter_mut().zip(row) {
            *has_text |= !cell.is_empty();
        }
    }
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.map(|(name, ..)| name))
        .add_rows(rows);
    let columns = columns.into_iter().zip(has_text);
    for (column, ((_, alignment, width), has_text)) in table.column_iter_mut().zip(columns) {
        let constraint = if has_text {
            // The width of a column includes its padding.
            ColumnConstraint::LowerBoundary(Width::Fixed(width + 2))
        } else {
            ColumnConstraint::Hidden
        };
        column
            .set_padding((0, 2))
            .set_constraint(constraint)
            .set_cell_alignment(alignment);
    }
    table.trim_fmt() + "\n"
}

/// The most characters of the name of a client in a table.
const MAX_CLIENT_CHARS: usize = 10;

/// The column of a table that names clients. It is empty, and so left out, if there is only the
/// operator.
#[derive(Clone, Copy, Debug)]
pub struct ClientColumn {
    /// Whether an owner other than the operator has something.
    pub has_clients: bool,
}

impl ClientColumn {
    /// The characters that it takes, with the space beside it.
    pub const WIDTH: usize = MAX_CLIENT_CHARS + 2;

    /// The column of what these own.
    pub fn of<'a>(mut owners: impl Iterator<Item = &'a str>) -> Self {
        Self {
            has_clients: owners.any(|owner| owner != LOCAL_OWNER),
        }
    }

    /// The cell of an owner.
    pub fn cell(self, owner: &str) -> String {
        if self.has_clients {
            SafeText::up_to(owner, MAX_CLIENT_CHARS - 1).to_string()
        } else {
            String::new()
        }
    }

    /// What is left of `chars` characters for another column.
    pub fn left_of(self, chars: usize) -> usize {
        chars.saturating_sub(if self.has_clients { Self::WIDTH } else { 0 })
    }
}

/// The spaces before a label.
const INDENT: &str = "  ";

/// Texts beside their labels, indented by two spaces and wrapped at [`TERMINAL_WIDTH`]. A label has
/// at most `label_width` characters.
pub fn labelled<'a>(label_width: usize, rows: impl Iterator<Item = (&'a str, String)>) -> String {
    let label_column = label_width + 2 * INDENT.len();
    let mut shown = String::new();
    for (label, text) in rows {
        let mut label = label;
        for line in wrapped(&text, usize::from(TERMINAL_WIDTH) - label_column) {
            let row = format!("{INDENT}{label:label_width$}{INDENT}{line}");
            shown.push_str(row.trim_end());
            shown.push('\n');
            label = "";
        }
    }
    shown
}

/// The lines of a text, wrapped at `width` characters. A longer word, such as a path, has a line of
/// its own, so that it can be copied.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let length = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && length > width {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// Gives the labels of a text of [`labelled`] a style. The text must have no escape sequences.
pub fn style_labels(text: &str, style: Style) -> String {
    let styled = text.split_inclusive('\n').map(|line| {
        let label = line
            .strip_prefix(INDENT)
            .filter(|row| !row.starts_with(' '));
        match label.and_then(|row| row.split_once(INDENT)) {
            Some((label, rest)) => format!("{INDENT}{style}{label}{style:#}{INDENT}{rest}"),
            None => line.to_owned(),
        }
    });
    styled.collect()
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;
    use comfy_table::CellAlignment::Left;

    use super::{labelled, style_labels, table};

    #[test]
    fn a_column_without_text_is_left_out() {
        let columns = [("a", Left, 1), ("empty", Left, 9), ("b", Left, 1)];
        let rows = [["1", "", "2"], ["3", "", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(columns, rows.into_iter()), "a  b\n1  2\n3\n");
    }

    #[test]
    fn a_long_text_continues_below_its_beginning() {
        let text = "word ".repeat(20);
        let rows = [
            ("Label", text.trim().to_owned()),
            ("", "a     b".to_owned()),
        ];
        assert_eq!(
            labelled(9, rows.into_iter()),
            "  Label      word word word word word word word word word word word word word
             word word word word word word word
             a     b
"
        );
    }

    #[test]
    fn a_word_that_is_too_long_is_a_line_of_its_own() {
        let path = "/long".repeat(20);
        let rows = [
            ("Kept", format!("in {path} until then")),
            ("", path.clone()),
        ];
        let indent = " ".repeat(13);
        assert_eq!(
            labelled(9, rows.into_iter()),
            format!("  Kept       in\n{indent}{path}\n{indent}until then\n{indent}{path}\n")
        );
    }

    #[test]
    fn only_labels_have_a_style() {
        let rows = [("One", "a  b".to_owned()), ("", "c".to_owned())];
        let text = format!("Title\n\n{}\nEnd  \n", labelled(3, rows.into_iter()));
        assert_eq!(
            style_labels(&text, AnsiColor::Cyan.on_default()),
            "Title\n\n  \u{1b}[36mOne\u{1b}[0m  a  b\n       c\n\nEnd  \n"
        );
    }
}
