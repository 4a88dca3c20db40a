//! Tables for the terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// The columns of a terminal of the usual size. Tables for people are no wider.
pub const TERMINAL_WIDTH: u16 = 80;

/// The rows below the names of the columns, a line each, with two spaces between the columns. A
/// column has a name, an alignment and the characters that it takes at least.
pub fn table<const N: usize>(
    columns: [(&str, CellAlignment, u16); N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.map(|(name, ..)| name))
        .add_rows(rows);
    for (column, (_, alignment, width)) in table.column_iter_mut().zip(columns) {
        // The width of a column includes its padding.
        column
            .set_padding((0, 2))
            .set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 2)))
            .set_cell_alignment(alignment);
    }
    table.trim_fmt() + "\n"
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
    use super::labelled;

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
