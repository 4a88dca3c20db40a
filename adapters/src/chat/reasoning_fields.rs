//! The fields that steer reasoning, to be tried with a provider of which it is not known which of
//! them it takes.

use registry::{ChatQuirks, ReasoningControl};

use crate::effort::EffortLevels;

/// A field of a request that may steer reasoning. Its values are JSON texts.
#[derive(Debug, PartialEq, Eq)]
pub struct ReasoningField {
    /// The name of the field.
    pub name: &'static str,
    /// The value that turns reasoning off.
    pub off: &'static str,
    /// The value that turns it on.
    pub on: &'static str,
    /// The quirk of a provider that takes it.
    control: ReasoningControl,
}

/// The fields that are known. Those that most providers have come first.
const FIELDS: &[ReasoningField] = &[
    ReasoningField {
        name: "thinking",
        off: r#"{"type":"disabled"}"#,
        on: r#"{"type":"enabled"}"#,
        control: ReasoningControl::Thinking,
    },
    ReasoningField {
        name: "reasoning_effort",
        off: r#""none""#,
        on: r#""high""#,
        control: ReasoningControl::Effort,
    },
    ReasoningField {
        name: "enable_thinking",
        off: "false",
        on: "true",
        control: ReasoningControl::EnableThinking,
    },
    ReasoningField {
        name: "reasoning",
        off: r#"{"enabled":false}"#,
        on: r#"{"effort":"high"}"#,
        control: ReasoningControl::Reasoning,
    },
    ReasoningField {
        name: "chat_template_kwargs",
        off: r#"{"enable_thinking":false}"#,
        on: r#"{"enable_thinking":true}"#,
        control: ReasoningControl::TemplateSwitch,
    },
];

/// The fields to try with a provider; none if it is known how reasoning is requested.
pub(crate) fn candidates(quirks: &ChatQuirks) -> &'static [ReasoningField] {
    match quirks.reasoning_control {
        ReasoningControl::None => FIELDS,
        ReasoningControl::Effort
        | ReasoningControl::Thinking
        | ReasoningControl::ThinkingAndEffort
        | ReasoningControl::EnableThinking
        | ReasoningControl::Reasoning
        | ReasoningControl::TemplateSwitch => &[],
    }
}

/// Sets how reasoning is requested of a provider that takes this field, or has listed its effort
/// levels in a refusal. Returns the levels of the model; `None` if nothing is known of either.
pub(crate) fn adopt(
    quirks: &mut ChatQuirks,
    field: Option<&ReasoningField>,
    listed: Option<EffortLevels>,
) -> Option<Vec<String>> {
    let listed: Option<Vec<&str>> = listed.map(|levels| levels.names().collect());
    let (control, levels) = match (field.map(|field| field.control), listed) {
        (Some(ReasoningControl::Thinking), Some(mut listed)) => {
            listed.retain(|level| *level != "none");
            listed.insert(0, "none");
            (ReasoningControl::ThinkingAndEffort, listed)
        }
        (_, Some(listed)) => (ReasoningControl::Effort, listed),
        (Some(control), None) => (control, vec!["none", "high"]),
        (None, None) => return None,
    };
    quirks.reasoning_control = control;
    Some(levels.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_the_listed_levels_decide_how_reasoning_is_requested() {
        let listed = EffortLevels::from_names(&["none", "low", "high"]);
        let [thinking, effort, ..] = FIELDS else {
            unreachable!("there are five");
        };
        for (field, listed, control, levels) in [
            (None, None, ReasoningControl::None, None),
            (
                Some(thinking),
                None,
                ReasoningControl::Thinking,
                Some(&["none", "high"] as &[&str]),
            ),
            (
                Some(thinking),
                listed,
                ReasoningControl::ThinkingAndEffort,
                Some(&["none", "low", "high"]),
            ),
            (
                Some(effort),
                listed,
                ReasoningControl::Effort,
                Some(&["none", "low", "high"]),
            ),
            (
                None,
                listed,
                ReasoningControl::Effort,
                Some(&["none", "low", "high"]),
            ),
        ] {
            let mut quirks = ChatQuirks::default();
            let found = adopt(&mut quirks, field, listed);
            assert_eq!(quirks.reasoning_control, control);
            assert_eq!(
                found,
                levels.map(|levels| levels.iter().map(|level| (*level).to_owned()).collect())
            );
            let is_unknown = control == ReasoningControl::None;
            assert_eq!(candidates(&quirks).is_empty(), !is_unknown, "{control:?}");
        }
    }
}
