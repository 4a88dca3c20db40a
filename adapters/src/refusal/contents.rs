//! The changes for refused contents: tools and their schemas, images, files and audio.

use registry::{EnumSet, SchemaRule};
use serde_json::Value;
use strum::VariantArray as _;

use super::candidates::Suggestions;
use super::change::{Change, ContentChange};
use super::clue::ClueStrength;
use super::words::plain_name;
use crate::json;
use crate::quirk_patch::{ModelPatch, QuirkPatch, SharedPatch};
use crate::schema;

/// The changes for one of the names of a clue.
pub(super) fn suggested(name: &str, asked: Suggestions<'_>) -> Vec<Change> {
    match name {
        "image" | "images" | "imageurl" | "inputimage" | "imageinput" | "imageinputs"
        | "vision" => images(asked),
        "file" | "files" | "inputfile" | "filedata" => patch(SharedPatch::NoFiles.into()),
        "audio" | "inputaudio" => patch(ModelPatch::NoAudio.into()),
        "tools"
        | "tool"
        | "functions"
        | "function"
        | "parameters"
        | "schema"
        | "functiondeclarations" => tools(asked),
        _ if is_schema_keyword(name, asked) => tools(asked),
        _ => Vec::new(),
    }
}

fn patch(patch: QuirkPatch) -> Vec<Change> {
    vec![patch.into()]
}

/// No provider has a smaller limit of tools.
const MIN_MAX_TOOLS: u64 = 8;

/// The keywords of JSON schema that rules change, in plain spelling.
const KEYWORDS: [(&str, SchemaRule); 24] = [
    ("$ref", SchemaRule::InlineRefs),
    ("$defs", SchemaRule::InlineRefs),
    ("definitions", SchemaRule::InlineRefs),
    ("$schema", SchemaRule::NoMetaKeys),
    ("$id", SchemaRule::NoMetaKeys),
    ("$comment", SchemaRule::NoMetaKeys),
    ("additionalproperties", SchemaRule::NoAdditionalProperties),
    ("oneof", SchemaRule::AnyOfOnly),
    ("anyof", SchemaRule::TypeInBranches),
    ("const", SchemaRule::NoConst),
    ("enum", SchemaRule::StringEnums),
    ("pattern", SchemaRule::NoPatterns),
    ("format", SchemaRule::NoPatterns),
    ("minlength", SchemaRule::NoBounds),
    ("maxlength", SchemaRule::NoBounds),
    ("minimum", SchemaRule::NoBounds),
    ("maximum", SchemaRule::NoBounds),
    ("minitems", SchemaRule::NoBounds),
    ("maxitems", SchemaRule::NoBounds),
    ("multipleof", SchemaRule::NoBounds),
    ("items", SchemaRule::OneItemSchema),
    ("type", SchemaRule::TypedProperties),
    ("nullable", SchemaRule::SingleType),
    ("required", SchemaRule::KnownRequired),
];

/// Keywords that are ordinary words too: they count inside a schema alone.
const ORDINARY: [&str; 11] = [
    "type",
    "format",
    "required",
    "items",
    "definitions",
    "const",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "nullable",
];

/// Words that tell that a schema is meant.
const SCHEMAS: [&str; 7] = [
    "schema",
    "parameters",
    "tool",
    "tools",
    "function",
    "functions",
    "grammar",
];

fn is_schema_keyword(name: &str, asked: Suggestions<'_>) -> bool {
    let is_meant = !ORDINARY.contains(&name)
        || !matches!(name, "type" | "format" | "required" | "items")
            && SCHEMAS.iter().any(|word| asked.text.has_word(word));
    is_meant && KEYWORDS.iter().any(|(keyword, _)| *keyword == name)
}

/// The rules for the keywords of a schema that the refusal names.
fn rules(asked: Suggestions<'_>) -> EnumSet<SchemaRule> {
    let in_path = |keyword: &str| asked.clue.names.iter().any(|name| name == keyword);
    let is_inside = asked
        .clue
        .names
        .iter()
        .any(|it| it == "parameters" || it == "inputschema");
    let is_own = |keyword: &str| is_schema_keyword(keyword, asked) || is_inside;
    let named = KEYWORDS.iter().filter(|(keyword, _)| {
        let is_word = is_schema_keyword(keyword, asked) && asked.text.has_word(keyword);
        is_word || is_own(keyword) && in_path(keyword)
    });
    let rules = named.fold(EnumSet::empty(), |set, (_, rule)| set.with(*rule));
    let says_list = ["array", "list"]
        .iter()
        .any(|word| asked.text.has_word(word));
    if rules.contains(SchemaRule::TypedProperties) && says_list {
        return rules.with(SchemaRule::SingleType);
    }
    rules
}

/// The rules that the part of a schema breaks to which the path of a clue leads.
fn rules_of_place(asked: Suggestions<'_>) -> EnumSet<SchemaRule> {
    let Suggestions { sent, clue, .. } = asked;
    let tool = clue.tool.and_then(|place| sent.tools.get(place));
    let inside = clue.names.iter().position(|name| name == "parameters");
    let (Some(tool), Some(inside)) = (tool, inside) else {
        return EnumSet::empty();
    };
    let definition: Value = serde_json::from_str(tool.definition.get()).unwrap_or_default();
    let function = definition.get("function").unwrap_or(&definition);
    let Some(mut node) = function.get("parameters") else {
        return EnumSet::empty();
    };
    let mut keyword = "";
    for name in clue.names.iter().skip(inside + 1) {
        let members = node.as_object().into_iter().flatten();
        let found = members
            .into_iter()
            .find(|(key, _)| plain_name(key) == *name);
        match found {
            Some((_, value)) if value.is_object() => (node, keyword) = (value, ""),
            _ => keyword = name,
        }
    }
    let is_meant = |rule: SchemaRule| match keyword {
        "" => true,
        "type" => matches!(
            rule,
            SchemaRule::TypedProperties | SchemaRule::SingleType | SchemaRule::TypeInBranches
        ),
        keyword => KEYWORDS.contains(&(keyword, rule)),
    };
    let rules = SchemaRule::VARIANTS
        .iter()
        .copied()
        .filter(|rule| is_meant(*rule));
    let broken = rules.filter(|rule| schema::breaks(node, *rule));
    broken.fold(EnumSet::empty(), EnumSet::with)
}

/// Weaker schemas by the keywords that are named, then a plain schema of the tool that is named,
/// then the request without it; fewer tools where a number is named.
fn tools(asked: Suggestions<'_>) -> Vec<Change> {
    let sent = asked.sent;
    let mut changes: Vec<Change> = Vec::new();
    let mut rules = rules_of_place(asked);
    if rules.is_empty() {
        rules = self::rules(asked);
    }
    if rules.is_empty() && matches!(asked.clue.name(), "schema" | "jsonschema" | "parameters") {
        rules = EnumSet::all();
    }
    if !rules.is_empty() {
        changes.push(Change::Quirk(SharedPatch::Schema(rules).into()));
    }
    let named = asked
        .clue
        .tool
        .and_then(|place| sent.tools.get(place))
        .or_else(|| {
            // A keyword alone: the first tool that has it.
            let (keyword, _) = KEYWORDS
                .iter()
                .find(|(keyword, _)| asked.clue.name() == *keyword)?;
            let is_meant = |json: &str| json::may_have(&json.to_ascii_lowercase(), keyword);
            sent.tools
                .iter()
                .find(|tool| is_meant(tool.definition.get()))
        });
    if let Some(tool) = named
        && tool.name != tool.kind
    {
        let name = tool.name.clone().into_owned();
        changes.push(Change::Content(ContentChange::PlainSchema(name.clone())));
        changes.push(Change::Content(ContentChange::WithoutTool(name)));
    }
    let count = u64::try_from(sent.tools.len()).unwrap_or(u64::MAX);
    if asked.clue.tool.is_none() && count > 0 {
        let fewer = asked
            .text
            .numbers()
            .filter(|number| (MIN_MAX_TOOLS..count).contains(number));
        let most = fewer.max().and_then(|most| u16::try_from(most).ok());
        changes.extend(most.map(|most| Change::Quirk(SharedPatch::MaxTools(most).into())));
    }
    changes
}

/// Images by their data alone; then without the image that is named, or as many as a number
/// allows, or without the newest, or all.
fn images(asked: Suggestions<'_>) -> Vec<Change> {
    let Suggestions { sent, clue, text } = asked;
    let images = sent.images();
    let Some(newest) = images.last() else {
        return Vec::new();
    };
    let mut changes: Vec<Change> = Vec::new();
    if images.iter().any(|image| image.is_url) {
        changes.push(Change::Quirk(SharedPatch::NoImageUrls.into()));
    }
    let mut leave_out = |change: ContentChange| {
        let change = Change::Content(change);
        if !changes.contains(&change) {
            changes.push(change);
        }
    };
    let named = images.iter().filter(|image| clue.item == Some(image.item));
    for image in named {
        leave_out(ContentChange::WithoutImage(image.key.clone()));
    }
    let is_lower =
        |number: &u64| usize::try_from(*number).is_ok_and(|it| it > 0 && it < images.len());
    let most = text.numbers().filter(is_lower).max();
    if clue.item.is_none()
        && let Some(most) = most.and_then(|most| u16::try_from(most).ok())
    {
        leave_out(ContentChange::NewestImages(most));
    }
    if clue.item.is_none() && images.len() > 1 && clue.strength < ClueStrength::Word {
        leave_out(ContentChange::WithoutImage(newest.key.clone()));
    }
    leave_out(ContentChange::NewestImages(0));
    changes
}
