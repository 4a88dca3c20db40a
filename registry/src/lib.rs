#![doc = include_str!("../README.md")]
//!
//! # The code
//!
//! Providers and their models, as data, and the resolution of model names to routes. The
//! registry says which wire (protocol) a provider uses, but contains no wire format.
//!
//! | module | contents |
//! |---|---|
//! | [`lookup`] | [`Registry`], which resolves a model name to a [`Route`] |
//! | [`check`] | finds names in the configuration that lead to no model |
//! | [`provider`] | [`Provider`], its timeouts and keys; [`ProviderSpec`], its TOML form |
//! | [`wire`] | [`Wire`], and [`WireQuirks`]: a wire with its quirks |
//! | [`chat_quirks`] | how a provider differs from plain Chat Completions |
//! | [`relay_quirks`] | how a provider differs from OpenAI's own Responses API |
//! | [`shared_quirks`] | the values of quirks that several wires have |
//! | [`dialect`] | [`Dialect`]: quirks and extra body fields; [`ModelFamily`]: those of some models |
//! | [`model`] | [`Model`], [`Price`] and [`Window`] |
//! | [`discovery`] | the models that providers list themselves |
//! | [`builtin`] | the embedded TOML files, and a configuration laid over them |
//! | [`snapshot`] | the routes of one turn, stored in diagnostics and restored for a replay |
//! | [`duration`] | durations in TOML, such as `"10s"` |
//! | [`enum_set`] | [`EnumSet`], a set of enum values |
//! | [`lists`] | a string or a list, and a table in file order |
//! | [`serde_names`](mod@serde_names) | the names of the fields of a struct, or of the variants of an enum |
//! | [`suggest`] | known words similar to a misspelt one |

pub mod builtin;
pub mod chat_quirks;
pub mod check;
pub mod dialect;
pub mod discovery;
pub mod duration;
pub mod enum_set;
pub mod lists;
pub mod lookup;
pub mod model;
pub mod provider;
pub mod relay_quirks;
pub mod serde_names;
pub mod shared_quirks;
pub mod snapshot;
pub mod suggest;
pub mod wire;

pub use builtin::{SANDBOX, build};
pub use chat_quirks::{
    CallArguments, CallContent, CallIds, ChatQuirks, ContentForm, ExtraContentReplay,
    MaxTokensField, ProviderSearch, ReasoningControl, ReasoningReplay, ReasoningRequired,
    SystemPlace, ThinkTags,
};
pub use check::{RegistryError, UnresolvedName};
pub use dialect::{Dialect, ModelFamily, ModelPatterns};
pub use discovery::{DiscoveredModels, Discovery, ModelSet};
pub use enum_set::EnumSet;
pub use lookup::{EVERY_MODEL, Registry, ResolvedBy, Route, UnknownModel};
pub use model::{Model, Price, Window, WindowSource};
pub use provider::{PromptCache, Provider, ProviderSpec, Timeouts};
pub use relay_quirks::{RelayQuirks, RelayToolKind};
pub use serde_names::serde_names;
pub use shared_quirks::{ResponseFormat, SchemaRule, SystemRole, ToolChoiceMode};
pub use snapshot::{RegistrySnapshot, RouteSnapshot};
pub use wire::{QuirksTable, Wire, WireQuirks};
