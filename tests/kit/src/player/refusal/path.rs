//! The rule `at`: what is refused at a path of the request.

use super::{BreachTokens, RuleBreach};
use crate::player::http::PlayerRequest;
use serde::Deserialize;
use serde_json::{Number, Value, json};
use std::fmt::Write as _;

/// What is refused at a path; without anything else, that something is there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRule {
    /// Names joined by dots, such as `messages[*].content`, `input[-1].type` and
    /// `tools[*].function.parameters.**.$ref`: `**` is any depth.
    path: RulePath,
    /// A value of this form.
    is: Option<ValueForm>,
    /// One of these values.
    r#in: Option<Vec<Value>>,
    /// Any value but these.
    not_in: Option<Vec<Value>>,
    /// A number above this.
    above: Option<Number>,
    /// More characters or elements than this.
    longer: Option<usize>,
    /// A string with this text, or a value whose JSON has it.
    contains: Option<String>,
    /// Only in messages of this role.
    role: Option<String>,
    /// Only where the innermost object also has this member.
    with: Option<String>,
    /// Only in the tool of this name.
    tool: Option<String>,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ValueForm {
    Present,
    /// Its parent is there.
    Missing,
    Null,
    /// `""`, `[]` or `{}`
    Empty,
    String,
    List,
    Object,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct RulePath(Vec<RuleStep>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleStep {
    Name(String),
    Each,
    /// From the end if it is negative.
    At(isize),
    AnyDepth,
}

/// A name or an index of a concrete path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlaceStep {
    Name(String),
    Index(usize),
}

impl TryFrom<String> for RulePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut steps = Vec::new();
        for segment in text.split('.') {
            let mut pieces = segment.split('[');
            match pieces.next().unwrap_or_default() {
                "" => return Err(format!("a name is missing in {text}")),
                "**" => steps.push(RuleStep::AnyDepth),
                name => steps.push(RuleStep::Name(name.to_owned())),
            }
            for piece in pieces {
                let index = piece.strip_suffix(']').filter(|index| !index.is_empty());
                steps.push(match index.map(|index| (index, index.parse())) {
                    Some(("*", _)) => RuleStep::Each,
                    Some((_, Ok(index))) => RuleStep::At(index),
                    _ => return Err(format!("no index in {text}: {piece}")),
                });
            }
        }
        Ok(Self(steps))
    }
}

impl PathRule {
    /// The first value that is refused.
    pub(super) fn breach(&self, request: &PlayerRequest) -> Option<RuleBreach> {
        let mut walk = PathWalk {
            rule: self,
            root: &request.json,
            place: Vec::new(),
        };
        walk.search(&request.json, &request.json, &self.path.0)
    }

    fn refuses(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else {
            return self.is == Some(ValueForm::Missing);
        };
        let has_form = |form| match form {
            ValueForm::Present => true,
            ValueForm::Missing => false,
            ValueForm::Null => value.is_null(),
            ValueForm::Empty => {
                let empty = [json!(""), json!([]), json!({})];
                empty.contains(value)
            }
            ValueForm::String => value.is_string(),
            ValueForm::List => value.is_array(),
            ValueForm::Object => value.is_object(),
        };
        let length = || match value {
            Value::String(text) => text.chars().count(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        let is_above = |limit: &Number| value.as_f64() > limit.as_f64();
        self.is.is_none_or(has_form)
            && self.r#in.as_ref().is_none_or(|list| list.contains(value))
            && !self
                .not_in
                .as_ref()
                .is_some_and(|list| list.contains(value))
            && self.above.as_ref().is_none_or(is_above)
            && self.longer.is_none_or(|limit| length() > limit)
            && self
                .contains
                .as_ref()
                .is_none_or(|text| plain(value).contains(text))
    }

    fn limit(&self) -> String {
        let above = self.above.as_ref().map(Number::to_string);
        let longer = self.longer.map(|limit| limit.to_string());
        above.or(longer).unwrap_or_default()
    }
}

struct PathWalk<'a> {
    rule: &'a PathRule,
    root: &'a Value,
    place: Vec<PlaceStep>,
}

impl PathWalk<'_> {
    /// Goes these steps from a value. `owner` is the innermost object.
    fn search(&mut self, value: &Value, owner: &Value, steps: &[RuleStep]) -> Option<RuleBreach> {
        let Some((step, rest)) = steps.split_first() else {
            return self.judge(Some(value), owner);
        };
        let owner = if value.is_object() { value } else { owner };
        match step {
            RuleStep::Name(name) => {
                let object = value.as_object()?;
                let step = PlaceStep::Name(name.clone());
                match object.get(name) {
                    Some(member) => self.enter(step, member, owner, rest),
                    None if rest.is_empty() => {
                        self.place.push(step);
                        let breach = self.judge(None, owner);
                        self.place.pop();
                        breach
                    }
                    None => None,
                }
            }
            RuleStep::Each => {
                let mut elements = value.as_array()?.iter().enumerate();
                elements.find_map(|(at, element)| {
                    self.enter(PlaceStep::Index(at), element, owner, rest)
                })
            }
            RuleStep::At(index) => {
                let list = value.as_array()?;
                let at = usize::try_from(*index).ok();
                let at = at.or_else(|| list.len().checked_add_signed(*index))?;
                self.enter(PlaceStep::Index(at), list.get(at)?, owner, rest)
            }
            RuleStep::AnyDepth => self.search(value, owner, rest).or_else(|| match value {
                Value::Array(list) => list.iter().enumerate().find_map(|(at, element)| {
                    self.enter(PlaceStep::Index(at), element, owner, steps)
                }),
                Value::Object(object) => object.iter().find_map(|(name, member)| {
                    self.enter(PlaceStep::Name(name.clone()), member, owner, steps)
                }),
                _ => None,
            }),
        }
    }

    fn enter(
        &mut self,
        step: PlaceStep,
        value: &Value,
        owner: &Value,
        steps: &[RuleStep],
    ) -> Option<RuleBreach> {
        self.place.push(step);
        let breach = self.search(value, owner, steps);
        self.place.pop();
        breach
    }

    fn judge(&self, value: Option<&Value>, owner: &Value) -> Option<RuleBreach> {
        let rule = self.rule;
        let has = |name: &String| owner.get(name).is_some();
        let is_in_role = |role: &String| self.element("role").as_ref() == Some(role);
        let is_in_tool = |name: &String| self.element("name").as_ref() == Some(name);
        let is_refused = rule.refuses(value)
            && rule.with.as_ref().is_none_or(has)
            && rule.role.as_ref().is_none_or(is_in_role)
            && rule.tool.as_ref().is_none_or(is_in_tool);
        is_refused.then(|| RuleBreach {
            found: value.map(plain).unwrap_or_default(),
            index: first_index(&self.place).unwrap_or_default(),
            place: self.place.clone(),
            tokens: BreachTokens {
                limit: rule.limit(),
                ..BreachTokens::default()
            },
        })
    }

    /// A text of the message or the tool in which this place is.
    fn element(&self, name: &str) -> Option<String> {
        let Some(PlaceStep::Name(list)) = self.place.first() else {
            return None;
        };
        let element = self.root.get(list)?.get(first_index(&self.place)?)?;
        let element = element.get("function").unwrap_or(element);
        element.get(name)?.as_str().map(str::to_owned)
    }
}

/// A string as it is, another value as JSON.
fn plain(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

fn first_index(place: &[PlaceStep]) -> Option<usize> {
    place.iter().find_map(|step| match step {
        PlaceStep::Index(at) => Some(*at),
        PlaceStep::Name(_) => None,
    })
}

/// A concrete path in the forms that servers write: `messages[2].content`, with dots, with
/// slashes, as a list in JSON, and its last name.
pub(super) fn place_forms(place: &[PlaceStep]) -> [(&'static str, String); 5] {
    let mut path = String::new();
    for step in place {
        // Writing to a String cannot fail.
        let _ = match step {
            PlaceStep::Name(name) if path.is_empty() => write!(path, "{name}"),
            PlaceStep::Name(name) => write!(path, ".{name}"),
            PlaceStep::Index(at) => write!(path, "[{at}]"),
        };
    }
    let texts = place.iter().map(|step| match step {
        PlaceStep::Name(name) => name.clone(),
        PlaceStep::Index(at) => at.to_string(),
    });
    let texts: Vec<String> = texts.collect();
    let values = place.iter().map(|step| match step {
        PlaceStep::Name(name) => json!(name),
        PlaceStep::Index(at) => json!(at),
    });
    let loc: Value = std::iter::once(json!("body")).chain(values).collect();
    let name = place.iter().rev().find_map(|step| match step {
        PlaceStep::Name(name) => Some(name.clone()),
        PlaceStep::Index(_) => None,
    });
    [
        ("{path}", path),
        ("{dots}", texts.join(".")),
        ("{slashes}", texts.join("/")),
        ("{loc}", loc.to_string()),
        ("{name}", name.unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests;
