//! Tables for the terminal.

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
    /// Whether somebody else owns something.
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

    /// The characters that are left of so many, for another column.
    pub fn left_of(self, chars: usize) -> usize {
        chars.saturating_sub(if self.has_clients { Self::WIDTH } else { 0 })
    }
}

/// Texts beside their labels, indented by two spaces and wrapped at [`TERMINAL_WIDTH`]. A label has
/// at most `label_width` characters.
pub fn labelled<'a>(label_width: u16, rows: impl Iterator<Item = (&'a str, String)>) -> String {
    const INDENT: u16 = 2;
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(TERMINAL_WIDTH)
        .add_rows(rows.map(|(label, text)| [label.to_owned(), text]));
    let label_column = label_width + 2 * INDENT;
    let widths = [label_column, TERMINAL_WIDTH - label_column];
    for (column, (width, indent)) in table
        .column_iter_mut()
        .zip(widths.into_iter().zip([INDENT, 0]))
    {
        column
            .set_padding((indent, indent))
            .set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use comfy_table::CellAlignment::Left;

    use super::{labelled, table};

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
}
