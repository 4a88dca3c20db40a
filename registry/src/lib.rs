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
pub mod lists;
pub mod lookup;
pub mod model;
pub mod near;
pub mod provider;
pub mod quirks;
pub mod set;
pub mod settings;

pub use builtin::{SANDBOX, build};
pub use dialect::{Dialect, Family};
pub use lookup::{EVERY_MODEL, Found, Refused, Registry, Route, Unresolved};
pub use model::{Model, Price, Window, WindowSource};
pub use provider::{Provider, Spec, Timeouts, Wire};
pub use quirks::{
    CallContent, CallExtra, CallIds, MaxTokensField, Quirks, ReasoningControl, ReasoningReplay,
    ReasoningRequired, ResponseFormat, SchemaRule, SystemPlace, SystemRole, ThinkTags, ToolChoice,
};
pub use set::Set;
pub use settings::{RouteSettings, Settings};
