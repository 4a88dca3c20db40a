//! A change of a request that may answer a refusal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quirk_patch::{Parameter, QuirkPatch, SharedPatch};

/// A change of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Of its form: what is known of the model.
    Quirk(QuirkPatch),
    /// Of its contents.
    Content(ContentChange),
}

/// A change of the contents of one session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentChange {
    /// The schema of the tool with this name has the names of its arguments alone.
    PlainSchema(String),
    /// The tool with this name is left out.
    WithoutTool(String),
    /// The image with this key is left out, see [`crate::image_texts::TurnImage::key`].
    WithoutImage(String),
    /// Older images than about so many are left out.
    NewestImages(u16),
}

/// For whom a change is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeScope {
    /// For everybody who asks the model: it takes nothing away that anybody has said.
    Model,
    /// For the owner whose request was refused.
    Owner,
    /// For the session.
    Session,
}

impl Change {
    /// The name or key of what it changes, if it changes contents.
    pub(crate) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Content(
                ContentChange::PlainSchema(text)
                | ContentChange::WithoutTool(text)
                | ContentChange::WithoutImage(text),
            ) => Some(text),
            Self::Content(ContentChange::NewestImages(_)) | Self::Quirk(_) => None,
        }
    }

    /// For whom the change is remembered once it has helped.
    pub fn scope(&self) -> ChangeScope {
        match self {
            Self::Quirk(patch) if patch.keeps_everything() => ChangeScope::Model,
            Self::Quirk(_) => ChangeScope::Owner,
            Self::Content(_) => ChangeScope::Session,
        }
    }

    /// Whether this change makes an earlier one needless.
    pub(crate) fn replaces(&self, earlier: &Self) -> bool {
        use ContentChange as C;
        let is_schema = |change: &Self| {
            matches!(
                change,
                Self::Quirk(QuirkPatch::Shared(SharedPatch::Schema(_)))
            )
        };
        let is_strict = |change: &Self| {
            let strict = SharedPatch::OmitParameter(Parameter::Strict);
            *change == Self::Quirk(strict.into())
        };
        match (self, earlier) {
            (Self::Content(C::WithoutTool(name)), Self::Content(C::PlainSchema(other))) => {
                name == other
            }
            (Self::Content(C::WithoutTool(_) | C::PlainSchema(_)), earlier) => {
                is_schema(earlier) || is_strict(earlier)
            }
            (Self::Content(C::NewestImages(_)), Self::Content(C::WithoutImage(_))) => true,
            (Self::Quirk(one), Self::Quirk(other)) => one.replaces(*other),
            (Self::Content(_) | Self::Quirk(_), _) => false,
        }
    }
}

impl From<QuirkPatch> for Change {
    fn from(patch: QuirkPatch) -> Self {
        Self::Quirk(patch)
    }
}

/// The text of the note `healed`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quirk(patch) => patch.fmt(f),
            Self::Content(ContentChange::PlainSchema(name)) => {
                write!(f, "the schema of the tool '{name}' is plain")
            }
            Self::Content(ContentChange::WithoutTool(name)) => {
                write!(f, "the tool '{name}' is left out")
            }
            Self::Content(ContentChange::WithoutImage(_)) => f.write_str("an image is left out"),
            Self::Content(ContentChange::NewestImages(0)) => f.write_str("images are left out"),
            Self::Content(ContentChange::NewestImages(most)) => {
                write!(f, "the newest images alone are sent, at most {most}")
            }
        }
    }
}

/// The most contents of each kind that a session leaves out.
const MAX_LEFT_OUT: usize = 64;

/// The contents that a session leaves out because its provider has refused them. Made of the
/// changes that have helped; ends with the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeftOut {
    /// The names of the tools whose schemas are plain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plain_schemas: Vec<String>,
    /// The names of the tools that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The keys of the images that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// How many images are sent at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_images: Option<u16>,
}

impl LeftOut {
    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what a change leaves out.
    pub fn add(&mut self, change: &ContentChange) {
        let (list, name) = match change {
            ContentChange::PlainSchema(name) => (&mut self.plain_schemas, name),
            ContentChange::WithoutTool(name) => (&mut self.tools, name),
            ContentChange::WithoutImage(key) => (&mut self.images, key),
            ContentChange::NewestImages(most) => {
                let least = self.newest_images.map_or(*most, |known| known.min(*most));
                self.newest_images = Some(least);
                return;
            }
        };
        if list.len() < MAX_LEFT_OUT && !list.contains(name) {
            list.push(name.clone());
        }
    }

    /// Adds all that another turn of the session leaves out.
    pub fn merge(&mut self, other: &Self) {
        let tools = other.tools.iter().cloned().map(ContentChange::WithoutTool);
        let plain = other
            .plain_schemas
            .iter()
            .cloned()
            .map(ContentChange::PlainSchema);
        let images = other
            .images
            .iter()
            .cloned()
            .map(ContentChange::WithoutImage);
        let newest = other.newest_images.map(ContentChange::NewestImages);
        for change in tools.chain(plain).chain(images).chain(newest) {
            self.add(&change);
        }
    }

    /// Whether the tool with this name is left out.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool == name)
    }

    /// The names and keys in it.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let lists = [&mut self.plain_schemas, &mut self.tools, &mut self.images];
        lists.into_iter().flatten()
    }

    /// Adds the oldest of these images to those that are left out, so that at most as many are
    /// sent as the provider takes. `images` are the keys, the newest first. Several are left out
    /// at once, so that the prompt keeps its beginning for some turns.
    #[must_use]
    pub fn with_old_images(&self, images: &[String]) -> Self {
        let mut left_out = self.clone();
        let Some(most) = self.newest_images.map(usize::from) else {
            return left_out;
        };
        let sent: Vec<&String> = images
            .iter()
            .filter(|key| !self.images.contains(*key))
            .collect();
        let beyond = sent.len().saturating_sub(most);
        let at_once = (most / 2).max(1);
        let old = beyond.next_multiple_of(at_once).min(sent.len());
        let old = sent.iter().rev().take(if beyond == 0 { 0 } else { old });
        left_out.images.extend(old.map(|key| (*key).clone()));
        left_out
    }
}
