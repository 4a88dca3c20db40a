//! Writes system and user messages.

use registry::ContentForm;

use super::MessageWriter;
use super::message::{MessageSection, SectionSource};
use crate::content::MessagePart;
use crate::json;
use crate::text::Text;

/// The first line of a user message that contains system text.
const HEADING: &str = "[System instruction]";

impl MessageWriter<'_, '_> {
    /// Writes a message of these sections, as a string if each of them is one text.
    pub(super) fn push_text_message(
        &mut self,
        role: &str,
        sections: &[MessageSection<'_>],
        marked: bool,
    ) {
        if let Some(limit) = self.options.quirks.message_limit
            && is_longer_than(sections, limit)
        {
            return self.push_split(role, sections, limit, marked);
        }
        let start = self.out.len();
        self.open_message(role);
        json::key(self.out, "content");
        let form = self.options.quirks.content_form;
        let joins = role == "system" || form != ContentForm::Parts;
        if sections
            .iter()
            .all(|section| section.is_one_text() || (joins && !section.content.has_media()))
        {
            self.open_text(marked);
            for (position, section) in sections.iter().enumerate() {
                if position > 0 {
                    self.out.extend_from_slice(b"\\n\\n");
                }
                let start = self.out.len();
                section.push_text(self.out);
                self.add_section_span(sections, section, start);
            }
            self.close_text(marked);
        } else {
            self.out.push(b'[');
            for section in sections {
                let start = self.out.len();
                if section.needs_heading {
                    let mut text = vec![b'"'];
                    section.push_text(&mut text);
                    text.push(b'"');
                    json::separate(self.out);
                    self.out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                    self.out.extend_from_slice(&text);
                    self.out.push(b'}');
                } else {
                    section.content.push_parts(self.out, self.media);
                }
                self.add_section_span(sections, section, start);
            }
            self.close_parts(marked);
        }
        self.out.push(b'}');
        if let [section] = sections
            && let SectionSource::Item(index) = section.source
        {
            self.add_span(index, start);
        }
    }

    /// Records the span of one of several sections; a single section has the span
    /// of the whole message.
    fn add_section_span(
        &mut self,
        sections: &[MessageSection<'_>],
        section: &MessageSection<'_>,
        start: usize,
    ) {
        match section.source {
            SectionSource::Item(index) if sections.len() > 1 => self.add_span(index, start),
            SectionSource::Instructions => self.written.instructions = self.out.len(),
            SectionSource::Item(_) | SectionSource::Format | SectionSource::Omitted => {}
        }
    }

    /// Writes several messages of the same role, none with more than `limit`
    /// characters. Each message of system text has the heading.
    fn push_split(
        &mut self,
        role: &str,
        sections: &[MessageSection<'_>],
        limit: u32,
        marked: bool,
    ) {
        self.notes.add(
            "message_cut",
            format!("a message is sent in pieces of {limit} characters"),
        );
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let heading = if sections.iter().any(|section| section.needs_heading) {
            format!("{HEADING}\n")
        } else {
            String::new()
        };
        let limit = limit.saturating_sub(heading.len());
        for (position, section) in sections.iter().enumerate() {
            let start = self.out.len();
            let marked = marked && position + 1 == sections.len();
            if role == "system" || section.is_one_text() || !heading.is_empty() {
                let mut escaped = Vec::new();
                section.content.push_text(&mut escaped, "\\n\\n");
                let escaped = String::from_utf8(escaped).unwrap_or_default();
                let text = json::unescape(&escaped);
                self.push_split_text(role, &heading, &text, limit, marked);
            } else {
                self.push_split_parts(role, section, limit, marked);
            }
            match section.source {
                SectionSource::Item(index) => self.add_span(index, start),
                SectionSource::Instructions => self.written.instructions = self.out.len(),
                SectionSource::Format | SectionSource::Omitted => {}
            }
        }
    }

    fn push_split_text(
        &mut self,
        role: &str,
        heading: &str,
        text: &str,
        limit: usize,
        marked: bool,
    ) {
        let mut rest = text;
        while !rest.is_empty() {
            let (section, after) = split_at_char(rest, limit);
            rest = after;
            let marked = marked && rest.is_empty();
            self.open_message(role);
            json::key(self.out, "content");
            self.open_text(marked);
            Text::from(heading).push_escaped(self.out);
            Text::from(section).push_escaped(self.out);
            self.close_text(marked);
            self.out.push(b'}');
        }
    }

    /// Writes images and files as messages of their own.
    fn push_split_parts(
        &mut self,
        role: &str,
        section: &MessageSection<'_>,
        limit: usize,
        marked: bool,
    ) {
        let count = section.content.parts.len();
        for (position, part) in section.content.parts.iter().enumerate() {
            let marked = marked && position + 1 == count;
            if let MessagePart::Text(text) = part {
                self.push_split_text(role, "", &text.decoded(), limit, marked);
                continue;
            }
            self.open_message(role);
            json::key(self.out, "content");
            self.out.push(b'[');
            part.push(self.out, self.media);
            self.close_parts(marked);
            self.out.push(b'}');
        }
    }
}

impl MessageSection<'_> {
    /// Whether it is written as one string.
    fn is_one_text(&self) -> bool {
        self.needs_heading || self.content.is_one_text()
    }

    /// Writes all text, as the inside of a JSON string.
    fn push_text(&self, out: &mut Vec<u8>) {
        if self.needs_heading {
            out.extend_from_slice(HEADING.as_bytes());
            out.extend_from_slice(b"\\n");
        }
        self.content.push_text(out, "\\n\\n");
    }
}

fn is_longer_than(sections: &[MessageSection<'_>], limit: u32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let headings = sections
        .iter()
        .filter(|section| section.needs_heading)
        .count();
    let texts: Vec<&Text<'_>> = sections
        .iter()
        .flat_map(|section| &section.content.parts)
        .filter_map(|part| match part {
            MessagePart::Text(text) => Some(text),
            MessagePart::Image(..)
            | MessagePart::File(..)
            | MessagePart::Audio(..)
            | MessagePart::Unknown(..) => None,
        })
        .collect();
    let between = headings * (HEADING.len() + 1) + texts.len().saturating_sub(1) * 2;
    // A character takes at least one byte, so most messages need not be decoded and
    // counted.
    let bytes: usize = texts.iter().map(|text| text.escaped_len()).sum();
    let characters = || -> usize {
        let counts = texts.iter().map(|text| text.decoded().chars().count());
        counts.sum()
    };
    bytes + between > limit && characters() + between > limit
}

/// The first `limit` characters, and the rest.
fn split_at_char(text: &str, limit: usize) -> (&str, &str) {
    text.char_indices()
        .nth(limit.max(1))
        .and_then(|(at, _)| text.split_at_checked(at))
        .unwrap_or((text, ""))
}
