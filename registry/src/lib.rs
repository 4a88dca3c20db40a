//! Who we talk to, as data: providers and their models, and the lookup of a
//! model name. No wire format lives here, only which one a provider speaks.
//!
//! | module | noun |
//! |---|---|
//! | [`lookup`] | `Registry`, from a model name to a `Route` |
//! | [`provider`] | `Provider`, its wire, timeouts and where its keys are |
//! | [`quirks`] | how a provider departs from the plain chat wire |
//! | [`dialect`] | `Dialect` and `Family`, quirks by model |
//! | [`set`] | `Set`, a list of an enum's values |
//! | [`model`] | `Model`, `Price` and the `Window` |
//! | [`builtin`] | the embedded files and how a configuration is laid over them |
//! | [`settings`] | what one turn used of all this, to be kept and used again |
//! | [`duration`] | `"10s"` as a duration |
//! | [`near`] | the nearest known word to a mistyped one |

pub mod builtin;
pub mod dialect;
pub mod duration;
pub mod enum_set;
pub mod lists;
pub mod lookup;
pub mod model;
pub mod provider;
pub mod quirks;
pub mod snapshot;
pub mod suggest;

pub use builtin::{SANDBOX, build};
pub use dialect::{Dialect, ModelFamily};
pub use enum_set::EnumSet;
pub use lookup::{EVERY_MODEL, Registry, RegistryError, ResolvedBy, Route, UnknownModel};
pub use model::{Model, Price, Window, WindowSource};
pub use provider::{Provider, ProviderSpec, Timeouts, Wire};
pub use quirks::{
    CallContent, CallIds, ExtraContentReplay, MaxTokensField, Quirks, ReasoningControl,
    ReasoningReplay, ReasoningRequired, ResponseFormat, SchemaRule, SystemPlace, SystemRole,
    ThinkTags, ToolChoiceMode,
};
pub use snapshot::{RegistrySnapshot, RouteSnapshot};
