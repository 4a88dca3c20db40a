//! Pretty-printed JSON with each field on its own line, but inner lists, such as
//! `[name, value]` pairs, on a single line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

pub(super) fn to_pretty_json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut json, PairFormatter::default());
    value.serialize(&mut serializer)?;
    json.push(b'\n');
    Ok(json)
}

#[derive(Default)]
struct PairFormatter<'a> {
    inner: PrettyFormatter<'a>,
    /// For each open container, whether it is a list.
    lists: Vec<bool>,
    /// How many of the open containers are printed on one line.
    inline_depth: usize,
}

impl PairFormatter<'_> {
    fn open(&mut self, list: bool) -> bool {
        let in_list = self.lists.last().copied().unwrap_or_default();
        self.lists.push(list);
        if self.inline_depth > 0 || list && in_list {
            self.inline_depth += 1;
        }
        self.inline_depth > 0
    }

    fn close(&mut self) -> bool {
        self.lists.pop();
        let inline = self.inline_depth > 0;
        self.inline_depth = self.inline_depth.saturating_sub(1);
        inline
    }
}

impl Formatter for PairFormatter<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.open(true) {
            return to.write_all(b"[");
        }
        self.inner.begin_array(to)
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.close() {
            return to.write_all(b"]");
        }
        self.inner.end_array(to)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if self.inline_depth > 0 {
            return to.write_all(if first { b"" } else { b", " });
        }
        self.inner.begin_array_value(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.inline_depth > 0 {
            return Ok(());
        }
        self.inner.end_array_value(to)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.open(false) {
            return to.write_all(b"{");
        }
        self.inner.begin_object(to)
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.close() {
            return to.write_all(b"}");
        }
        self.inner.end_object(to)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if self.inline_depth > 0 {
            return to.write_all(if first { b"" } else { b", " });
        }
        self.inner.begin_object_key(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(to)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        if self.inline_depth > 0 {
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
        let json = String::from_utf8(to_pretty_json(&value).unwrap()).unwrap();
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
