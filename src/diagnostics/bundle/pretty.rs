//! JSON for eyes: each field on its own line, and a list in a list on one line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// A value as JSON.
pub(super) fn to_json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut json, Pretty::default());
    value.serialize(&mut serializer)?;
    json.push(b'\n');
    Ok(json)
}

#[derive(Default)]
struct Pretty<'a> {
    inner: PrettyFormatter<'a>,
    /// Whether each container around is a list.
    lists: Vec<bool>,
    /// How many containers around stand on one line.
    inline: usize,
}

impl Pretty<'_> {
    fn opens(&mut self, list: bool) -> bool {
        let in_list = self.lists.last().copied().unwrap_or_default();
        self.lists.push(list);
        if self.inline > 0 || list && in_list {
            self.inline += 1;
        }
        self.inline > 0
    }

    fn closes(&mut self) -> bool {
        self.lists.pop();
        let inline = self.inline > 0;
        self.inline = self.inline.saturating_sub(1);
        inline
    }
}

impl Formatter for Pretty<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.opens(true) {
            return to.write_all(b"[");
        }
        self.inner.begin_array(to)
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.closes() {
            return to.write_all(b"]");
        }
        self.inner.end_array(to)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if self.inline > 0 {
            return to.write_all(if first { b"" } else { b", " });
        }
        self.inner.begin_array_value(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.inline > 0 {
            return Ok(());
        }
        self.inner.end_array_value(to)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.opens(false) {
            return to.write_all(b"{");
        }
        self.inner.begin_object(to)
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.closes() {
            return to.write_all(b"}");
        }
        self.inner.end_object(to)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if self.inline > 0 {
            return to.write_all(if first { b"" } else { b", " });
        }
        self.inner.begin_object_key(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(to)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.inline > 0 {
            return Ok(());
        }
        self.inner.end_object_value(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_takes_one_line() {
        let value = serde_json::json!({
            "pieces": [[1, 2], [30, [4]]],
            "none": [], "nothing": {}, "in": [[]],
            "attempts": [{"headers": [["a", "b"]]}],
            "odd": [[{"a": 1, "b": []}]],
        });
        let json = String::from_utf8(to_json(&value).unwrap()).unwrap();
        assert_eq!(
            json,
            r#"{
  "pieces": [
    [1, 2],
    [30, [4]]
  ],
  "none": [],
  "nothing": {},
  "in": [
    []
  ],
  "attempts": [
    {
      "headers": [
        ["a", "b"]
      ]
    }
  ],
  "odd": [
    [{"a": 1, "b": []}]
  ]
}
"#
        );
    }
}
