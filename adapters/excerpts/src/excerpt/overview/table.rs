//! The columns of a table: what their cells are, and the rows that are unlike the others.

use std::fmt::Write as _;

use super::{Spot, one_line, worth};
use crate::evidence::{BIT, Separators, load, mix};

/// How many bytes are read. What is said of longer tables holds for their first rows.
const READ_BYTES: usize = 2 << 20;

/// No more columns are described.
const MAX_COLUMNS: usize = 40;

/// Different values of a column are counted up to this number, in a table of this size.
const MAX_DISTINCT: usize = 200;
const DISTINCT_TABLE: usize = 512;

/// Rows with another number of cells: the most such numbers, and the rows of each.
const MAX_SHAPES: usize = 16;
const ROWS_OF_SHAPE: usize = 6;

/// A row: where it begins and ends.
type Row = (usize, usize);

/// An extreme number of a column.
#[derive(Clone, Copy, Default)]
struct Extreme {
    value: f64,
    row: Row,
    cell: usize,
}

#[derive(Clone)]
struct Column {
    name: String,
    cells: usize,
    empty: usize,
    numbers: usize,
    least: Extreme,
    most: Extreme,
    /// The numbers next to these two.
    second_least: f64,
    second_most: f64,
    /// The hashes of its values.
    distinct: Vec<u64>,
    count: usize,
}

impl Column {
    fn new() -> Self {
        Self {
            name: String::new(),
            cells: 0,
            empty: 0,
            numbers: 0,
            least: Extreme::default(),
            most: Extreme::default(),
            second_least: f64::INFINITY,
            second_most: f64::NEG_INFINITY,
            distinct: vec![0; DISTINCT_TABLE],
            count: 0,
        }
    }

    fn add(&mut self, cell: &[u8], row: Row, at: usize) {
        self.cells += 1;
        if cell.is_empty() {
            self.empty += 1;
            return;
        }
        if self.count <= MAX_DISTINCT {
            self.add_value(cell);
        }
        if let Some(value) = number(cell) {
            self.add_number(Extreme {
                value,
                row,
                cell: at,
            });
        }
    }

    fn add_value(&mut self, cell: &[u8]) {
        let (chunks, rest) = cell.as_chunks::<8>();
        let chunks = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk));
        let hash = chunks.fold(cell.len() as u64 + 1, mix);
        let hash = mix(hash, load(rest, 0)).max(1);
        let mut slot = usize::try_from(hash >> 40).unwrap_or_default() % DISTINCT_TABLE;
        // The table is never full.
        while let Some(known) = self.distinct.get_mut(slot) {
            if *known == hash {
                return;
            }
            if *known == 0 {
                *known = hash;
                self.count += 1;
                return;
            }
            slot = (slot + 1) % DISTINCT_TABLE;
        }
    }

    fn add_number(&mut self, number: Extreme) {
        if self.numbers == 0 {
            (self.least, self.most) = (number, number);
        } else if number.value < self.least.value {
            self.second_least = self.least.value;
            self.least = number;
        } else if number.value < self.second_least {
            self.second_least = number.value;
        }
        if self.numbers > 0 {
            if number.value > self.most.value {
                self.second_most = self.most.value;
                self.most = number;
            } else if number.value > self.second_most {
                self.second_most = number.value;
            }
        }
        self.numbers += 1;
    }

    fn is_numeric(&self) -> bool {
        self.numbers > 1 && self.numbers * 10 >= (self.cells - self.empty) * 9
    }

    /// The extremes that are far from all other numbers.
    fn outliers(&self) -> impl Iterator<Item = Extreme> {
        let range = self.second_most - self.second_least;
        let is_far = |distance: f64| range > 0.0 && distance > range / 2.0;
        let most = Some(self.most).filter(|most| is_far(most.value - self.second_most));
        let least = Some(self.least).filter(|least| is_far(self.second_least - least.value));
        let is_numeric = self.is_numeric();
        most.into_iter().chain(least).filter(move |_| is_numeric)
    }

    fn describe(&self) -> String {
        let mut text = one_line(&self.name, 40);
        if !text.is_empty() {
            text.push_str(": ");
        }
        if self.is_numeric() {
            let _ = write!(text, "number {}..{}", self.least.value, self.most.value);
        } else if self.count > MAX_DISTINCT {
            let _ = write!(text, "text, over {MAX_DISTINCT} values");
        } else {
            let _ = write!(text, "text, {} values", self.count);
        }
        if self.empty > 0 {
            let _ = write!(text, ", {} empty", self.empty);
        }
        text
    }
}

/// The most digits of a number that is exact as `f64`. One with more is mostly an id.
const MAX_DIGITS: usize = 15;

/// A number without a unit.
fn number(cell: &[u8]) -> Option<f64> {
    // No other text with a digit in it is a number.
    if !matches!(cell.first()?, b'0'..=b'9' | b'+' | b'-' | b'.') {
        return None;
    }
    decimal(cell).or_else(|| {
        let digits = cell.iter().filter(|byte| byte.is_ascii_digit()).count();
        if cell.len() > 24 || !(1..=MAX_DIGITS).contains(&digits) {
            return None;
        }
        let number = str::from_utf8(cell).ok()?.parse().ok();
        number.filter(|value: &f64| value.is_finite())
    })
}

/// A number as most are written: up to nine digits, with a point or without. Its digits and the
/// power of ten are exact, so that their quotient is the nearest number.
fn decimal(cell: &[u8]) -> Option<f64> {
    const POWERS: [f64; 10] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
    let (sign, digits) = match cell {
        [b'-', digits @ ..] => (-1.0, digits),
        _ => (1.0, cell),
    };
    if digits.len() >= POWERS.len() {
        return None;
    }
    let (mut value, mut count, mut point) = (0_u32, 0, None);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + u32::from(byte - b'0');
                count += 1;
            }
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    let power = POWERS.get(point.map_or(0, |point| count - point))?;
    (count > 0).then(|| sign * f64::from(value) / power)
}

/// What the columns of a table are.
pub(in crate::excerpt) struct Columns {
    first: Vec<Column>,
    rows: usize,
    /// Whether all rows were read.
    is_exact: bool,
    /// How many rows have another number of cells.
    other_shapes: usize,
}

/// Reads a table, and finds rows with another number of cells and numbers that are far from the
/// others of their column.
pub(super) fn read(text: &str, separator: u8) -> (Columns, Vec<Spot>) {
    let start = text.get(..text.floor_char_boundary(READ_BYTES));
    let start = start.unwrap_or(text);
    let bytes = start.as_bytes();
    let mut columns: Vec<Column> = Vec::new();
    let mut shapes: Vec<(usize, usize, Vec<Row>)> = Vec::new();
    let (mut rows, mut at) = (0_usize, 0);
    for end in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
        let row = (at, end);
        at = end + 1;
        let line = bytes.get(row.0..row.1).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let is_first = rows == 0;
        let cells = for_each_cell(line, separator, |index, from, to| {
            if columns.len() <= index && index < MAX_COLUMNS {
                columns.push(Column::new());
            }
            let cell = bare(line.get(from..to).unwrap_or_default());
            if let Some(column) = columns.get_mut(index) {
                if is_first {
                    column.name = String::from_utf8_lossy(cell).into_owned();
                } else {
                    column.add(cell, row, row.0 + from);
                }
            }
        });
        rows += 1;
        if shapes.len() < MAX_SHAPES && shapes.iter().all(|(known, ..)| *known != cells) {
            shapes.push((cells, 0, Vec::new()));
        }
        if let Some((_, count, rows)) = shapes.iter_mut().find(|(known, ..)| *known == cells) {
            *count += 1;
            if rows.len() < ROWS_OF_SHAPE {
                rows.push(row);
            }
        }
    }
    // A first row with a number in it is no head.
    let has_head = columns
        .iter()
        .all(|column| number(column.name.as_bytes()).is_none());
    let usual = shapes.iter().map(|(_, count, _)| *count).max();
    let usual = usual.unwrap_or_default();
    let other: Vec<Row> = shapes
        .iter()
        .filter(|(_, count, _)| *count < usual)
        .flat_map(|(_, _, rows)| rows.iter().copied())
        .collect();
    let outliers: Vec<Extreme> = columns.iter().flat_map(Column::outliers).collect();
    let other_score = worth(30 * BIT, other.len());
    let other_spots = other
        .iter()
        .map(|(start, end)| (*start, *end, *start, other_score));
    let outlier_score = worth(24 * BIT, outliers.len());
    let outlier_spots = outliers
        .iter()
        .map(|extreme| (extreme.row.0, extreme.row.1, extreme.cell, outlier_score));
    let spots = other_spots
        .chain(outlier_spots)
        .map(|(start, end, focus, score)| Spot {
            start,
            end,
            focus,
            score,
        });
    let spots = spots.collect();
    if !has_head {
        for column in &mut columns {
            column.name.clear();
        }
    }
    let columns = Columns {
        first: columns,
        rows: rows - usize::from(has_head && rows > 0),
        is_exact: start.len() == text.len(),
        other_shapes: rows - usual,
    };
    (columns, spots)
}

/// Calls `cell` with the number and the range of each cell of a row, and returns how many there
/// are.
fn for_each_cell(line: &[u8], separator: u8, mut cell: impl FnMut(usize, usize, usize)) -> usize {
    let (mut index, mut from) = (0, 0);
    for at in Separators::new(line, separator) {
        cell(index, from, at);
        index += 1;
        from = at + 1;
    }
    cell(index, from, line.len());
    index + 1
}

/// A cell without its quotes and the blanks around it.
fn bare(cell: &[u8]) -> &[u8] {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| *byte <= b' ');
    let cell = if is_blank(cell.first()) || is_blank(cell.last()) {
        cell.trim_ascii()
    } else {
        cell
    };
    match cell {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => cell,
    }
}

impl Columns {
    pub(super) fn text(&self, room: usize) -> String {
        let count = self.first.len();
        let part = if self.is_exact {
            ""
        } else {
            " in the part that was read"
        };
        let mut text = format!("Table: {} rows{part}, {count} columns", self.rows);
        if self.other_shapes > 0 {
            let _ = write!(
                text,
                "; {} rows have more or fewer cells",
                self.other_shapes
            );
        }
        let mut left = room.saturating_sub(text.len() + 20);
        let mut separator = ". ";
        for (index, column) in self.first.iter().enumerate() {
            let described = column.describe();
            let chars = described.chars().count() + 2;
            if chars > left {
                let _ = write!(text, "{separator}{} more columns", count - index);
                break;
            }
            left -= chars;
            text.push_str(separator);
            text.push_str(&described);
            separator = "; ";
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_the_standard_library() {
        for (cell, expected) in [
            ("17", Some(17.0)),
            ("-3.25", Some(-3.25)),
            ("0.1", Some(0.1)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("123456.7", Some(123_456.7)),
            ("999999999", Some(999_999_999.0)),
            ("1234567890", Some(1_234_567_890.0)),
            ("+4", Some(4.0)),
            ("1e5", Some(1e5)),
            ("1.2.3", None),
            ("12ms", None),
            ("-", None),
            (".", None),
            ("", None),
            ("inf", None),
            ("1234567890123456", None),
        ] {
            assert_eq!(number(cell.as_bytes()), expected, "{cell}");
        }
    }
}
