//! Dialects of the player: with one switch set, or with a random combination of all switches.
use kit::player::ChatDialect;
use kit::player::dialect::{
    ArgumentsForm, CallIdPlacement, CallIndexing, CallNamePlacement, EventFraming,
    FinishReasonForm, LineEnding, ReasoningPlacement, ReplyForm, StreamErrorForm, UsagePlacement,
};
use proptest::prelude::*;

const REASONING: [ReasoningPlacement; 8] = [
    ReasoningPlacement::ReasoningContent,
    ReasoningPlacement::Reasoning,
    ReasoningPlacement::BothNames,
    ReasoningPlacement::ReasoningDetails,
    ReasoningPlacement::ReasoningAndDetails,
    ReasoningPlacement::ContentList,
    ReasoningPlacement::ThinkTags,
    ReasoningPlacement::UnopenedThink,
];
const IDS: [CallIdPlacement; 6] = [
    CallIdPlacement::First,
    CallIdPlacement::Missing,
    CallIdPlacement::Empty,
    CallIdPlacement::EmptyLater,
    CallIdPlacement::Late,
    CallIdPlacement::Repeated,
];
const INDEX: [CallIndexing; 4] = [
    CallIndexing::Counted,
    CallIndexing::FromOne,
    CallIndexing::Zero,
    CallIndexing::Missing,
];
const NAMES: [CallNamePlacement; 4] = [
    CallNamePlacement::First,
    CallNamePlacement::Late,
    CallNamePlacement::Repeated,
    CallNamePlacement::EmptyLater,
];
const ARGUMENTS: [ArgumentsForm; 4] = [
    ArgumentsForm::Pieces,
    ArgumentsForm::PiecesAtOnce,
    ArgumentsForm::Whole,
    ArgumentsForm::Object,
];
const USAGE: [UsagePlacement; 6] = [
    UsagePlacement::Apart,
    UsagePlacement::OnFinish,
    UsagePlacement::InChoice,
    UsagePlacement::XGroq,
    UsagePlacement::EveryChunk,
    UsagePlacement::Nowhere,
];
const FINISH: [FinishReasonForm; 7] = [
    FinishReasonForm::NullBefore,
    FinishReasonForm::AbsentBefore,
    FinishReasonForm::EmptyBefore,
    FinishReasonForm::Repeated,
    FinishReasonForm::StopAlways,
    FinishReasonForm::Unknown,
    FinishReasonForm::Missing,
];
const FORMS: [ReplyForm; 3] = [ReplyForm::Asked, ReplyForm::Document, ReplyForm::Events];

pub fn error_forms() -> [StreamErrorForm; 7] {
    [
        StreamErrorForm::Chunk,
        StreamErrorForm::InChunk,
        StreamErrorForm::Event,
        StreamErrorForm::List,
        StreamErrorForm::Bare,
        StreamErrorForm::Document,
        StreamErrorForm::Html,
    ]
}

/// The default dialect, and one dialect for every other value of each switch.
pub fn single_switches() -> Vec<ChatDialect> {
    let mut all = vec![ChatDialect::default()];
    let mut with = |change: &dyn Fn(&mut ChatDialect)| {
        let mut dialect = ChatDialect::default();
        change(&mut dialect);
        all.push(dialect);
    };
    for value in REASONING {
        with(&|dialect| dialect.reasoning = value);
    }
    for value in IDS {
        with(&|dialect| dialect.ids = value);
    }
    for value in INDEX {
        with(&|dialect| dialect.index = value);
    }
    for value in NAMES {
        with(&|dialect| dialect.names = value);
    }
    for value in ARGUMENTS {
        with(&|dialect| dialect.arguments = value);
    }
    for value in USAGE {
        with(&|dialect| dialect.usage = value);
    }
    for value in FINISH {
        with(&|dialect| dialect.finish = value);
    }
    for value in FORMS {
        with(&|dialect| dialect.form = value);
    }
    for value in [LineEnding::CrLf, LineEnding::Cr] {
        with(&|dialect| dialect.framing.line_end = value);
    }
    with(&|dialect| dialect.interleaved = true);
    with(&|dialect| dialect.role_everywhere = true);
    with(&|dialect| dialect.nulls = true);
    with(&|dialect| dialect.chunk_without_choices = true);
    with(&|dialect| dialect.framing.bom = true);
    with(&|dialect| dialect.framing.tight = true);
    with(&|dialect| dialect.framing.comments = true);
    with(&|dialect| dialect.framing.named = true);
    with(&|dialect| dialect.framing.two_lines = true);
    with(&|dialect| dialect.framing.no_done = true);
    // A call without id and index, which only its name marks as a call of its own.
    with(&|dialect| {
        dialect.ids = CallIdPlacement::Missing;
        dialect.index = CallIndexing::Missing;
    });
    all.into_iter().map(with_distinguishable_calls).collect()
}

/// A random dialect in which calls can be distinguished.
pub fn any_dialect() -> impl Strategy<Value = ChatDialect> {
    let select = prop::sample::select::<ReasoningPlacement>;
    let call_form = (
        prop::sample::select(IDS.to_vec()),
        prop::sample::select(INDEX.to_vec()),
        prop::sample::select(NAMES.to_vec()),
        prop::sample::select(ARGUMENTS.to_vec()),
        any::<bool>(),
    );
    let places = (
        select(REASONING.to_vec()),
        prop::sample::select(USAGE.to_vec()),
        prop::sample::select(FINISH.to_vec()),
        prop::sample::select(FORMS.to_vec()),
    );
    let line_end = prop::sample::select(vec![LineEnding::Lf, LineEnding::CrLf, LineEnding::Cr]);
    (call_form, places, line_end, any::<[bool; 10]>()).prop_map(|(calls, places, line_end, on)| {
        let (ids, index, names, arguments, interleaved) = calls;
        let (reasoning, usage, finish, form) = places;
        let [
            role_everywhere,
            nulls,
            chunk_without_choices,
            mislabelled,
            bom,
            tight,
            comments,
            named,
            two_lines,
            no_done,
        ] = on;
        with_distinguishable_calls(ChatDialect {
            reasoning,
            reasoning_switch: None,
            ids,
            index,
            names,
            arguments,
            interleaved,
            usage,
            finish,
            role_everywhere,
            nulls,
            chunk_without_choices,
            framing: EventFraming {
                line_end,
                bom,
                tight,
                comments,
                named,
                two_lines,
                no_done,
            },
            form,
            mislabelled,
            error: StreamErrorForm::Chunk,
            error_done: false,
        })
    })
}

/// Resets switches that would make one call indistinguishable from the next. Where the index does
/// not distinguish them, a piece with a new id or with a name begins a call, and calls are sent
/// one after the other. An id that is sent with a second name always belongs to another call.
fn with_distinguishable_calls(mut dialect: ChatDialect) -> ChatDialect {
    let whole = matches!(
        dialect.arguments,
        ArgumentsForm::Whole | ArgumentsForm::Object
    );
    if !whole
        && dialect.ids == CallIdPlacement::Late
        && dialect.names == CallNamePlacement::Repeated
    {
        dialect.names = CallNamePlacement::First;
    }
    // Calls have the order in which their names arrive.
    dialect.interleaved &= dialect.names != CallNamePlacement::Late;
    match dialect.index {
        CallIndexing::Counted | CallIndexing::FromOne => return dialect,
        CallIndexing::Zero => {
            dialect.interleaved = false;
            let late = !whole && dialect.ids == CallIdPlacement::Late;
            if late
                || matches!(
                    dialect.ids,
                    CallIdPlacement::Missing | CallIdPlacement::Empty
                )
            {
                dialect.ids = CallIdPlacement::First;
            }
        }
        CallIndexing::Missing => {
            dialect.interleaved &= dialect.ids == CallIdPlacement::Repeated;
            if !whole && dialect.ids == CallIdPlacement::Late {
                dialect.ids = CallIdPlacement::First;
            }
            if !whole && dialect.ids != CallIdPlacement::Repeated {
                dialect.names = CallNamePlacement::First;
            }
        }
    }
    dialect
}
