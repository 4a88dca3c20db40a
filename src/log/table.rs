//! Tables for the terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

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
