//! What a client's definition of the hosted tool `web_search` asks for.
//!
//! The fields are those of OpenAI's API reference; `blocked_domains` is an extension of others.

use registry::RelayToolKind;
use serde_json::value::RawValue;

use super::Toolbox;
use crate::fault::Fault;
use crate::members::Members;

/// The most domains of a list, as OpenAI has it.
const MAX_DOMAINS: usize = 100;

/// The settings of `web_search` in one request.
#[derive(Clone, Debug)]
pub struct WebSearchDefinition<'a> {
    /// Only pages of these domains and of those below them, if there are any.
    pub allowed_domains: Vec<String>,
    /// No pages of these domains and of those below them.
    pub blocked_domains: Vec<String>,
    /// Whether the web may be asked, and not only what is known from before. A mode by name allows
    /// an index of OpenAI, which no one else has.
    pub external_web_access: bool,
    /// Where the user is, as the client wrote it.
    pub user_location: Option<&'a RawValue>,
    /// How much of a search the model gets, as the client wrote it.
    pub search_context_size: Option<&'a RawValue>,
}

impl<'a> WebSearchDefinition<'a> {
    /// Reads a definition. What would limit the search and cannot be read is an error; anything
    /// else that cannot be read is left to whoever needs it.
    pub fn read(definition: &'a RawValue) -> Result<Self, Fault> {
        let members = Members::read(definition.get());
        let member = |name: &str| given(members.as_ref()?.get(name)?);
        let filters = member("filters");
        let lists = match filters {
            None => None,
            Some(filters) if filters.get().starts_with('{') => Members::read(filters.get()),
            Some(_) => return Err(wrong("filters", "an object")),
        };
        let domains = |name: &'static str| {
            let list = lists.as_ref().and_then(|lists| given(lists.get(name)?));
            let list = list.map_or("[]", RawValue::get);
            let list: Option<Vec<String>> = serde_json::from_str(list).ok();
            let list = list.filter(|list| list.len() <= MAX_DOMAINS);
            list.ok_or_else(|| {
                let expected = format!("a list of at most {MAX_DOMAINS} domains");
                wrong(&format!("filters.{name}"), &expected)
            })
        };
        Ok(Self {
            allowed_domains: domains("allowed_domains")?,
            blocked_domains: domains("blocked_domains")?,
            external_web_access: member("external_web_access")
                .is_none_or(|raw| raw.get() == "true"),
            user_location: member("user_location"),
            search_context_size: member("search_context_size"),
        })
    }

    /// That of a request; `None` if it does not offer the tool.
    pub fn of(tools: &Toolbox<'a>) -> Option<Result<Self, Fault>> {
        let mut definitions = tools.hosted(RelayToolKind::WebSearch);
        definitions.next().map(Self::read)
    }

    /// Whether pages of some domains only are wanted.
    pub(crate) fn has_domains(&self) -> bool {
        !self.allowed_domains.is_empty() || !self.blocked_domains.is_empty()
    }
}

fn given(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

fn wrong(field: &str, expected: &str) -> Fault {
    let message = format!("'{field}' of the tool 'web_search' must be {expected}.");
    Fault::invalid("tools", message)
}
