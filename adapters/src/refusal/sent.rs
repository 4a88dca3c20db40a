//! The parts of a request that was refused.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::image_texts::TurnImage;
use crate::json;
use crate::members::Members;

/// A request as it was sent, unread below its parts. Made when it was refused.
pub(crate) struct RefusedRequest<'a> {
    pub(crate) members: Members<'a>,
    /// The messages or items of the history.
    pub(crate) items: Vec<Members<'a>>,
    pub(crate) tools: Vec<SentTool<'a>>,
}

/// A tool of the request.
pub(crate) struct SentTool<'a> {
    pub(crate) name: Cow<'a, str>,
    /// Its `type`.
    pub(crate) kind: Cow<'a, str>,
    pub(crate) definition: &'a RawValue,
}

/// An image of the request.
pub(crate) struct SentImage {
    /// The place of its message or item.
    pub(crate) item: usize,
    pub(crate) is_url: bool,
    pub(crate) key: String,
}

impl<'a> RefusedRequest<'a> {
    /// Reads a body. The history is one of these members.
    pub(crate) fn read(body: &'a [u8], history: &str) -> Option<Self> {
        let members = Members::read(std::str::from_utf8(body).ok()?)?;
        let tools: Vec<&'a RawValue> = json::list(members.get("tools"));
        let tools = tools.into_iter().filter_map(SentTool::read).collect();
        Some(Self {
            items: json::list(members.get(history)),
            tools,
            members,
        })
    }

    /// The text of a member, or of a member of an object: `reasoning`, `effort`.
    pub(crate) fn text(&self, name: &str, inner: &str) -> Option<Cow<'a, str>> {
        let value = self.members.get(name)?;
        let object = Members::read(value.get());
        object.map_or_else(
            || json::string_value(Some(value)),
            |object| object.text(inner),
        )
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.members.get(name)?.get().parse().ok()
    }

    /// The role of the item at a place; empty if it has none.
    pub(crate) fn role(&self, place: usize) -> Cow<'a, str> {
        let item = self.items.get(place);
        item.and_then(|item| item.text("role")).unwrap_or_default()
    }

    pub(crate) fn has_role(&self, role: &str) -> bool {
        (0..self.items.len()).any(|place| self.role(place) == role)
    }

    /// The items that a clue may mean: the one that it names, or all.
    pub(crate) fn named(&self, place: Option<usize>) -> impl Iterator<Item = &Members<'a>> {
        let all = self.items.iter().enumerate();
        all.filter(move |(at, _)| place.is_none_or(|place| place == *at))
            .map(|(_, item)| item)
    }

    /// The parts of an item's content or output.
    pub(crate) fn parts(item: &Members<'a>) -> Vec<Members<'a>> {
        let content = item.get("content").or_else(|| item.get("output"));
        json::list(content.filter(|content| content.get().starts_with('[')))
    }

    /// All images, the oldest first.
    pub(crate) fn images(&self) -> Vec<SentImage> {
        let mut images = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            for part in Self::parts(item) {
                let Some(image) = part.get("image_url") else {
                    continue;
                };
                let inside = Members::read(image.get());
                let url = match &inside {
                    Some(object) => object.text("url"),
                    None => json::string_value(Some(image)),
                };
                if let Some(url) = url {
                    images.push(SentImage {
                        item: place,
                        is_url: url
                            .get(..4)
                            .is_some_and(|it| it.eq_ignore_ascii_case("http")),
                        key: TurnImage::key_of(&url),
                    });
                }
            }
        }
        images
    }
}

impl<'a> SentTool<'a> {
    fn read(definition: &'a RawValue) -> Option<Self> {
        let members = Members::read(definition.get())?;
        let kind = members.text("type").unwrap_or_default();
        let function = members
            .get("function")
            .and_then(|it| Members::read(it.get()));
        let name = function.as_ref().unwrap_or(&members).text("name");
        Some(Self {
            name: name.unwrap_or_else(|| kind.clone()),
            kind,
            definition,
        })
    }
}
